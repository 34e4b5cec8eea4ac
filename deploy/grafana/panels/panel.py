"""Row and Panel: the compact form in which the dashboards are written. make_dashboards.py turns them into Grafana's JSON.

In an expression, {@} stands for the chosen clusters, namespaces, jobs, cells, pods and instances, and {@job} without the pods and
instances: for recorded series, which have none. The home cell has no label `cell`. A selector with other labels begins so: {@,state="open"}.
"""
from dataclasses import dataclass, field


@dataclass
class Panel:
    title: str
    description: str  # the question that the panel answers, and what a healthy value is
    unit: str  # Grafana's id of a unit: s, reqps, percentunit, bytes, short …
    queries: list  # pairs of an expression and its legend
    kind: str = "timeseries"  # timeseries, stat, table or heatmap
    width: int = 8  # of 24
    height: int = 8
    steps: list = field(default_factory=list)  # thresholds: pairs of a lower bound and a colour
    top: float | None = None  # upper end of the axis
    log: bool = False  # logarithmic axis
    stacked: bool = False
    columns: dict = field(default_factory=dict)  # table: label or value -> heading; others are hidden
    runbook: str = ""  # the alert that fires if the panel looks bad: the panel links to its runbook


@dataclass
class Row:
    title: str  # a question
    panels: list


@dataclass
class Dashboard:
    name: str  # of the file, and the end of the uid
    title: str
    description: str
    rows: list


def quantiles(metric, by="", labels="@"):
    """Queries of the median, the 99th percentile and the 99.9th percentile of a histogram."""
    keys = f"le, {by}" if by else "le"
    legend = "".join(f" {{{{{label}}}}}" for label in reversed(by.split(", "))) if by else ""
    return [(f"histogram_quantile({q}, sum by ({keys}) (rate({metric}_bucket{{{labels}}}[$__rate_interval])))", name + legend)
            for q, name in ((0.5, "p50"), (0.99, "p99"), (0.999, "p99.9"))]


def rate(metric, by="", labels="@"):
    """The rate of a counter, summed."""
    of = f" by ({by})" if by else ""
    return f"sum{of} (rate({metric}{{{labels}}}[$__rate_interval]))"
