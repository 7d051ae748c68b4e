#!/usr/bin/env bash
# The lab scenarios, each five times in a row without a miss. Part of `make prove`.
set -euo pipefail
cd "$(dirname "$0")/.."
ROUNDS=${ROUNDS:-5} exec tools/ci-lab.sh
