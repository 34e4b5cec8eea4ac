#!/bin/sh
# Lints the public API with buf and looks for changes that break clients: buf_test.sh <descriptors> <kept image> <buf.yaml>.
buf=tools/npm/node_modules/@bufbuild/buf-linux-x64/bin/buf
[ -f "$buf" ] || { echo "no $buf: run tools/setup" >&2; exit 1; }
export HOME="${TEST_TMPDIR:-/tmp}"
failed=0
"$buf" lint "$1#format=binpb" --config "$3" --path escapement/v1 || failed=1
"$buf" breaking "$1#format=binpb" --against "$2" --config "$3" --path escapement/v1 || failed=1
exit $failed
