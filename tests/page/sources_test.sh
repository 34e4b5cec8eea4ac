#!/bin/sh
# Checks the page's modules: types (tsc --checkJs), that no text becomes HTML or code, and that they stay small.
[ -f web/node_modules/typescript/bin/tsc ] || { echo "no web/node_modules: run tools/setup" >&2; exit 1; }
# tsc resolves the packages' types beside the modules' real files.
web="$(dirname "$(readlink -f web/tsconfig.json)")"
node web/node_modules/typescript/bin/tsc -p "$web" || exit 1
sources="$(ls web/*.js web/parts/*.js web/pages/*.js web/page.css web/index.html)"
# shellcheck disable=SC2086
if grep -nE 'innerHTML|dangerouslySetInnerHTML|eval\(|new Function|document\.write' $sources; then
  echo "text must be shown as text" >&2
  exit 1
fi
# shellcheck disable=SC2086
lines="$(cat $sources | wc -l)"
echo "$lines lines"
[ "$lines" -lt 5500 ]
