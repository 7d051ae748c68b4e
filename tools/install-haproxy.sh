#!/usr/bin/env bash
# Makes sure that HAProxy can be found: a test runs deploy/haproxy/haproxy.cfg with a real one and fails without it. Where it is missing it is installed by apt (as
# root, or by sudo without a password), else this says what to install and fails.
set -euo pipefail

find_haproxy() {
  local p
  for p in "$(command -v haproxy || true)" /usr/sbin/haproxy /usr/local/sbin/haproxy; do
    if [ -n "$p" ] && [ -x "$p" ]; then printf '%s\n' "$p"; return 0; fi
  done
  return 1
}

how_to() {
  cat >&2 <<TEXT
A test needs HAProxy (2.2 or newer). Looked on PATH, in /usr/sbin and /usr/local/sbin. Install it:

  Debian, Ubuntu   sudo apt-get install haproxy
  Fedora, RHEL     sudo dnf install haproxy
  Alpine           sudo apk add haproxy
  Arch             sudo pacman -S haproxy
  macOS            brew install haproxy

then run this again. No service needs to run: the test starts its own.
TEXT
}

if path=$(find_haproxy); then echo "HAProxy: $path"; exit 0; fi
as_root=()
if [ "$(id -u)" -ne 0 ]; then as_root=(sudo -n); fi
if ! command -v apt-get >/dev/null || ! "${as_root[@]}" true 2>/dev/null; then
  how_to
  exit 1
fi
echo "installing HAProxy by apt"
"${as_root[@]}" apt-get update -q
# Where the package starts its service, that listens nowhere: Debian's configuration names no frontend.
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends haproxy
if path=$(find_haproxy); then echo "HAProxy: $path"; exit 0; fi
echo "apt installed the package haproxy, yet its program is not to be found" >&2
how_to
exit 1
