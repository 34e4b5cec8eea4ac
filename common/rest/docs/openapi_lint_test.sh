#!/bin/sh
# Lints the OpenAPI document with Redocly: openapi_lint_test.sh <openapi.json> <redocly.yaml>. Needs no network.
redocly=tools/npm/node_modules/@redocly/cli/bin/cli.js
[ -f "$redocly" ] || { echo "no $redocly: run tools/setup" >&2; exit 1; }
export REDOCLY_TELEMETRY=off REDOCLY_SUPPRESS_UPDATE_NOTICE=true HOME="${TEST_TMPDIR:-/tmp}"
exec node "$redocly" lint --config "$2" "$1"
