#!/usr/bin/env bash
# Takes one guard of package breaker away at a time (dev/mutations/*.patch), in a copy, and runs the tests
# of breaker, breakermodel: each must then fail (docs/mutations.md). Names the first test that did.
#   tools/mutate.sh [NAME...]   only these; a name is a patch without .patch
set -euo pipefail
cd "$(dirname "$0")/.."
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
git ls-files -z --cached --others --exclude-standard | while IFS= read -r -d '' file; do
  [ ! -e "$file" ] || cp --parents -- "$file" "$copy"
done
faults=0

fault() {
  echo "mutate: $*" >&2
  faults=$((faults + 1))
}

try() { # NAME
  local patch=$PWD/dev/mutations/$1.patch log=$copy/mutant.log
  grep -q "mutations/$1.patch" docs/mutations.md || fault "$1 is not in docs/mutations.md: add its line"
  git -C "$copy" apply "$patch" || { fault "$1 does not apply any more: mend the patch"; return; }
  if ! (cd "$copy" && go test -c -o /dev/null ./breaker) >"$log" 2>&1; then
    fault "$1 does not compile: $(tail -n 3 "$log")"
  elif (cd "$copy" && go test -count=1 -failfast -timeout 60s ./breaker && go test -count=1 -timeout 180s ./dev/breakermodel -rapid.nofailfile) >"$log" 2>&1; then
    fault "$1 survives: write the test that it breaks"
  else
    printf '%-45s %s\n' "$1" "$(grep -m 1 -oE -e '--- FAIL: \w+' -e 'test timed out' -e '^(panic|fatal error): .*' "$log")"
  fi
  git -C "$copy" apply -R "$patch"
}

if [ $# -eq 0 ]; then
  set -- $(cd dev/mutations && ls -- *.patch | sed 's/\.patch$//')
fi
for name; do try "$name"; done
echo "mutate: $# guards, $faults faults"
[ "$faults" -eq 0 ]
