#!/usr/bin/env bash
# Installs what is missing, builds, and runs all tests. Usage: contrib/test.sh [--sanitizers] [--filter REGEX]
#   --sanitizers    then the asan-ubsan build (without libtorch) and its unit tests
#   --filter REGEX  only test programs and files whose name matches
# Ends with one line over everything: "N passed, N failed". Exit status 0 only when nothing failed.
set -euo pipefail
cd "$(dirname "$0")/.."
sanitizers=0
filter=.
while [ $# -gt 0 ]; do
  case "$1" in
    --sanitizers) sanitizers=1 ;;
    --filter) filter=${2:?--filter needs a regular expression}; shift ;;
    -h|--help) sed -n '2,5s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "test.sh: unknown option $1" >&2; exit 2 ;;
  esac
  shift
done
./contrib/install-deps.sh
./contrib/build.sh testing
runs=(--build build/testing --functional)
if [ "$sanitizers" = 1 ]; then
  ./contrib/build.sh asan-ubsan
  runs+=(--build build/asan-ubsan)
fi
exec python3 contrib/python/run_tests.py "${runs[@]}" --filter "$filter"
