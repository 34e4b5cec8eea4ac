#!/bin/sh
# Debian's Python has python3-dateutil; another Python in PATH would not have it.
cd "$(dirname "$0")" && exec /usr/bin/python3 ics_oracle_test.py ./ics_dump
