#!/bin/sh
# Debian's Python has python3-croniter; another Python in PATH would not have it.
cd "$(dirname "$0")" && exec /usr/bin/python3 oracles_test.py ./cron_dump node_modules/croner "$@"
