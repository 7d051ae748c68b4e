#!/usr/bin/env bash
# Runs lab scenarios against the real fleet and stops at the first whose expectations did not hold
# (the lab's exit status). ROUNDS (1) is how many times in a row each must hold.
set -euo pipefail
cd "$(dirname "$0")/.."

scenarios=(
  # one line of `breakwater lab` arguments each, such as: "--scenario one-lagging"
)

[ "${#scenarios[@]}" -gt 0 ] || { echo "no lab scenario yet"; exit 0; }
binary=$(mktemp -d)
trap 'rm -rf "$binary"' EXIT
go build -o "$binary/breakwater" ./cmd/breakwater
for arguments in "${scenarios[@]}"; do
  for ((round = 1; round <= ${ROUNDS:-1}; round++)); do
    begin=$SECONDS
    # shellcheck disable=SC2086 # a line of arguments, split on purpose
    if ! "$binary/breakwater" lab --headless --json $arguments >"$binary/out" 2>"$binary/err"; then
      echo "lab $arguments: round $round FAILED; its last lines:" >&2
      tail -n 20 "$binary/err" >&2
      tail -n 3 "$binary/out" >&2
      exit 1
    fi
    echo "lab $arguments: round $round held, $((SECONDS - begin)) s"
  done
done
