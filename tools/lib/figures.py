#!/usr/bin/env python3
"""Writes the figures of benchmarks into a page, between its two marks: a table for each run, in the order of their
headings (the benchmark and its arguments). The tables of the page stay unless a run has the same heading.

  tools/lib/figures.py PAGE FILE.json…     files as `tools/dev bench NAME --json=FILE` writes them
"""
import json
import sys

BEGIN = "<!-- figures: made by tools/lib/figures.py -->"
END = "<!-- end of figures -->"
# Beyond this, others disturbed the run.
OTHERS_SHARE_MAX = 0.1


def number(value):
    if abs(value) >= 10_000:
        return f"{value:,.0f}"
    if abs(value) >= 100 or value == int(value):
        return f"{value:.0f}"
    return f"{value:.3g}"


def with_unit(value, unit):
    return f"{number(value)} {unit}".strip()


def row(figure):
    unit = figure["unit"]
    bound = ""
    if "at_least" in figure:
        bound = "≥ " + with_unit(figure["at_least"], unit)
        if "of_raw" in figure:
            bound += f", ratio {figure['of_raw']:.2f}"
    if "at_most" in figure:
        bound = "≤ " + with_unit(figure["at_most"], unit)
    measured = "not measured"
    if "median" in figure:
        measured = with_unit(figure["median"], unit)
        low, high = min(figure["values"]), max(figure["values"])
        if low != high:
            measured += f" ({number(low)} to {number(high)})"
        if bound and not figure["kept"]:
            measured = f"**{measured}**"
    elif not figure["failures"] and "raw_median" in figure:
        measured = ""
    raw = ratio = ""
    if "raw_median" in figure:
        raw = f"{with_unit(figure['raw_median'], unit)}, {figure['raw_name']}"
    if "ratio" in figure:
        ratio = f"{figure['ratio']:.2f}"
        if not figure.get("of_raw_kept", True):
            ratio = f"**{ratio}**"
    return f"| {figure['name']} | {bound} | {measured} | {raw} | {ratio} |"


def section(run):
    machine = run["machine"]
    versions = run["versions"]
    words = (
        f"{run['begin'][:16].replace('T', ' ')} UTC, commit {run['commit']}; "
        f"{machine['cores']} cores {machine['model']}, {machine['memory_gib']:.0f} GiB, "
        f"Linux {machine['kernel']}; RocksDB {versions['rocksdb']}, gRPC {versions['grpc']}; "
        f"took {run['seconds']:.0f} s."
    )
    others = machine["others_share"]
    if others > OTHERS_SHARE_MAX:
        words += f" **Not measured on a quiet machine: others used {100 * others:.0f} %.**"
    else:
        words += f" Others used {100 * others:.0f} % of the machine."
    if run["quick"]:
        words += " **A quick run: the program works, its figures are coarse.**"
    name = " ".join([run["bench"]] + run.get("arguments", []))
    lines = [f"### {name}", "", words, ""]
    lines += ["| what | to reach | measured | raw limit | ratio |", "|---|---|---|---|---|"]
    lines += [row(figure) for figure in run["figures"]] + [""]
    return "\n".join(lines)


def heading(table):
    return table.split("\n", 1)[0]


def main():
    page, *files = sys.argv[1:]
    with open(page, encoding="utf-8") as f:
        text = f.read()
    begin, end = text.index(BEGIN) + len(BEGIN), text.index(END)
    tables = {}
    for table in text[begin:end].split("### ")[1:]:
        tables[heading("### " + table)] = "### " + table.strip() + "\n"
    for name in files:
        with open(name, encoding="utf-8") as f:
            table = section(json.load(f))
            tables[heading(table)] = table
    with open(page, "w", encoding="utf-8") as f:
        f.write(text[:begin] + "\n\n" + "\n".join(tables[key] for key in sorted(tables)) + "\n" + text[end:])


if __name__ == "__main__":
    main()
