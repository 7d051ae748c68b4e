#!/bin/sh
# The end-to-end tests of the page in headless Chromium: against a stand-in of the lab, with --lab against the program's own with a
# simulated fleet, with --serve against the daemon; --shots takes the pictures of docs/page.md. Fails where Chromium or node is missing and cannot be installed. Further arguments go to `node --test`.
set -eu
cd "$(dirname "$0")/.."
root=$PWD
e2e=$root/cmd/breakwater/internal/web/e2e
what=
case ${1-} in
--lab | --serve | --shots) what=$1 && shift ;;
esac

need() { # program, package of apt
	command -v "$1" >/dev/null && return
	if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
		apt-get install -y "$2" >/dev/null || true
	fi
	command -v "$1" >/dev/null || { echo "page-test: $1 is missing: install it (Debian: apt-get install $2)" >&2; exit 1; }
}
need node nodejs
need npm npm
need "${CHROMIUM:-chromium}" chromium
CHROMIUM=$(command -v "${CHROMIUM:-chromium}")
export CHROMIUM

cd "$e2e"
[ -e node_modules/.package-lock.json ] && [ node_modules/.package-lock.json -nt package-lock.json ] || npm ci --silent
work=$(mktemp -d)
lab_pid=
end() {
	[ -z "$lab_pid" ] || { kill "$lab_pid" 2>/dev/null && wait "$lab_pid"; } || true
	rm -rf "$work"
}
trap end EXIT INT TERM
build() { # name, package of cmd/breakwater
	(cd "$root/cmd/breakwater" && go build -o "$work/$1" "$2")
}

lab() { # starts the program's own and waits for its address
	: >"$work/err"
	"$work/breakwater" lab --fleet simulated --headless --listen 127.0.0.1:0 >"$work/out" 2>"$work/err" &
	lab_pid=$!
	PAGE_URL=
	for _ in $(seq 60); do
		PAGE_URL=$(grep -ho 'http://127[0-9.]*:[0-9]*/' "$work/err" | head -n 1)
		[ -z "$PAGE_URL" ] || break
		sleep 1
	done
	[ -n "$PAGE_URL" ] || { echo "page-test: the lab printed no address" >&2; cat "$work/err" >&2; exit 1; }
	export PAGE_URL
}

if [ -z "$what" ]; then
	build standin ./internal/web/e2e/standin
	export STANDIN="$work/standin"
	# shellcheck disable=SC2086 # PAGE_TESTS is some of the files, separated by spaces
	node --test --test-concurrency=2 "$@" ${PAGE_TESTS:-./*.test.mjs}
	exit
fi
build breakwater .
case $what in
--serve) BREAKWATER=$work/breakwater node --test "$@" serve.mjs ;;
--lab)
	lab
	node --test --test-concurrency=1 "$@" lab.test.mjs
	;;
--shots)
	lab
	node shots.mjs
	;;
esac
