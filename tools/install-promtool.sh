#!/usr/bin/env bash
# Makes sure that promtool can be found: the tests of metrics, alert rules and the dashboard run it, and
# fail without it. Where it is not on PATH this installs the package prometheus by apt (as root, or by
# sudo without a password), whose server is not started; else it says what to install and fails.
set -euo pipefail

found() { command -v promtool >/dev/null && echo "promtool: $(command -v promtool)"; }

how_to() {
  cat >&2 <<'TEXT'
The tests need promtool, a program that comes with Prometheus (2.42 or newer), on PATH. Install it:

  Debian, Ubuntu   sudo apt-get install prometheus
  Fedora, RHEL     sudo dnf install golang-github-prometheus
  Alpine           sudo apk add prometheus
  Arch             sudo pacman -S prometheus
  macOS            brew install prometheus

then run this again. No Prometheus server needs to run.
TEXT
}

# Installs by apt. Debian starts a server that it installs, but where policy-rc.d says no; one that is
# there already is left as it is.
install_by_apt() {
  local as_root=() policy=/usr/sbin/policy-rc.d
  [ "$(id -u)" -eq 0 ] || as_root=(sudo -n)
  as_root+=(env DEBIAN_FRONTEND=noninteractive)
  if [ ! -e "$policy" ]; then
    "${as_root[@]}" sh -c "printf '#!/bin/sh\nexit 101\n' >$policy && chmod +x $policy"
    # shellcheck disable=SC2064 # the values of now are meant
    trap "${as_root[*]} rm -f $policy" EXIT
  fi
  "${as_root[@]}" apt-get update -q
  "${as_root[@]}" apt-get install -q -y --no-install-recommends prometheus
}

if found; then exit 0; fi
if ! command -v apt-get >/dev/null || { [ "$(id -u)" -ne 0 ] && ! sudo -n true 2>/dev/null; }; then
  how_to
  exit 1
fi
echo "installing promtool by apt"
install_by_apt
if found; then exit 0; fi
echo "apt installed the package prometheus, yet promtool is not on PATH" >&2
how_to
exit 1
