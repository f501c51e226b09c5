#!/usr/bin/env bash
# The checks that take too long for each change: see doc/long-runs.md for what they last said and of which commit.
# Usage: contrib/long.sh [--brief] [NAME...]      default: all, one after the other
#   --brief   a sample of each, so that the commands themselves stay whole: tidy of what changed, ThreadSanitizer over
#             test_base, two fuzz targets for 20 seconds, two mutants, 10,000 games, 200 seeds, eight tasks a run, four
#             kills, two attacks, one verifier, 25 million parameters, 20,000 steps, 100,000 cases of the arithmetic,
#             100 steps by two compilers; docs as ever
#   tidy      clang-tidy on every file of src
#   tsan      ThreadSanitizer over the unit tests and a network of four nodes (rebuilds everything)
#   fuzz      libFuzzer on every target, 60 seconds each (FUZZ_SECONDS=N for another time)
#   mutate    mutation testing of the folders that matter most, 100 mutants
#   games     a million random dispute games in random lives of tasks
#   sim       quern-sim over 5,000 seeds
#   market    quern-sim market, every scenario with 200 tasks a run
#   tasks     200 tasks at once with workers killed at random
#   kills     a node under full load, killed 100 times
#   attacks   the corpus of attacks (contrib/attacks.sh); in brief two of them
#   links     a solver behind 10 Mbit/s whose state of 51 MB three verifiers need (root)
#   models    GPT-2's smallest model, 124 million parameters, of an architecture and of an ONNX file as Hugging Face names
#             it: trained, replayed, a lie in it played to its leaf (12 GB)
#   steps     a training of a million steps: what its solver keeps
#   arith     ten million random cases of the arithmetic: all backends of this machine, and NEON under qemu
#   compilers state roots of g++ and of clang++ after 1,000 steps of three models
#   docs      README.md and doc/operations.md pasted literally in a bare chroot (root, debootstrap)
# Each prints a row for doc/long-runs.md when it ends. Ends with "N passed, N failed".
set -uo pipefail
cd "$(dirname "$0")/.."
case "${1:-}" in -h|--help) sed -n '2,26s/^# \{0,1\}//p' "$0"; exit 0 ;; esac
brief=0
if [ "${1:-}" = --brief ]; then brief=1; shift; fi
all=(tidy tsan fuzz mutate games sim market tasks kills attacks links models steps arith compilers docs)
commit=$(git rev-parse --short=12 HEAD)
log=$(mktemp)
trap 'rm -f "$log"' EXIT
passed=0 failed=0
# The unit tests, then four nodes as processes: whatever reports, a node that was about to be killed too, leaves a file. The
# preset leaves out Asio's fences, which the sanitizer does not understand (the locks of its queues order the same). Without
# randomised addresses where that is allowed: the sanitizer of GCC 12 does not know where newer kernels put things.
run_tsan() {
  local only=() filter='^tsan/|^functional/test_network\.py$' plainly=() status=0 reports=$PWD/build/tsan/reports report
  ! setarch -R true 2>/dev/null || plainly=(setarch -R)
  if [ "$brief" = 1 ]; then only=(--target test_base) filter='^tsan/test_base$'; fi
  ./contrib/build.sh tsan ${only[@]+"${only[@]}"} || return 1
  rm -rf "$reports"
  mkdir -p "$reports"
  QUERN_TIMEOUT_FACTOR=5 QUERN_NETWORK_KILLS=10 TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1:log_path=$reports/report \
    ${plainly[@]+"${plainly[@]}"} python3 contrib/python/run_tests.py --build build/tsan --functional --filter "$filter" || status=1
  for report in "$reports"/*; do
    [ -f "$report" ] || continue
    echo "FAIL $report:"
    cat "$report"
    status=1
  done
  return "$status"
}
run_fuzz() {
  if [ "$brief" = 1 ]; then ./contrib/fuzz.sh 20 transaction peer_session; else ./contrib/fuzz.sh "${FUZZ_SECONDS:-60}"; fi
}
run_tidy() {
  if [ "$brief" = 1 ]; then ./contrib/check-code.sh tidy; else ./contrib/check-code.sh tidy --all; fi
}
attacks=()
mutants=100 lives=140000 seeds=5000 tasks=200 kills=100 verifiers=3 millions=124 steps=1000000 cases=10000000 trained=1000
if [ "$brief" = 1 ]; then
  attacks=(lazy-pass late-abort)
  mutants=2 lives=1000 seeds=200 tasks=8 kills=4 verifiers=1 millions=25 steps=20000 cases=100000 trained=100
fi
run() {
  local title=$1 status=0 began=$SECONDS said
  shift
  "$@" 2>&1 | tee "$log" || status=$?
  said=$(grep -E '^[0-9]+ passed, [0-9]+ failed' "$log" | tail -n 1)
  if [ "$status" -eq 0 ]; then passed=$((passed + 1)); else failed=$((failed + 1)) said="${said:+$said; }exit status $status"; fi
  echo "| $title | \`$commit\` | ${said:-ended well} | $(((SECONDS - began) / 60)) min |"
}
for name in "${@:-${all[@]}}"; do
  case "$name" in
    tidy) run "$([ "$brief" = 1 ] || echo full\ )clang-tidy" run_tidy ;;
    tsan) run "ThreadSanitizer, $([ "$brief" = 1 ] && echo test_base || echo unit tests and test_network)" run_tsan ;;
    fuzz) run "libFuzzer, $([ "$brief" = 1 ] && echo two || echo all) targets" run_fuzz ;;
    mutate) run "mutants" ./contrib/mutate.sh --count "$mutants" chain/consensus/sdbft chain/exec compute/core p2p ;;
    games) QUERN_PROPERTY_RUNS=$lives run "the games of $lives random lives" \
      build/testing/bin/test_chain_exec --gtest_filter='MarketProperties.money*' ;;
    sim) run "quern-sim, $seeds seeds" build/testing/bin/quern-sim -n "$seeds" ;;
    market) run "quern-sim market, $tasks tasks a run" build/testing/bin/quern-sim market --tasks "$tasks" ;;
    tasks) QUERN_TIMEOUT_FACTOR=6 QUERN_MANY_TASKS=$((brief ? 12 : tasks)) run "$((brief ? 12 : tasks)) tasks, workers killed" \
      python3 contrib/python/run_tests.py --build build/testing --functional --filter 'test_many_tasks\.py$' ;;
    kills) QUERN_CRASH_LOADED_KILLS=$kills run "a loaded node, killed $kills times" \
      python3 contrib/python/run_tests.py --build build/testing --functional --filter 'test_node_crash\.py$' ;;
    attacks) run "the corpus of attacks" python3 tests/attacks/run.py ${attacks[@]+"${attacks[@]}"} ;;
    links) QUERN_LINKS_VERIFIERS=$verifiers run "a solver behind 10 Mbit/s, verifiers: $verifiers" \
      python3 contrib/python/run_tests.py --build build/testing --functional --filter 'test_slow_links\.py$' ;;
    models) QUERN_TIMEOUT_FACTOR=12 QUERN_LARGE_MODEL=$millions run "a dispute about $millions million parameters" \
      python3 contrib/python/run_tests.py --build build/testing --functional --filter 'test_large_models\.py$' ;;
    steps) QUERN_TIMEOUT_FACTOR=12 QUERN_MANY_STEPS=$steps run "a training of $steps steps" \
      python3 contrib/python/run_tests.py --build build/testing --functional --filter 'test_many_steps\.py$' ;;
    arith) run "$cases random cases of the arithmetic, seed ${ARITH_SEED:-1}" \
      ./contrib/check-neon.sh --cases "$cases" --seed "${ARITH_SEED:-1}" ;;
    compilers) run "state roots of two compilers, $trained steps" ./contrib/check-compilers.sh --steps "$trained" ;;
    docs) run "documents in a bare chroot" ./contrib/check-docs.sh ;;
    *) echo "long.sh: unknown check $name" >&2; exit 2 ;;
  esac
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
