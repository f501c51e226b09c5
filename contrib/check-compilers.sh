#!/usr/bin/env bash
# Builds quern-training-roots with g++ and with clang++ and compares the state roots of short trainings.
# Usage: contrib/check-compilers.sh [--steps N]     default: 1,000
# g++'s is that of the testing build; clang's folder is build/clang. Without clang it is skipped; with CI set that is a
# failure. Ends with one line: "N passed, N failed[, N skipped]".
set -uo pipefail
cd "$(dirname "$0")/.."
steps=1000
case "${1:-}" in
  -h|--help) sed -n '2,5s/^# \{0,1\}//p' "$0"; exit 0 ;;
  --steps) steps=${2:?--steps needs a number} ;;
  '') ;;
  *) echo "check-compilers: unknown option $1" >&2; exit 2 ;;
esac
if ! command -v clang++ >/dev/null; then
  if [ -n "${CI:-}" ]; then
    echo "FAIL compilers: clang++ is missing"
    echo "0 passed, 1 failed"
    exit 1
  fi
  echo "skipped: clang++ is missing"
  echo "0 passed, 0 failed, 1 skipped"
  exit 0
fi
export CCACHE_DIR=${CCACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/quern-ccache} CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
program=quern-training-roots
passed=0 failed=0
ended() {
  if [ "$1" -eq 0 ]; then
    passed=$((passed + 1))
    echo "ok   compilers: $2"
  else
    failed=$((failed + 1))
    echo "FAIL compilers: $2"
  fi
}
# build FOLDER OPTION...: the one program, quietly unless it fails.
build() {
  local folder=$1 log
  shift
  log=$({ cmake --preset testing -B "$folder" "$@" &&
    cmake --build "$folder" -j "${QUERN_JOBS:-$(nproc)}" --target "$program"; } 2>&1) ||
    { tail -n 40 <<<"$log"; return 1; }
}
build build/testing
ended $? "g++ builds $program"
build build/clang -DCMAKE_C_COMPILER=clang -DCMAKE_CXX_COMPILER=clang++ -DQUERN_WITH_TORCH=OFF
ended $? "clang++ builds $program"
if [ "$failed" -eq 0 ]; then
  of_gcc=$(build/testing/bin/$program "$steps") && of_clang=$(build/clang/bin/$program "$steps") && [ -n "$of_gcc" ]
  ended $? "$steps steps of each model"
  diff <(echo "$of_gcc") <(echo "$of_clang") && echo "$of_gcc"
  ended $? "both give the same state roots"
fi
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
