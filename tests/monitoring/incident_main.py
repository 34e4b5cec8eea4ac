#!/usr/bin/env python3
"""Stages an incident in a platform of its own, and shows the panels that lead to its cause.

  incident_main.py PROGRAMS target_down|policy_full|store_slow

PROGRAMS is the folder of the built programs; tools/dev incident NAME gives it. Exits 0 if the panels and the alert show the
incident. The test runs the same.
"""
import shutil
import sys
import tempfile

from incidents import INCIDENTS, Stage


def main():
    if len(sys.argv) != 3 or sys.argv[2] not in INCIDENTS:
        sys.exit(__doc__)
    folder = tempfile.mkdtemp(prefix="escapement-incident-")
    try:
        stage = Stage(INCIDENTS[sys.argv[2]], sys.argv[1], folder, lambda line: print(line, flush=True))
        try:
            stage.run()
        finally:
            stage.end()
    except AssertionError as error:
        print(f"incident: {error}; the logs are in {folder}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
