#!/bin/sh
# Debian's Python has python3-jwt; another Python in PATH would not have it.
cd "$(dirname "$0")" && exec /usr/bin/python3 jwt_oracle_test.py ./jwt_dump
