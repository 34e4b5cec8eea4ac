#!/usr/bin/env bash
# Checks the rules and the example of a configuration, and that each alert has a case that fires and one that does not.
# Then promtool judges the cases twice: as they are, and with the labels that prometheus-operator gives.
set -euo pipefail
cd deploy/prometheus
promtool check rules recording_rules.yaml alerts.yaml
promtool check config examples/prometheus.yaml

failed=0
# A line for each rule: name and severity. Two rules of one name differ by their severity, and their cases name it.
rules="$(sed -nE 's/^ *- alert: //p; s/^ *severity: //p' alerts.yaml | paste -d' ' - -)"
names="$(cut -d' ' -f1 <<<"$rules" | sort)"
[ "$(uniq <<<"$names" | wc -l)" -le 20 ] || { echo "there are alerts of more than 20 names"; failed=1; }
[ "$(sort -u <<<"$rules" | wc -l)" = "$(wc -l <<<"$rules")" ] || { echo "two rules have one name and severity"; failed=1; }
while read -r alert severity; do
  case="alertname=\"$alert\""
  [ "$(grep -cx "$alert" <<<"$names")" = 1 ] || case+=", severity=\"$severity\""
  # The line after the next one says whether any sample is expected.
  cases="$(grep -h -A2 "expr: ALERTS{$case" tests/*_test.yaml || true)"
  grep -q 'exp_samples:$' <<<"$cases" || { echo "no case lets $alert ($severity) fire"; failed=1; }
  grep -q 'exp_samples: \[\]$' <<<"$cases" || { echo "no case keeps $alert ($severity) from firing"; failed=1; }
done <<<"$rules"

# Side by side: each file takes some seconds.
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
pids=()
for cases in tests/*_test.yaml; do
  /usr/bin/python3 -B tests/operator_labels.py "$cases" "$folder/operator_$(basename "$cases")"
  promtool test rules "$cases" &
  pids+=($!)
  promtool test rules "$folder/operator_$(basename "$cases")" &
  pids+=($!)
done
for pid in "${pids[@]}"; do
  wait "$pid" || failed=1
done
exit "$failed"
