#!/bin/sh
# Runs one file of tests of the page: page_test.sh FILE. Needs Debian's Chromium and the npm packages of web/ (tools/setup).
[ -x /usr/bin/chromium ] || { echo "no chromium: run tools/setup" >&2; exit 1; }
[ -f web/node_modules/playwright-core/package.json ] || { echo "no web/node_modules: run tools/setup" >&2; exit 1; }
# Chromium and its crash handler write below the home folder.
export HOME="${TEST_TMPDIR:-/tmp}" XDG_CONFIG_HOME="${TEST_TMPDIR:-/tmp}" XDG_CACHE_HOME="${TEST_TMPDIR:-/tmp}"
exec node --test --test-reporter=spec "$1"
