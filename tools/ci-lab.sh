#!/usr/bin/env bash
# Runs lab scenarios against the real fleet, one after the other, and stops at the first whose
# expectations did not hold (the lab's exit status). Prints a table of the figures.
# ROUNDS (1) is how many times in a row each must hold; SEEDS ("1") and RANDOM_FOR (30s) are those
# of scenario random.
set -euo pipefail
cd "$(dirname "$0")/.."

scenarios=(
  "--fleet postgres --scenario one-lagging"
  "--fleet postgres --scenario cut-off"
  "--fleet postgres --scenario frozen"
  "--fleet postgres --scenario one-dead"
  "--fleet postgres --scenario flapping --for 60s"
  "--fleet postgres --scenario healthy --for 60s"
)
for seed in ${SEEDS:-1}; do
  scenarios+=("--fleet postgres --scenario random --for ${RANDOM_FOR:-30s} --seed $seed")
done
scenarios+=("--fleet simulated --scenario one-lagging")

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
go build -o "$scratch/breakwater" ./cmd/breakwater

# The figures of a summary line, picked without a JSON tool: each is a plain number, word or null.
figure() { # FIELD
  sed -n "\$s/.*\"$1\":\"\{0,1\}\([^,\"}]*\).*/\1/p" "$scratch/out"
}
row='%-34s %5s %7s %6s %6s %5s %6s %7s %6s %7s %6s %7s %6s\n'
# shellcheck disable=SC2059 # the format is ours
printf "$row" scenario round reads errors stale late bounds checks open_ms wait_ms p95_ms during took_s
for arguments in "${scenarios[@]}"; do
  for ((round = 1; round <= ${ROUNDS:-1}; round++)); do
    begin=$SECONDS
    # shellcheck disable=SC2086 # a line of arguments, split on purpose
    "$scratch/breakwater" lab --headless --json $arguments >"$scratch/out" 2>"$scratch/err" && rc=0 || rc=$?
    name=${arguments//--fleet postgres /}
    # shellcheck disable=SC2059
    printf "$row" "${name//--/}" "$round" "$(figure reads)" "$(figure errors)" "$(figure stale_unflagged)" \
      "$(figure late_replica_reads)" "$(figure bound_violations)" "$(figure bound_samples)" "$(figure time_to_open_ms)" \
      "$(figure max_wait_ms)" "$(figure p95_before_ms)" "$(figure p95_during_ms)" "$((SECONDS - begin))"
    if [ "$rc" -ne 0 ]; then
      echo "lab $arguments: round $round FAILED with status $rc; what it said:" >&2
      tail -n 20 "$scratch/err" >&2
      grep -E '"kind":"(fault|transition|summary)"' "$scratch/out" | tail -n 30 >&2 || true
      exit 1
    fi
  done
done
