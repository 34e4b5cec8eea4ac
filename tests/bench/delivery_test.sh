#!/usr/bin/env bash
# A small sample of the delivery benchmark: every transport delivers a run, and every figure is there.
set -euo pipefail
figures="$TEST_TMPDIR/delivery.json"
tests/bench/delivery --bin=. --quick --share=0.1 --json="$figures"
python3 - "$figures" <<'PYTHON'
import json
import sys

figures = {figure["name"]: figure for figure in json.load(open(sys.argv[1]))["figures"]}
kinds = ["HTTP", "gRPC", "HTTPS", "SQS", "Kafka", "e-mail"]
for kind in kinds:
    for row in ("transport alone", "a run, durable Done"):
        figure = figures[f"{kind}: {row}"]
        assert figure["median"] > 0 and figure["raw_median"] > 0, figure
    # No figure of record: a hundred times slower than the bare client is a fault on any machine.
    share = figures[f"{kind}: part of the bare client's rate"]
    assert share["median"] >= 1, share
PYTHON
