#!/usr/bin/env bash
# Builds the fuzz preset (clang, AddressSanitizer, UBSan) and runs fuzz targets with libFuzzer, one after the other.
# Usage: contrib/fuzz.sh [SECONDS PER TARGET] [TARGET...]       default: 60 seconds, every target
#        contrib/fuzz.sh --seeds                                writes the committed corpora anew from real objects
# What libFuzzer finds new stays in build/fuzz/corpus/<target>; inputs that break something in build/fuzz/crashes.
# Ends with one line over everything: "N passed, N failed".
set -euo pipefail
cd "$(dirname "$0")/.."
case "${1:-}" in
  -h|--help) sed -n '2,7s/^# \{0,1\}//p' "$0"; exit 0 ;;
  --seeds)
    cmake --preset testing -DQUERN_WITH_TORCH=OFF -B build/fuzz-seeds >/dev/null
    cmake --build build/fuzz-seeds -j "${QUERN_JOBS:-$(nproc)}" --target test_fuzz_corpus
    exec build/fuzz-seeds/bin/test_fuzz_corpus --generate tests/fuzz/corpus ;;
esac
seconds=60
if [[ "${1:-}" =~ ^[0-9]+$ ]]; then seconds=$1; shift; fi

./contrib/install-deps.sh --with-clang
cmake --preset fuzz >/dev/null
cmake --build --preset fuzz -j "${QUERN_JOBS:-$(nproc)}" --target quern-fuzz
targets=("$@")
if [ ${#targets[@]} -eq 0 ]; then
  mapfile -t targets < <(build/fuzz/bin/quern-fuzz --list)
fi

export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_leaks=1:allocator_may_return_null=0}
export UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1}
passed=0 failed=0
mkdir -p build/fuzz/crashes
for target in "${targets[@]}"; do
  mkdir -p "build/fuzz/corpus/$target"
  log=build/fuzz/$target.log
  # -malloc_limit_mb: nothing here may allocate by what an input claims.
  if build/fuzz/bin/quern-fuzz --target="$target" -max_total_time="$seconds" -timeout=20 -max_len=20000 \
       -malloc_limit_mb=256 -rss_limit_mb=2048 -print_final_stats=1 -artifact_prefix="build/fuzz/crashes/$target-" \
       "build/fuzz/corpus/$target" "tests/fuzz/corpus/$target" >"$log" 2>&1; then
    passed=$((passed + 1))
    echo "ok   $target: $(sed -n 's/^stat::number_of_executed_units: *//p' "$log") runs"
  else
    failed=$((failed + 1))
    echo "FAIL $target"
    tail -n 40 "$log"
  fi
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
