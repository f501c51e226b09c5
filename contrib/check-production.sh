#!/usr/bin/env bash
# Builds the programs for production and proves that none of them can be told to misbehave: the options of test faults are
# unknown to them, and none of the faults' names stands in the file. The testing build, if there is one, shows that these
# checks can fail. Run by CI.
# Usage: contrib/check-production.sh
# Ends with one line: "N passed, N failed".
set -uo pipefail
cd "$(dirname "$0")/.."
case "${1:-}" in
  -h|--help) sed -n '2,6s/^# \{0,1\}//p' "$0"; exit 0 ;;
  '') ;;
  *) echo "check-production: unknown option $1" >&2; exit 2 ;;
esac
passed=0 failed=0
# check NAME COMMAND...: one check; its output is shown when it fails.
check() {
  local name=$1 said
  shift
  if said=$("$@" 2>&1); then
    passed=$((passed + 1))
    echo "ok   production: $name"
  else
    failed=$((failed + 1))
    echo "FAIL production: $name"
    tail -n 40 <<<"$said"
  fi
}
declare -A option=([quernd]=--testfault=double_vote [quern-worker]=--test-fault=flip_element)
declare -A names=([quernd]='testfault|double_vote|second_votes' [quern-worker]='test-fault|parse_fault|flip_element|skip_work|every_other_step|pass_without_work|silent_opening')
# Exit status 2 is that of options which are not understood; 1 would be of the option's work.
refuses_fault() {
  local status=0
  "$1/$2" "${option[$2]}" || status=$?
  [ "$status" = 2 ] && ! "$1/$2" --help | grep -E -- "--?test-?fault"
}
holds_no_fault() { ! grep -aoE "${names[$2]}" "$1/$2"; }
hardened() { readelf -d "$1/$2" | grep -q BIND_NOW && readelf -h "$1/$2" | grep -q 'Type:.*DYN'; }
opposite() { ! "$@"; }

check "it builds" ./contrib/build.sh release --programs
for name in quernd quern-worker; do
  check "$name refuses ${option[$name]%%=*}" refuses_fault build/release/bin "$name"
  check "$name holds no fault" holds_no_fault build/release/bin "$name"
  check "$name is bound at the start and placed anywhere" hardened build/release/bin "$name"
  if [ -x "build/testing/bin/$name" ]; then
    check "the testing build's $name takes the option" opposite refuses_fault build/testing/bin "$name"
    check "the testing build's $name holds the faults" opposite holds_no_fault build/testing/bin "$name"
  fi
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
