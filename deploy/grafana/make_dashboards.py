#!/usr/bin/env python3
"""Writes the dashboards: panels/*.py, in Grafana's JSON, beside this file.

  make_dashboards.py            writes the files
  make_dashboards.py --check    exits 1 if a file is not as it would be written
"""
import argparse
import json
import sys
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))
from panels.delivery import DELIVERY  # noqa: E402
from panels.overview import OVERVIEW  # noqa: E402
from panels.store import STORE  # noqa: E402
from panels.throttling import THROTTLING  # noqa: E402

DASHBOARDS = [OVERVIEW, DELIVERY, THROTTLING, STORE]
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
CHOSEN_JOBS = 'cluster=~"$cluster",namespace=~"$namespace",job=~"$job",cell=~"$cell"'
CHOSEN = CHOSEN_JOBS + ',pod=~"$pod",instance=~"$instance"'
# The chart puts its value metrics.rules.runbookUrl in the place.
RUNBOOKS = "https://escapement.example/docs/runbooks/"


def expression(text):
    """An expression of a panel, as Grafana gets it."""
    return text.replace("{@job", "{" + CHOSEN_JOBS).replace("{@", "{" + CHOSEN)


def target(panel, number, query, legend):
    made = {"datasource": DATASOURCE, "editorMode": "code", "expr": expression(query), "refId": chr(ord("A") + number)}
    if panel.kind == "table":
        return made | {"format": "table", "instant": True, "range": False}
    if panel.kind == "stat":
        return made | {"legendFormat": legend, "instant": True, "range": False}
    if panel.kind == "heatmap":
        made |= {"format": "heatmap"}
    return made | {"legendFormat": legend, "range": True}


def field_defaults(panel):
    steps = [{"color": color, "value": None if number == 0 else value} for number, (value, color) in enumerate(panel.steps)]
    defaults = {
        "unit": panel.unit,
        "color": {"mode": "thresholds" if panel.steps else "palette-classic"},
        "thresholds": {"mode": "absolute", "steps": steps or [{"color": "green", "value": None}]},
    }
    if panel.kind == "timeseries":
        defaults["custom"] = {
            "drawStyle": "line", "fillOpacity": 10, "lineWidth": 1, "showPoints": "never", "spanNulls": False,
            "scaleDistribution": {"type": "log", "log": 10} if panel.log else {"type": "linear"},
            "stacking": {"mode": "normal" if panel.stacked else "none", "group": "A"},
        }
        if not panel.log and panel.unit in ("reqps", "percentunit", "bytes"):
            defaults["min"] = 0
    if panel.top is not None:
        defaults["max"] = panel.top
    return defaults


