#!/bin/sh
cd "$(dirname "$0")" && exec /usr/bin/python3 budget_test.py ./paths_main "$@"
