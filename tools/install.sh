#!/usr/bin/env bash
# Makes sure that the programs named are there: tests run them, and fail without. What is missing is installed by apt (as root, or by
# sudo without a password), without starting a service; where that cannot be, this says what to install and fails. Without names: all.
#   tools/install.sh [promtool] [haproxy] [systemd-analyze] [chromium] [npm]
# The PostgreSQL server has a script of its own, since it is looked for in more places.
set -euo pipefail
PATH=$PATH:/usr/sbin:/usr/local/sbin

declare -rA packages=( # of Debian; most systems call them alike
  [promtool]=prometheus [haproxy]=haproxy [systemd-analyze]=systemd [chromium]=chromium [npm]=npm
)
declare -rA uses=(
  [promtool]="metrics, alert rules and the dashboard (2.42 or newer)"
  [haproxy]="deploy/haproxy with a real proxy (2.2 or newer)"
  [systemd-analyze]="deploy/systemd"
  [chromium]="the page, in a real browser"
  [npm]="the page's tests (Node.js 20 or newer)"
)

wanted=("$@")
[ $# -gt 0 ] || wanted=("${!packages[@]}")
missing=()
for program in "${wanted[@]}"; do
  [ -n "${packages[$program]:-}" ] || { echo "tools/install.sh: $program is not known: name some of ${!packages[*]}" >&2; exit 2; }
  command -v "$program" >/dev/null || missing+=("$program")
done

as_root=()
[ "$(id -u)" -eq 0 ] || as_root=(sudo -n)
as_root+=(env DEBIAN_FRONTEND=noninteractive)

# Debian starts a service that it installs, but where policy-rc.d says no; one that is there already is left as it is.
install_by_apt() { # PACKAGE...
  local policy=/usr/sbin/policy-rc.d
  if [ ! -e "$policy" ]; then
    "${as_root[@]}" sh -c "printf '#!/bin/sh\nexit 101\n' >$policy && chmod +x $policy"
    # shellcheck disable=SC2064 # the values of now are meant
    trap "${as_root[*]} rm -f $policy" EXIT
  fi
  "${as_root[@]}" apt-get update -q
  "${as_root[@]}" apt-get install -q -y --no-install-recommends "$@"
}

if [ "${#missing[@]}" -gt 0 ] && command -v apt-get >/dev/null && "${as_root[@]}" true 2>/dev/null; then
  echo "installing by apt: ${missing[*]}"
  names=()
  for program in "${missing[@]}"; do names+=("${packages[$program]}"); done
  install_by_apt "${names[@]}"
fi
lacking=
for program in "${wanted[@]}"; do
  if path=$(command -v "$program"); then
    echo "$program: $path"
  else
    lacking=yes
    echo "the tests of ${uses[$program]} need $program. Install it, by apt the package ${packages[$program]}, and run this again; no service needs to run." >&2
  fi
done
[ -z "$lacking" ]
