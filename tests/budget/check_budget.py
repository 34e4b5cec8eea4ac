#!/usr/bin/env python3
"""Measures each path of budget.txt and compares it with its budget. Called by tools/dev profile --check.

  check_budget.py --bin=FOLDER [PATH…]
"""
import argparse
import os
import sys

sys.dont_write_bytecode = True  # the folder is part of the source tree
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

import callgrind

TOLERANCE = 0.1


def judge(path, measured, budget):
    """A sentence if the measurement is outside of its budget, else None."""
    if abs(measured - budget) <= TOLERANCE * budget:
        return None
    line = f"{path}: {measured:,} instructions an event, {100 * (measured / budget - 1):+.0f} % of its budget"
    if measured < budget:
        return f"{line}. So that it stays so, put {measured} into tests/budget/budget.txt"
    return (f"{line}. `tools/dev profile {path}` shows where they go; if they are worth it, "
            f"put {measured} into tests/budget/budget.txt and say why in the commit")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    parser.add_argument("paths", nargs="*")
    arguments = parser.parse_args()
    program = os.path.join(arguments.bin, "tests/budget/paths_main")
    budgets = callgrind.read_budgets(os.path.join(HERE, "budget.txt"))
    wrong = []
    for path, (events, budget) in budgets.items():
        if arguments.paths and path not in arguments.paths:
            continue
        profile = callgrind.measure([program, path, str(events)])
        measured = round(profile.total / events)
        print(f"{path:16} {measured:8,} of {budget:8,}", flush=True)
        wrong.append(judge(path, measured, budget))
    sys.exit("\n".join(filter(None, wrong)) or None)


if __name__ == "__main__":
    try:
        main()
    except callgrind.Failed as failed:
        sys.exit(str(failed))
