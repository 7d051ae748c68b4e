#!/usr/bin/env bash
# Makes sure that the PostgreSQL server's programs can be found: the tests need a real server and
# fail without one. Looks where internal/fleet looks (find.go; internal/archtest compares the two
# lists); where nothing is found it installs the server by apt (as root, or by sudo without a
# password), else it says what to install and fails.
set -euo pipefail

readonly oldest=13
readonly server=(initdb postgres)       # what the fleet starts
readonly clients=(psql pg_basebackup)   # what the fleet's own tests need beside them
# In this order, the highest version of each first.
readonly places=(
  "/usr/lib/postgresql/*/bin"
  "/usr/pgsql-*/bin"
  "/opt/homebrew/opt/postgresql*/bin"
  "/usr/local/opt/postgresql*/bin"
  "/home/linuxbrew/.linuxbrew/opt/postgresql*/bin"
  "/Applications/Postgres.app/Contents/Versions/*/bin"
  "/usr/libexec/postgresql*"
  "/usr/local/pgsql/bin"
)

has() { # DIR PROGRAM...
  local dir=$1 p
  shift
  for p in "$@"; do [ -f "$dir/$p" ] && [ -x "$dir/$p" ] || return 1; done
}

candidates() { # one directory a line, best first
  local p place
  # Debian's PATH holds wrappers and no server: a link leads to where the programs lie.
  for p in $(type -ap postgres); do dirname "$(readlink -f "$p")"; done
  for place in "${places[@]}"; do
    compgen -G "$place" | sort -rV || true
  done
}

# Prints the first directory that holds a server which is new enough: the one that the fleet takes.
find_server() {
  local dir
  while read -r dir; do
    has "$dir" "${server[@]}" || continue
    [[ $("$dir/postgres" --version 2>/dev/null) =~ \(PostgreSQL\)\ ([0-9]+) ]] || continue
    if [ "${BASH_REMATCH[1]}" -ge "$oldest" ]; then printf '%s\n' "$dir"; return 0; fi
  done < <(candidates)
  return 1
}

how_to() {
  cat >&2 <<TEXT
The tests need the PostgreSQL server ($oldest or newer) and, in the same directory, its clients:
${server[*]} ${clients[*]}. Looked on PATH and in

$(printf '  %s\n' "${places[@]}")

Install it:

  Debian, Ubuntu   sudo apt-get install postgresql
  Fedora, RHEL     sudo dnf install postgresql-server postgresql
  Alpine           sudo apk add postgresql postgresql-client
  Arch             sudo pacman -S postgresql
  macOS            brew install postgresql@17

then run this again. No cluster needs to be set up or started: the tests make their own.
TEXT
}

# Tells where the server is, or what is missing beside it.
found() { # DIR
  if has "$1" "${clients[@]}"; then echo "PostgreSQL server: $1"; return 0; fi
  echo "PostgreSQL server: $1, but not all of: ${clients[*]}" >&2
  return 1
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

if dir=$(find_server) && found "$dir"; then exit 0; fi
if ! command -v apt-get >/dev/null || { [ "$(id -u)" -ne 0 ] && ! sudo -n true 2>/dev/null; }; then
  how_to
  exit 1
fi
echo "installing PostgreSQL by apt"
install_by_apt
if dir=$(find_server) && found "$dir"; then exit 0; fi
echo "apt installed the package postgresql, yet its programs are not to be found" >&2
how_to
exit 1
