# Sourced by the scripts in tools/. The repository's root is $root and the current folder.

set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
cd "$root"

say() { printf '%s\n' "$*" >&2; }
die() { say "$(basename "$0"): $*"; exit 1; }

# ESCAPEMENT_BAZEL may name another Bazel, with startup options, e.g. "bazel --output_base=/somewhere".
bazel_with() {
  local -a program
  read -r -a program <<<"${ESCAPEMENT_BAZEL:-bazel}"
  "${program[@]}" "$@"
}

# Builds the given targets and sets $bin to the folder of the results.
build_programs() {
  bazel_with build --symlink_prefix=/ --noshow_progress --ui_event_filters=-info,-debug,-warning "$@"
  bin="$(bazel_with info --ui_event_filters=-info bazel-bin 2>/dev/null)"
}
