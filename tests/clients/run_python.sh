#!/bin/sh
# Debian's Python; another Python in PATH would not have grpcio or yaml.
test="$(dirname "$0")/$1"
shift
exec /usr/bin/python3 -B "$test" "$@"
