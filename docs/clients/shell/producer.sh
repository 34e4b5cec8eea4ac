#!/usr/bin/env bash
# Makes a throttled schedule, a one-off event and a batch of events with curl, lists the schedules, and deletes the
# schedule.
#
# Usage: producer.sh [TARGET]
# TARGET is the HTTP URI that receives the events, by default http://127.0.0.1:8080/.
set -euo pipefail

target="{\"http\":{\"uri\":\"${1:-http://127.0.0.1:8080/}\"}}"
tenant="${ESCAPEMENT_URL:-http://127.0.0.1:7411}/v1/tenants/default"

# api METHOD PATH [BODY]: prints the answer. Prints the error and returns 22 if the status is 400 or above. While the
# platform answers 503, which it does when it starts, curl tries again.
api() {
  curl --silent --show-error --fail-with-body --max-time 20 --retry 5 --request "$1" "$tenant/$2" \
    --header "Content-Type: application/json" ${3:+--data "$3"}
}

# A time in so many seconds, as JSON has it.
in_seconds() { date --utc --date "+$1 seconds" +%Y-%m-%dT%H:%M:%S.%3NZ; }

# Bytes are base64 in JSON.
payload() { printf '%s' "$1" | base64 --wrap=0; }

# A throttling policy: at most two of all its events are with the consumer at once. It may exist already.
api GET policies/two-at-once >/dev/null 2>&1 ||
  api POST "policies?policyId=two-at-once" '{"maxConcurrent": 2}' >/dev/null

api POST "schedules?scheduleId=shell-pulse" "{
  \"cron\": \"*/2 * * * * *\",
  \"timeZone\": \"Europe/Berlin\",
  \"target\": $target,
  \"payload\": \"$(payload '{"kind": "pulse"}')\",
  \"policy\": \"tenants/default/policies/two-at-once\"
}"
echo

# With a requestId the call can be repeated after an error and creates the event only once.
api POST "events?requestId=$(cat /proc/sys/kernel/random/uuid)" "{
  \"dueTime\": \"$(in_seconds 1)\", \"target\": $target, \"payload\": \"$(payload '{"kind": "one-off"}')\",
  \"policy\": \"two-at-once\"
}"
echo

# A batch creates all its events or none.
requests=""
for number in 0 1 2; do
  body="$(payload "{\"kind\": \"batch\", \"number\": $number}")"
  requests+="${requests:+,}{\"event\": {\"dueTime\": \"$(in_seconds 1)\", \"target\": $target, \"payload\": \"$body\"}}"
done
api POST events:batchCreate "{\"requests\": [$requests]}"
echo

# Events can also be sent as lines of JSON, as many as you like. Each is answered by a line.
for number in 0 1 2; do
  echo "{\"target\": $target, \"payload\": \"$(payload "{\"kind\": \"line\", \"number\": $number}")\"}"
done | curl --silent --show-error --fail-with-body --max-time 20 --data-binary @- "$tenant/events:ingest"

api GET "schedules?pageSize=100"
echo

echo "press Enter to delete the schedule"
read -r || true
api DELETE schedules/shell-pulse
echo
echo "deleted shell-pulse"
