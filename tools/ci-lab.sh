#!/usr/bin/env bash
# Runs lab scenarios against the real fleet, one after the other, and stops at the first whose
# expectations did not hold (the lab's exit status). Prints a table of the figures.
# ROUNDS (1) is how many times in a row each must hold; SEEDS ("1") and RANDOM_FOR (30s) are those
# of scenario random. TRY_AGAIN (1) is how many runs more a round gets if nothing failed but figures of
# speed while the machine stalled (only_speed_failed in the summary). Whatever else fails, of data or of
# counts, fails at once.
set -euo pipefail
cd "$(dirname "$0")/.."

scenarios=(
  "--fleet postgres --scenario one-lagging"
  "--fleet postgres --scenario cut-off"
  "--fleet postgres --scenario frozen"
  "--fleet postgres --scenario one-dead"
  "--fleet postgres --scenario flapping --for 60s"
  "--fleet postgres --scenario healthy --for 60s"
  "--fleet postgres --scenario all-lagging"
  "--fleet postgres --scenario relapse"
  "--fleet postgres --scenario all-dead"
  "--fleet postgres --scenario cold-cache"
  "--fleet postgres --scenario primary-restart"
  "--fleet postgres --scenario last-standing"
  "--fleet postgres --scenario own-writes"
)
# ONLY names the scenarios to run, separated by spaces; all of them by default.
if [ -n "${ONLY:-}" ]; then
  chosen=()
  for arguments in "${scenarios[@]}"; do
    name=${arguments#*--scenario }
    case " $ONLY " in *" ${name%% *} "*) chosen+=("$arguments") ;; esac
  done
  scenarios=("${chosen[@]}")
fi
if [ -z "${ONLY:-}" ]; then
  for seed in ${SEEDS:-1}; do
    scenarios+=("--fleet postgres --scenario random --for ${RANDOM_FOR:-30s} --seed $seed")
  done
  scenarios+=("--fleet simulated --scenario one-lagging")
fi

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
go build -o "$scratch/breakwater" ./cmd/breakwater

# The figures of a summary line, picked without a JSON tool: each is a plain number, word or null.
figure() { # FIELD
  sed -n "\$s/.*\"$1\":\"\{0,1\}\([^,\"}]*\).*/\1/p" "$scratch/out"
}
expectations() {
  sed -n '$s/.*"failed_expectations":\(\[.*\]\).*/\1/p' "$scratch/out"
}
row='%-34s %5s %7s %6s %6s %5s %6s %7s %6s %7s %8s %6s %7s %6s %7s %7s %6s\n'
tell() { # NAME ROUND SECONDS
  # shellcheck disable=SC2059 # the format is ours
  printf "$row" "$1" "$2" "$(figure reads)" "$(figure errors)" "$(figure stale_unflagged)" \
    "$(figure late_replica_reads)" "$(figure bound_violations)" "$(figure bound_samples)" "$(figure budget_violations)" \
    "$(figure refusal_p999_ms)" "$(figure ready_ms)" \
    "$(figure time_to_open_ms)" "$(figure max_wait_ms)" "$(figure p95_before_ms)" "$(figure p95_during_ms)" \
    "$(figure worst_stall_ms)" "$3"
}
try() { # ARGUMENTS...: runs the lab once and leaves its lines in $scratch
  "$scratch/breakwater" lab --headless --json "$@" >"$scratch/out" 2>"$scratch/err"
}
round() { # ARGUMENTS ROUND
  local arguments=$1 name=${1//--fleet postgres /} left=${TRY_AGAIN:-1} begin rc
  name=${name//--/}
  while :; do
    begin=$SECONDS rc=0
    # shellcheck disable=SC2086 # a line of arguments, split on purpose
    try $arguments || rc=$?
    tell "$name" "$2" "$((SECONDS - begin))"
    [ "$rc" -ne 0 ] || return 0
    if [ "$rc" -ne 1 ] || [ "$left" -le 0 ] || [ "$(figure only_speed_failed)" != true ]; then
      echo "lab $arguments: round $2 FAILED with status $rc; what it said:" >&2
      tail -n 20 "$scratch/err" >&2
      grep -E '"kind":"(fault|transition|condition|mode|summary)"' "$scratch/out" | tail -n 30 >&2 || true
      return 1
    fi
    left=$((left - 1))
    echo "tried again: $name, round $2: the machine stalled for $(figure worst_stall_ms) ms, and only speed failed: $(expectations)"
  done
}

# shellcheck disable=SC2059
printf "$row" scenario round reads errors stale late bounds checks budget p999_ms ready_ms open_ms wait_ms p95_ms during stall_ms took_s
for arguments in "${scenarios[@]}"; do
  for ((n = 1; n <= ${ROUNDS:-1}; n++)); do
    round "$arguments" "$n"
  done
done
