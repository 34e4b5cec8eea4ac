#!/usr/bin/python3
"""Writes a file of promtool's cases again, as a Prometheus sees it whose targets come from a ServiceMonitor of prometheus-operator.

  operator_labels.py CASES.yaml OUT.yaml

Each series gets the labels of a target: namespace, pod, container, endpoint and service, and cluster, which many add. A label of
the series itself that has such a name becomes exported_<name>, as in a scrape. The alerts that are expected keep cluster and
namespace, and those of one instance its pod. A case that names a cluster keeps it.
"""
import re
import sys
from pathlib import Path

import yaml

LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
# A case has these because Prometheus gives them.
OF_THE_TARGET = ("job", "instance", "cluster")


def target_labels(labels):
    return {
        "cluster": labels.get("cluster", "east"), "namespace": "jobs", "pod": f"pod-{labels.get('instance', '')}",
        "container": "escapement", "endpoint": "metrics", "service": "escapement-metrics",
    }


def split(series):
    name, _, labels = series.partition("{")
    return name, dict(LABEL.findall(labels))


def joined(name, labels):
    return name + "{" + ", ".join(f'{key}="{value}"' for key, value in labels.items()) + "}"


def scraped(series):
    name, labels = split(series)
    target = target_labels(labels)
    own = {f"exported_{key}" if key in target and key not in OF_THE_TARGET else key: value for key, value in labels.items()}
    return joined(name, own | target)


def alert(series):
    name, labels = split(series)
    target = target_labels(labels)
    kept = ("cluster", "namespace", "pod") if "instance" in labels else ("cluster", "namespace")
    return joined(name, labels | {key: target[key] for key in kept})


def main():
    source, out = map(Path, sys.argv[1:])
    cases = yaml.safe_load(source.read_text(encoding="utf-8"))
    cases["rule_files"] = [str((source.parent / file).resolve()) for file in cases["rule_files"]]
    for case in cases["tests"]:
        for series in case["input_series"]:
            series["series"] = scraped(series["series"])
        for test in case["promql_expr_test"]:
            for sample in test["exp_samples"]:
                sample["labels"] = alert(sample["labels"])
    out.write_text(yaml.safe_dump(cases, width=1000000), encoding="utf-8")


if __name__ == "__main__":
    main()
