#!/usr/bin/env bash
# Runs lab scenarios against the real fleet, and those of consumers, one after the other, and stops at the
# first whose expectations did not hold (the lab's exit status). Prints a table of the figures of each kind.
# ROUNDS (1) is how many times in a row each must hold; SEEDS ("1") and RANDOM_FOR (30s) are those
# of scenario random. TRY_AGAIN (1) is how many runs more a round gets if nothing failed but figures of
# speed while the machine stalled (only_speed_failed in the summary). Whatever else fails, of data or of
# counts, fails at once. FLAPPING_FOR (40s), HEALTHY_FOR (20s), OUTAGE (10s, of slow consumers), SHORT (4s, of others) and CRASH_FOR (5s, in which the
# router is killed again and again) are how long those last; MORE=1 adds what CI has no time for.
set -euo pipefail
cd "$(dirname "$0")/.."

scenarios=(
  "--fleet postgres --scenario one-lagging"
  "--fleet postgres --scenario cut-off"
  "--fleet postgres --scenario one-dead"
  "--fleet postgres --scenario own-writes"
)
consumers=(
  "--scenario slow-consumer --for ${OUTAGE:-10s}"
  "--scenario hanging-consumer --for ${SHORT:-4s}"
  "--scenario crash --for ${CRASH_FOR:-5s}"
)
if [ -n "${MORE:-}${ONLY:-}" ]; then # what CI has no time for; tests run them on a simulated fleet
  for name in all-lagging frozen cold-cache primary-restart last-standing; do scenarios+=("--fleet postgres --scenario $name"); done
  scenarios+=("--fleet postgres --scenario flapping --for ${FLAPPING_FOR:-40s}" "--fleet postgres --scenario healthy --for ${HEALTHY_FOR:-20s}" "--fleet postgres --scenario relapse" "--fleet postgres --scenario all-dead" "--fleet simulated --scenario one-lagging")
  consumers+=("--scenario partly-slow --for ${OUTAGE:-10s}" "--scenario failing-consumer --for ${SHORT:-4s}" "--scenario all-consumers-down")
fi
# ONLY names the scenarios to run, separated by spaces; all of them by default.
if [ -n "${ONLY:-}" ]; then
  choose() { # ARGUMENTS...: prints those that are named
    local arguments name
    for arguments; do
      name=${arguments#*--scenario }
      case " $ONLY " in *" ${name%% *} "*) echo "$arguments" ;; esac
    done
  }
  mapfile -t scenarios < <(choose "${scenarios[@]}")
  mapfile -t consumers < <(choose "${consumers[@]}")
fi
if [ -z "${ONLY:-}" ] && [ -n "${MORE:-}" ]; then
  for seed in ${SEEDS:-1}; do
    scenarios+=("--fleet postgres --scenario random --for ${RANDOM_FOR:-30s} --seed $seed")
  done
fi

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
go build -o "$scratch/breakwater" ./cmd/breakwater

# The figures of a summary line, picked without a JSON tool: each is a plain number, word or null.
# What stands within "by_priority" and "consumers" is left out: its fields have the same names.
figure() { # FIELD
  sed -n "\$s/\"by_priority\":{.*},\"priority/\"priority/;\$s/\"consumers\":{.*},\"failed/\"failed/;\$s/.*\"$1\":\"\{0,1\}\([^,\"}]*\).*/\1/p" "$scratch/out"
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
consumer_row='%-34s %5s %8s %9s %8s %6s %5s %5s %7s %8s %8s %7s %7s %8s %6s\n'
tell_consumers() { # NAME ROUND SECONDS
  # shellcheck disable=SC2059 # the format is ours
  printf "$consumer_row" "$1" "$2" "$(figure emitted)" "$(figure delivered)" "$(figure replayed)" "$(figure shed)" \
    "$(figure lost)" "$(figure duplicates)" "$(figure balance_violations)" "$(figure time_to_open_ms)" "$(figure time_to_close_ms)" \
    "$(figure p99_before_ms)" "$(figure p99_during_ms)" "$(figure worst_stall_ms)" "$3"
}
try() { # ARGUMENTS...: runs the lab once and leaves its lines in $scratch
  "$scratch/breakwater" lab --headless --json "$@" >"$scratch/out" 2>"$scratch/err"
}
round() { # TELL ARGUMENTS ROUND
  local tell=$1
  shift
  local arguments=$1 name=${1//--fleet postgres /} left=${TRY_AGAIN:-1} begin rc
  name=${name//--/}
  while :; do
    begin=$SECONDS rc=0
    # shellcheck disable=SC2086 # a line of arguments, split on purpose
    try $arguments || rc=$?
    "$tell" "$name" "$2" "$((SECONDS - begin))"
    [ "$rc" -ne 0 ] || return 0
    if [ "$rc" -ne 1 ] || [ "$left" -le 0 ] || [ "$(figure only_speed_failed)" != true ]; then
      echo "lab $arguments: round $2 FAILED with status $rc; what it said:" >&2
      tail -n 20 "$scratch/err" >&2
      grep -E '"kind":"(fault|transition|condition|mode|round|summary)"' "$scratch/out" | tail -n 30 >&2 || true
      return 1
    fi
    left=$((left - 1))
    echo "tried again: $name, round $2: the machine stalled for $(figure worst_stall_ms) ms, and only speed failed: $(expectations)"
  done
}

rounds() { # TELL ARGUMENTS...
  local tell=$1 arguments
  shift
  for arguments; do
    for ((n = 1; n <= ${ROUNDS:-1}; n++)); do
      round "$tell" "$arguments" "$n"
    done
  done
}
if [ "${#scenarios[@]}" -gt 0 ]; then
  # shellcheck disable=SC2059
  printf "$row" scenario round reads errors stale late bounds checks budget p999_ms ready_ms open_ms wait_ms p95_ms during stall_ms took_s
  rounds tell "${scenarios[@]}"
fi
if [ "${#consumers[@]}" -gt 0 ]; then
  # shellcheck disable=SC2059
  printf "$consumer_row" scenario round emitted delivered replayed shed lost dups balance open_ms close_ms p99_ms during stall_ms took_s
  rounds tell_consumers "${consumers[@]}"
fi
