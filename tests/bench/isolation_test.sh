#!/usr/bin/env bash
# Sixteen bad targets of HTTP, HTTPS, SQS and Kafka leave healthy ones alone. On a machine that others use, too, an
# event may be some tens of milliseconds late by chance; a target that waits for another one is late by its timeout.
set -euo pipefail
figures="$TEST_TMPDIR/isolation.json"
tests/bench/isolation --bin=. --quick --json="$figures"
python3 - "$figures" <<'PYTHON'
import json
import sys

CHANCE_MS = 100

figures = {figure["name"]: figure for figure in json.load(open(sys.argv[1]))["figures"]}
# Hanging events of an origin leave its others at least half of their rate; on a busy machine, a third.
for where in ("beside", "behind"):
    part = figures[f"one origin: {where} hanging events, as part of the rate without"]
    assert part["median"] >= 0.33, part
for kind in ("HTTP", "HTTPS", "SQS", "Kafka"):
    row = figures[f"{kind}: p99 of lateness beside bad targets"]
    assert 0 < row["median"] <= 2 * row["raw_median"] + CHANCE_MS, row
PYTHON
