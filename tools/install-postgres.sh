#!/usr/bin/env bash
# Makes sure that the PostgreSQL server's programs can be found: the tests need a real server and
# are never skipped. Looks where internal/fleet looks; where nothing is found it installs the
# server by apt (as root, or by sudo without a password), else it says what to install and fails.
set -euo pipefail

readonly needed=(initdb postgres pg_ctl psql)

complete() { # DIR: does it hold every program that the tests start?
  local p
  for p in "${needed[@]}"; do [ -x "$1/$p" ] || return 1; done
}

# Prints the first directory that is complete. Debian's PATH holds wrappers and no server, so the
# link on PATH is followed to where the programs lie.
find_server() {
  local p d
  for p in postgres pg_ctl initdb; do
    p=$(command -v "$p" 2>/dev/null) || continue
    for d in "$(dirname "$p")" "$(dirname "$(readlink -f "$p")")"; do
      if complete "$d"; then printf '%s\n' "$d"; return 0; fi
    done
  done
  while read -r d; do
    if complete "$d"; then printf '%s\n' "$d"; return 0; fi
  done < <(printf '%s\n' \
    /usr/lib/postgresql/*/bin /usr/pgsql-*/bin \
    /opt/homebrew/opt/postgresql*/bin /usr/local/opt/postgresql*/bin \
    /home/linuxbrew/.linuxbrew/opt/postgresql*/bin /usr/local/pgsql/bin | sort -rV)
  return 1
}

how_to() {
  cat >&2 <<'TEXT'
The tests need the PostgreSQL server (14 or newer): initdb, postgres, pg_ctl, psql. None was found
on PATH, in /usr/lib/postgresql/*/bin, /usr/pgsql-*/bin, or where Homebrew puts it. Install it:

  Debian, Ubuntu   sudo apt-get install postgresql
  Fedora, RHEL     sudo dnf install postgresql-server postgresql
  Alpine           sudo apk add postgresql
  Arch             sudo pacman -S postgresql
  macOS            brew install postgresql@17

then run this again. No cluster needs to be set up or started: the tests make their own.
TEXT
}

# Installs by apt. Our tests make their own clusters, so the package is told to make and start
# none; the setting lies there only while the package is being installed.
install_by_apt() {
  local as_root=() off=/etc/postgresql-common/createcluster.d/breakwater-no-main-cluster.conf
  [ "$(id -u)" -eq 0 ] || as_root=(sudo -n)
  as_root+=(env DEBIAN_FRONTEND=noninteractive)
  "${as_root[@]}" sh -c "mkdir -p ${off%/*} && echo 'create_main_cluster = false' >$off"
  # shellcheck disable=SC2064 # the values of now are meant
  trap "${as_root[*]} rm -f $off" EXIT
  "${as_root[@]}" apt-get update -q
  "${as_root[@]}" apt-get install -q -y --no-install-recommends postgresql
}

if dir=$(find_server); then
  echo "PostgreSQL server: $dir"
  exit 0
fi
if ! command -v apt-get >/dev/null || { [ "$(id -u)" -ne 0 ] && ! sudo -n true 2>/dev/null; }; then
  how_to
  exit 1
fi
echo "PostgreSQL server not found: installing it by apt"
install_by_apt
if ! dir=$(find_server); then
  echo "apt installed the package postgresql, yet its programs are not to be found" >&2
  how_to
  exit 1
fi
echo "PostgreSQL server: $dir"
