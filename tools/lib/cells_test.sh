#!/bin/sh
exec /usr/bin/python3 "$(dirname "$0")/cells_test.py"
