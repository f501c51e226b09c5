#!/usr/bin/env bash
# The arithmetic on 64-bit ARM: cross-compiles src/vm/tensor/arith with its unit tests and tests/arith, runs them under
# qemu, and compares the digest of all words with that of this machine's test_arith_cases.
# Usage: contrib/check-neon.sh [--cases N] [--seed S]     default: 100,000 cases of seed 1
# Needs g++-aarch64-linux-gnu and qemu-user (contrib/install-deps.sh --with-arm), googletest's sources, and the testing
# build (QUERN_BIN: its bin). Without a tool it is skipped; with CI set that is a failure.
# Ends with one line: "N passed, N failed[, N skipped]".
set -uo pipefail
cd "$(dirname "$0")/.."
cases=100000 seed=1
while [ $# -gt 0 ]; do
  case "$1" in
    -h|--help) sed -n '2,7s/^# \{0,1\}//p' "$0"; exit 0 ;;
    --cases) cases=${2:?--cases needs a number}; shift ;;
    --seed) seed=${2:?--seed needs a number}; shift ;;
    *) echo "check-neon: unknown option $1" >&2; exit 2 ;;
  esac
  shift
done
native=${QUERN_BIN:-$PWD/build/testing/bin}/test_arith_cases
compiler=aarch64-linux-gnu-g++ qemu=qemu-aarch64 googletest=/usr/src/googletest/googletest
for tool in "$compiler" "$qemu"; do
  command -v "$tool" >/dev/null && continue
  if [ -n "${CI:-}" ]; then
    echo "FAIL neon: $tool is missing"
    echo "0 passed, 1 failed"
    exit 1
  fi
  echo "skipped: $tool is missing"
  echo "0 passed, 0 failed, 1 skipped"
  exit 0
done

passed=0 failed=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# check NAME COMMAND...: one check; its output is shown when it fails.
check() {
  local name=$1
  shift
  if "$@" >"$work/log" 2>&1; then
    passed=$((passed + 1))
    echo "ok   neon: $name"
  else
    failed=$((failed + 1))
    echo "FAIL neon: $name"
    tail -n 40 "$work/log"
  fi
}
# Of the host's headers only tl/expected.hpp, which depends on no processor: the folder would bring the C library's too.
mkdir "$work/include"
ln -s /usr/include/tl "$work/include/tl"
flags=(-std=c++20 -ffp-contract=off -fno-fast-math -Isrc -Itests -I"$work/include")
warned=(-O3 -Wall -Wextra -Wconversion -Wno-sign-conversion -Werror)
ccache=$(command -v ccache)
compile() {
  local out=$1
  shift
  $ccache "$compiler" "${flags[@]}" "$@" -c -o "$work/$out"
}
compile_all() {
  local file
  for file in src/vm/tensor/arith/*.cpp tests/arith/arith_cases.cpp; do
    compile "$(basename "$file" .cpp).o" "${warned[@]}" "$file" || return 1
  done
  for file in tests/unit/vm/tensor/arith_*_test.cpp; do
    compile "$(basename "$file" .cpp).o" -O2 -I"$googletest/include" "$file" || return 1
  done
  compile gtest.o -O1 -I"$googletest" -I"$googletest/include" "$googletest/src/gtest-all.cc" || return 1
  compile gtest_main.o -O1 -I"$googletest" -I"$googletest/include" "$googletest/src/gtest_main.cc"
}
link_all() {
  local arithmetic=("$work"/*{kernels,scalar,soft_elementary,soft_float}.o)
  "$compiler" -static "$work"/*_test.o "$work"/gtest*.o "${arithmetic[@]}" -o "$work/tests" &&
    "$compiler" -static "$work/arith_cases.o" "${arithmetic[@]}" -o "$work/cases"
}
uses_neon() { grep -q '^neon: .* 0 differ$' "$work/arm"; }
same_digest() { diff <(grep '^digest ' "$work/here") <(grep '^digest ' "$work/arm"); }
runs() {
  local status=0
  "${@:2}" >"$work/$1" 2>&1 || status=$?
  cat "$work/$1"
  return "$status"
}
check "the arithmetic and its tests compile" compile_all
check "they link" link_all
if [ "$failed" -eq 0 ]; then
  check "unit tests" "$qemu" "$work/tests"
  check "$cases cases of seed $seed under qemu" runs arm "$qemu" "$work/cases" --cases "$cases" --seed "$seed"
  check "neon is among the backends" uses_neon
  check "$cases cases of seed $seed here" runs here "$native" --cases "$cases" --seed "$seed"
  check "both processors give the same words" same_digest
  grep -hE '^(digest|[a-z0-9]+: )' "$work/arm" "$work/here"
fi
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