def options(panel):
    if panel.kind == "stat":
        return {"colorMode": "value", "graphMode": "none", "justifyMode": "auto", "textMode": "auto",
                "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False}}
    if panel.kind == "table":
        return {"showHeader": True, "cellHeight": "sm", "footer": {"show": False}}
    if panel.kind == "heatmap":
        return {"calculate": False, "cellGap": 1, "color": {"mode": "scheme", "scheme": "Oranges", "steps": 64},
                "yAxis": {"axisPlacement": "left", "unit": panel.unit}, "tooltip": {"show": True, "yHistogram": False},
                "legend": {"show": True}}
    return {"legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
            "tooltip": {"mode": "multi", "sort": "desc"}}


def table_transformations(panel):
    """One row for each set of labels, with the columns that the panel names, in its order."""
    order = {name: number for number, name in enumerate(panel.columns)}
    hidden = {"Time": True} | {f"Value #{chr(ord('A') + number)}": True for number in range(len(panel.queries))}
    return [{"id": "merge", "options": {}},
            {"id": "organize", "options": {"renameByName": panel.columns, "indexByName": order,
                                           "excludeByName": {name: True for name in hidden if name not in panel.columns}}}]


def panel_json(panel, number, x, y):
    made = {
        "id": number, "type": panel.kind, "title": panel.title, "description": panel.description, "datasource": DATASOURCE,
        "gridPos": {"h": panel.height, "w": panel.width, "x": x, "y": y},
        "targets": [target(panel, at, query, legend) for at, (query, legend) in enumerate(panel.queries)],
        "fieldConfig": {"defaults": field_defaults(panel), "overrides": []},
        "options": options(panel),
    }
    if panel.runbook:
        made["links"] = [{"title": f"Runbook: {panel.runbook}", "url": f"{RUNBOOKS}{panel.runbook}.md", "targetBlank": True}]
    if panel.kind == "table":
        made["transformations"] = table_transformations(panel)
    return made


def panels_json(rows):
    panels, number, y = [], 0, 0
    for row in rows:
        number += 1
        panels.append({"id": number, "type": "row", "title": row.title, "collapsed": False, "panels": [],
                       "gridPos": {"h": 1, "w": 24, "x": 0, "y": y}})
        y += 1
        x = tallest = 0
        for panel in row.panels:
            if x + panel.width > 24:
                y, x, tallest = y + tallest, 0, 0
            number += 1
            panels.append(panel_json(panel, number, x, y))
            x, tallest = x + panel.width, max(tallest, panel.height)
        y += tallest
    return panels


def label_variable(name, label, query):
    return {"name": name, "label": label, "type": "query", "datasource": DATASOURCE, "definition": query,
            "query": {"query": query, "refId": name}, "multi": True, "includeAll": True, "allValue": ".*",
            "current": {"selected": True, "text": ["All"], "value": ["$__all"]}, "refresh": 2, "sort": 1, "hide": 0}


def annotation(name, color, query, text):
    """Marks in every panel when the query has values."""
    return {"name": name, "datasource": DATASOURCE, "enable": True, "hide": False, "iconColor": color, "expr": expression(query),
            "step": "60s", "titleFormat": name, "textFormat": text}


ANNOTATIONS = [
    annotation("Alert", "red", 'ALERTS{@job,alertname=~"Escapement.*",alertstate="firing"}', 
               "{{alertname}} ({{severity}}) {{pod}} {{instance}}"),
    annotation("Restart", "blue", "(time() - process_start_time_seconds{@} < 60) and on (job, instance) escapement_build_info{@}",
               "{{pod}} {{instance}}"),
    annotation("New leader", "purple", "changes(escapement_store_leads{@}[1m]) > 0 and escapement_store_leads{@} == 1", "{{pod}} {{instance}}"),
]


def dashboard_json(dashboard):
    return {
        "uid": f"escapement-{dashboard.name}", "title": dashboard.title, "description": dashboard.description,
        "tags": ["escapement"], "schemaVersion": 39, "version": 1, "editable": True, "graphTooltip": 1, "timezone": "browser",
        "refresh": "30s", "time": {"from": "now-1h", "to": "now"}, "annotations": {"list": ANNOTATIONS},
        "links": [{"type": "dashboards", "title": "Escapement", "tags": ["escapement"], "asDropdown": False, "includeVars": True,
                   "keepTime": True, "targetBlank": False}],
        "templating": {"list": [
            {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus", "current": {}, "hide": 0,
             "includeAll": False, "multi": False, "refresh": 1},
            label_variable("cluster", "Cluster", "label_values(escapement_build_info, cluster)"),
            label_variable("namespace", "Namespace", 'label_values(escapement_build_info{cluster=~"$cluster"}, namespace)'),
            label_variable("job", "Job", 'label_values(escapement_build_info{cluster=~"$cluster",namespace=~"$namespace"}, job)'),
            label_variable("cell", "Cell", 'label_values(escapement_build_info{cluster=~"$cluster",namespace=~"$namespace",job=~"$job"}, cell)'),
            label_variable("pod", "Pod", expression("label_values(escapement_build_info{@job}, pod)")),
            label_variable("instance", "Instance", expression('label_values(escapement_build_info{@job,pod=~"$pod"}, instance)'))]},
        "panels": panels_json(dashboard.rows),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing")
    check = parser.parse_args().check
    status = 0
    for dashboard in DASHBOARDS:
        file = Path(__file__).resolve().parent / f"escapement-{dashboard.name}.json"
        text = json.dumps(dashboard_json(dashboard), indent=1, ensure_ascii=False) + "\n"
        if not check:
            file.write_text(text, encoding="utf-8")
        elif not file.exists() or file.read_text(encoding="utf-8") != text:
            print(f"{file.name} is not up to date: run deploy/grafana/make_dashboards.py")
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
