"""Text of docs/operations/metrics.md, made of what the programs answer at /metrics."""
import re

HEADER = """# All metrics

Each process answers `/metrics` on its HTTP port. This page is written from those answers by `tools/dev metrics`; a test fails if it is out of date.
`standalone` has the metrics of all programs. A series with labels appears when it is first counted.

- Names end with their unit: `_seconds`, `_bytes`, `_total` for counters. A histogram `x` has `x_bucket`, `x_sum` and `x_count`.
- No label has an id. The only label with names that users chose is `policy`, for at most 100 policies of a token manager.
- A master that takes events from Kafka also has those of [kafka_ingest.md](kafka_ingest.md).
- A process with certificate files also has those of [tls.md](tls.md#watch).

[monitoring.md](monitoring.md) says which to watch, and when you are woken.
"""
GROUPS = [
    ("All programs", r"process_|escapement_(build_info|ready|rpc_|tzdata_|store_sessions_|leases_)"),
    ("Master", "escapement_master_"),
    ("Emitter", "escapement_(emitter_|run_at_risk)"),
    ("Handler", "escapement_handler_"),
    ("Token manager", "escapement_token"),
    ("Store", "escapement_store_"),
]
LABEL = re.compile(r'([a-z_]+)="')


class Metric:
    def __init__(self, kind, text):
        self.kind, self.text, self.labels, self.programs = kind, text, set(), set()


def collect(pages):
    """Returns the metrics by name. `pages`: for each program, the texts of its processes."""
    metrics = {}
    for program, texts in pages.items():
        for text in texts:
            helps = dict(re.findall(r"^# HELP (\S+) (.*)$", text, re.M))
            for name, kind in re.findall(r"^# TYPE (\S+) (\S+)$", text, re.M):
                metric = metrics.setdefault(name, Metric(kind, helps.get(name, "")))
                metric.programs.add(program)
                series = re.compile(rf"^{name}(?:_bucket|_sum|_count)?\{{(.*)\}} ", re.M)
                for labels in series.findall(text):
                    metric.labels |= set(LABEL.findall(labels)) - {"le"}
    return metrics


def render(metrics, programs):
    """Returns the page. `programs`: all of them, so that those which every program has are not listed with each."""
    lines = [HEADER]
    left = dict(metrics)
    for title, pattern in GROUPS:
        found = {name: metric for name, metric in left.items() if re.match(pattern, name)}
        left = {name: metric for name, metric in left.items() if name not in found}
        lines += [f"## {title}", "", "| metric | kind | labels | programs | meaning |", "|---|---|---|---|---|"]
        for name, metric in sorted(found.items()):
            labels = ", ".join(f"`{label}`" for label in sorted(metric.labels))
            # The programs that have been called when the test looks differ from run to run.
            everywhere = metric.programs == set(programs) or name.startswith("escapement_rpc_")
            where = "all" if everywhere else ", ".join(sorted(metric.programs))
            lines.append(f"| `{name}` | {metric.kind} | {labels} | {where} | {metric.text} |")
        lines.append("")
    if left:
        raise AssertionError(f"metrics of no group: {sorted(left)}")
    return "\n".join(lines)
