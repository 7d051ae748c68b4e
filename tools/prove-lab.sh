#!/usr/bin/env bash
# The lab scenarios, each five times in a row without a miss, and scenario random for two minutes
# with three seeds, five times each. Nothing is tried again. Part of `make prove`.
set -euo pipefail
cd "$(dirname "$0")/.."
ROUNDS=${ROUNDS:-5} SEEDS=${SEEDS:-1 2 3} RANDOM_FOR=${RANDOM_FOR:-120s} FLAPPING_FOR=60s HEALTHY_FOR=60s OUTAGE=30s SHORT=10s CRASH_FOR=${CRASH_FOR:-20s} MORE=1 TRY_AGAIN=0 exec tools/ci-lab.sh
