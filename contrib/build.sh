#!/usr/bin/env bash
# Configures and builds one preset. Usage: contrib/build.sh PRESET [CMAKE OPTION...]
# Objects are cached by ccache in $CCACHE_DIR (default: the user's cache directory, outside the clone).
set -euo pipefail
cd "$(dirname "$0")/.."
preset=${1:?usage: contrib/build.sh PRESET [CMAKE OPTION...]}
shift
export CCACHE_DIR=${CCACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/quern-ccache}
# Paths below the checkout count as relative, so that another clone finds the same objects.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
log=build/$preset/configure.log
mkdir -p "build/$preset"
if ! cmake --preset "$preset" -DQUERN_TEST_FAULTS=ON "$@" >"$log" 2>&1; then
  cat "$log" >&2
  exit 1
fi
cmake --build --preset "$preset" -j "${QUERN_JOBS:-$(nproc)}"
