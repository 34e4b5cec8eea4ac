#!/usr/bin/env bash
# The same as producer.sh over gRPC, with buf. It learns the messages from the platform by gRPC reflection.
#
# Usage: grpc_producer.sh [TARGET]
# TARGET receives the events: host:port of a gRPC consumer (default 127.0.0.1:8080), or an HTTP URI.
set -euo pipefail

uri="${1:-127.0.0.1:8080}"
case "$uri" in
  http*) target="{\"http\": {\"uri\": \"$uri\"}}" ;;
  *) target="{\"grpc\": {\"uri\": \"$uri\"}}" ;;
esac
server="http://${ESCAPEMENT_SERVER:-127.0.0.1:7410}"
buf="$(dirname "$0")/node_modules/.bin/buf"

# call SERVICE/METHOD REQUEST: prints the answer.
call() { "$buf" curl --protocol grpc --http2-prior-knowledge --data "$2" "$server/escapement.v1.$1"; }

# A time in so many seconds, as JSON has it.
in_seconds() { date --utc --date "+$1 seconds" +%Y-%m-%dT%H:%M:%S.%3NZ; }

# Bytes are base64 in JSON.
payload() { printf '%s' "$1" | base64 --wrap=0; }

# A throttling policy: at most two of all its events are with the consumer at once. It may exist already.
call PolicyService/GetPolicy '{"name": "tenants/default/policies/two-at-once"}' >/dev/null 2>&1 ||
  call PolicyService/CreatePolicy '{
    "parent": "tenants/default", "policyId": "two-at-once", "policy": {"maxConcurrent": 2}}'

call ScheduleService/CreateSchedule "{
  \"parent\": \"tenants/default\",
  \"scheduleId\": \"buf-pulse\",
  \"schedule\": {
    \"cron\": \"*/2 * * * * *\",
    \"timeZone\": \"Europe/Berlin\",
    \"target\": $target,
    \"payload\": \"$(payload '{"kind": "pulse"}')\",
    \"policy\": \"tenants/default/policies/two-at-once\"
  }
}"

# With a requestId the call can be repeated after an error and creates the event only once.
call EventService/CreateEvent "{
  \"parent\": \"tenants/default\",
  \"requestId\": \"$(cat /proc/sys/kernel/random/uuid)\",
  \"event\": {
    \"dueTime\": \"$(in_seconds 1)\", \"target\": $target, \"payload\": \"$(payload '{"kind": "one-off"}')\",
    \"policy\": \"two-at-once\"
  }
}"

# A batch creates all its events or none.
requests=""
for number in 0 1 2; do
  body="$(payload "{\"kind\": \"batch\", \"number\": $number}")"
  requests+="${requests:+,}{\"event\": {\"dueTime\": \"$(in_seconds 1)\", \"target\": $target, \"payload\": \"$body\"}}"
done
call EventService/BatchCreateEvents "{\"parent\": \"tenants/default\", \"requests\": [$requests]}"

call ScheduleService/ListSchedules '{"parent": "tenants/default"}'

echo "press Enter to delete the schedule"
read -r || true
call ScheduleService/DeleteSchedule '{"name": "tenants/default/schedules/buf-pulse"}'
echo "deleted buf-pulse"
