#!/usr/bin/env bash
# Receives events over HTTP, works on them one after another, and gives their tokens back with curl.
#
# Usage: consumer.sh [PORT]    (default 8080; 0 chooses a free port)
set -euo pipefail

url="${ESCAPEMENT_URL:-http://127.0.0.1:7411}"

# curl cannot listen. The receiver prints a line for each event: its id, its token or "-", and its payload.
exec {deliveries}< <(exec python3 "$(dirname "$0")/receiver.py" "${1:-8080}")
receiver=$!
trap 'kill "$receiver" 2>/dev/null || true' EXIT
trap 'exit 0' INT TERM

read -r -u "$deliveries" listening
echo "$listening"

declare -A done_ids
while read -r -u "$deliveries" id token payload; do
  # After a fault an event may arrive twice, with the same id. A real service keeps the ids in its database.
  if [ -z "${done_ids[$id]:-}" ]; then
    echo "received $id: $payload"
    done_ids[$id]=1
  fi
  # Only events with a throttling policy hold a token. Until it is back, the next event may wait.
  if [ "$token" != - ]; then
    answer="$(curl --silent --show-error --fail-with-body --max-time 20 --retry 5 "$url/v1/tokens:complete" \
      --header "Content-Type: application/json" \
      --data "{\"completions\": [{\"token\": \"$token\", \"outcome\": \"SUCCEEDED\"}]}")"
    echo "token back $id: $answer"
  fi
done
