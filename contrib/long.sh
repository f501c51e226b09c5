#!/usr/bin/env bash
# The checks that take too long for each change: see doc/long-runs.md for what they last said and of which commit.
# Usage: contrib/long.sh [NAME...]      default: all, one after the other
#   tidy      clang-tidy on every file of src
#   tsan      ThreadSanitizer over the unit tests (rebuilds everything)
#   fuzz      libFuzzer on every target, 60 seconds each (FUZZ_SECONDS=N for another time)
#   mutate    mutation testing of the folders that matter most, 100 mutants
#   sim       quern-sim over 5,000 seeds
#   docs      README.md and doc/operations.md pasted literally in a bare chroot (root, debootstrap)
# Each prints a row for doc/long-runs.md when it ends. Ends with "N passed, N failed".
set -uo pipefail
cd "$(dirname "$0")/.."
case "${1:-}" in -h|--help) sed -n '2,10s/^# \{0,1\}//p' "$0"; exit 0 ;; esac
all=(tidy tsan fuzz mutate sim docs)
commit=$(git rev-parse --short=12 HEAD)
log=$(mktemp)
trap 'rm -f "$log"' EXIT
passed=0 failed=0
# Only what the unit tests need: threads are in the programs' libraries, not in their main functions.
run_tsan() {
  ./contrib/build.sh tsan && TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1 \
    python3 contrib/python/run_tests.py --build build/tsan
}
run() {
  local title=$1 status=0 began=$SECONDS said
  shift
  "$@" 2>&1 | tee "$log" || status=$?
  said=$(grep -E '^[0-9]+ passed, [0-9]+ failed' "$log" | tail -n 1)
  if [ "$status" -eq 0 ]; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
  echo "| $title | \`$commit\` | ${said:-exit status $status} | $(((SECONDS - began) / 60)) min |"
}
for name in "${@:-${all[@]}}"; do
  case "$name" in
    tidy) run "full clang-tidy" ./contrib/check-code.sh tidy --all ;;
    tsan) run "ThreadSanitizer, unit tests" run_tsan ;;
    fuzz) run "libFuzzer, all targets" ./contrib/fuzz.sh "${FUZZ_SECONDS:-60}" ;;
    mutate) run "mutants" ./contrib/mutate.sh --count 100 chain/consensus/sdbft chain/exec compute/core p2p ;;
    sim) run "quern-sim, 5,000 seeds" build/testing/bin/quern-sim -n 5000 ;;
    docs) run "documents in a bare chroot" ./contrib/check-docs.sh ;;
    *) echo "long.sh: unknown check $name" >&2; exit 2 ;;
  esac
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
