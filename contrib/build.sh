#!/usr/bin/env bash
# Configures and builds one preset. Usage: contrib/build.sh PRESET [--programs | --target NAME]... [CMAKE OPTION...]
#   --programs   only what people run: quernd, quern-worker, quern-cli, quern-wallet, quern-genesis, quern-compile,
#                quern-train; no tests, no benchmarks, no libtorch (what was configured before with them stays configured)
#   --target NAME  only this, and what it needs; may be given more than once
# PRESET: release for use; testing has the faults besides that functional tests and the demo plant (QUERN_TEST_FAULTS), and
# shares all objects but a few; dev, asan-ubsan, tsan: doc/developer-notes.md
# Objects are cached by ccache in $CCACHE_DIR (default: the user's cache directory, outside the clone).
set -euo pipefail
cd "$(dirname "$0")/.."
case "${1:-}" in
  -h|--help) sed -n '2,8s/^# \{0,1\}//p' "$0"; exit 0 ;;
  ''|-*) echo "usage: contrib/build.sh PRESET [--programs | --target NAME]... [CMAKE OPTION...]" >&2; exit 2 ;;
esac
preset=$1
shift
options=() target=()
if [ "${1:-}" = --programs ]; then
  shift
  target=(--target programs)
  for name in QUERN_WITH_TORCH QUERN_BUILD_TESTS QUERN_BUILD_BENCH; do
    was=$(sed -n "s/^$name:[A-Z]*=//p" "build/$preset/CMakeCache.txt" 2>/dev/null || true)
    options+=("-D$name=${was:-OFF}")
  done
fi
while [ "${1:-}" = --target ]; do
  target+=(--target "${2:?--target needs a name}")
  shift 2
done
export CCACHE_DIR=${CCACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/quern-ccache}
# Paths below the checkout count as relative, so that another clone finds the same objects.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
log=build/$preset/configure.log
mkdir -p "build/$preset"
if ! cmake --preset "$preset" ${options[@]+"${options[@]}"} "$@" >"$log" 2>&1; then
  cat "$log" >&2
  exit 1
fi
cmake --build --preset "$preset" -j "${QUERN_JOBS:-$(nproc)}" ${target[@]+"${target[@]}"}
