#!/bin/sh
# Checks the types of the page's modules (tsc --checkJs), and that the page's own code stays small.
[ -f web/node_modules/typescript/bin/tsc ] || { echo "no web/node_modules: run tools/setup" >&2; exit 1; }
# tsc resolves the packages' types beside the modules' real files.
web="$(dirname "$(readlink -f web/tsconfig.json)")"
node web/node_modules/typescript/bin/tsc -p "$web" || exit 1
lines="$(cat web/*.js web/parts/*.js web/pages/*.js web/page.css web/index.html | wc -l)"
echo "$lines lines"
[ "$lines" -lt 5000 ]
