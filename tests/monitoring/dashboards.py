"""Reads the dashboards of deploy/grafana as Grafana does: expressions with values for the variables."""
import json
import re
from pathlib import Path

NAMES = ("overview", "delivery", "throttling", "store")
FOLDER = Path("deploy/grafana")
NAMES_OF_VARIABLES = ("cluster", "namespace", "job", "cell", "pod", "instance")
VARIABLES = {f"${name}": ".*" for name in NAMES_OF_VARIABLES} | {"$__rate_interval": "10s"}


def load(name):
    return json.loads((FOLDER / f"escapement-{name}.json").read_text(encoding="utf-8"))


def panels(dashboard):
    return [panel for panel in dashboard["panels"] if panel["type"] != "row"]


def without_variables(expression):
    for name, value in VARIABLES.items():
        expression = expression.replace(name, value)
    return expression


def expressions(panel):
    """Pairs of an expression, without variables, and its legend."""
    return [(without_variables(target["expr"]), target.get("legendFormat", "")) for target in panel["targets"]]


class PanelReader:
    """The values that a panel shows now."""

    def __init__(self, prometheus):
        self._prometheus = prometheus
        self._panels = {(name, panel["title"]): panel for name in NAMES for panel in panels(load(name))}

    def read(self, dashboard, title):
        """A dictionary of legends and values; NaN is left out, as Grafana draws nothing then."""
        values = {}
        panel = self._panels[dashboard, title]
        for expression, legend in expressions(panel):
            for labels, value in self._prometheus.query(expression):
                if value == value:
                    values[re.sub(r"{{(\w+)}}", lambda found: labels.get(found[1], ""), legend).strip()] = value
        return values

    def unit(self, dashboard, title):
        return self._panels[dashboard, title]["fieldConfig"]["defaults"]["unit"]
