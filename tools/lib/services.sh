# Sourced by tools/up and tools/down: the services of a platform in the order of their start, and where its state lies. "handler@1" is
# the handler of cell 1.

state="${ESCAPEMENT_STATE:-${XDG_STATE_HOME:-$HOME/.local/state}/escapement}"
services=(store master token_manager emitter handler)
services_of_cell=(store token_manager emitter handler) # of a cell other than the home cell

# Prints the process id of a service that tools/up started and that still runs; a reused id does not count.
running_pid() {
  local file="$state/run/$1.pid" pid
  [ -s "$file" ] || return 1
  pid="$(cat "$file")"
  [[ "$pid" =~ ^[0-9]+$ ]] || return 1
  [ "$(readlink "/proc/$pid/exe" 2>/dev/null | sed 's/ (deleted)$//')" = "$(readlink -f "$state/bin/${1%@*}")" ] || return 1
  echo "$pid"
}
