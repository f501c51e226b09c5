#!/usr/bin/env bash
# Proves that ./autogen.sh && ./configure && make && make check && make install work. Run by CI, after the testing build:
# one configuration is that build's own, so little is left to compile, and the other, a fresh one outside the source tree
# with other options, builds a single program.
# Usage: contrib/check-configure.sh [FILTER]     FILTER: for make check (default: a few quick test programs and lint)
# Ends with one line: "N passed, N failed".
set -uo pipefail
cd "$(dirname "$0")/.."
filter=${1:-'test_(base|crypto|chain_types|chain_params)$'}
export CCACHE_DIR=${CCACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/quern-ccache} CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
root=$PWD
work=$root/build/check-configure
jobs=${QUERN_JOBS:-$(nproc)}
stage=$work/stage
rm -rf "$work"
mkdir -p "$work"

passed=0 failed=0
# step NAME COMMAND...: one check; its output is shown when it fails.
step() {
  local name=$1
  shift
  if (cd "$work" && "$@") >"$work/step.log" 2>&1; then
    passed=$((passed + 1))
    echo "ok   configure: $name"
  else
    failed=$((failed + 1))
    echo "FAIL configure: $name"
    tail -n 60 "$work/step.log"
  fi
}
refuses() { ! "$@"; }
cache_has() { grep -qx -- "$1" fresh/CMakeCache.txt; }
check_says() { make check FILTER="$filter" | tee /dev/stderr | grep -Eq '^[1-9][0-9]* passed, 0 failed'; }
# Everything that runs is there, nothing of the tests or for linking.
installed() {
  local each
  for each in quernd quern-cli quern-wallet quern-worker quern-genesis quern-compile quern-train; do
    "$stage/opt/quern/bin/$each" --help >/dev/null || { echo "$each does not run"; return 1; }
  done
  "$stage/opt/quern/bin/quernd" --version | grep -qF "$(cat "$root/VERSION")" || { echo "wrong version"; return 1; }
  [ -f "$stage/opt/quern/share/doc/quern/LICENSE" ] && [ -f "$stage/opt/quern/share/doc/quern/doc/operations.md" ] ||
    { echo "documents are missing"; return 1; }
  ! find "$stage" -name '*.h' -o -name '*.a' -o -name 'test_*' | grep . || { echo "too much is installed"; return 1; }
}
bound_at_start() { readelf -d "$stage/opt/quern/bin/quernd" | grep -q BIND_NOW; }
nothing_left() { ! find "$stage" -type f | grep .; }

step autogen.sh "$root/autogen.sh"
step "refuses an unknown value" refuses "$root/configure" --enable-tests=perhaps
step "refuses a compiler that does not work" refuses env CXX=/bin/false "$root/configure" --with-build-dir=broken
step "configure, fresh" env CXXFLAGS=-DQUERN_CONFIGURED LDFLAGS=-Wl,-O1 "$root/configure" --without-torch --disable-tests \
  --with-build-dir=fresh
step "options reach CMake" eval 'cache_has QUERN_WITH_TORCH:BOOL=OFF && cache_has QUERN_BUILD_TESTS:BOOL=OFF &&
  cache_has CMAKE_CXX_FLAGS:STRING=-DQUERN_CONFIGURED && cache_has CMAKE_EXE_LINKER_FLAGS:STRING=-Wl,-O1'
step "make TARGETS=quern-cli" make TARGETS=quern-cli "JOBS=$jobs"
step "what was made runs" fresh/bin/quern-cli --help
step "make distclean" make distclean
step "distclean removes the build" refuses ls fresh Makefile

# The testing build's own options (contrib/build.sh), but for those whose absence is no fault.
torch=--with-torch
grep -qs '^QUERN_WITH_TORCH:BOOL=OFF' "$root/build/testing/CMakeCache.txt" && torch=--without-torch
step "configure, as the testing build" "$root/configure" --prefix=/opt/quern "$torch" --enable-bench --enable-test-faults \
  --with-build-dir="$root/build/testing"
step make make "JOBS=$jobs"
step "make check" check_says
step "make install" make install "DESTDIR=$stage"
step "what is installed" installed
step "functions are bound at the start" bound_at_start
step "make uninstall" make uninstall "DESTDIR=$stage"
step "nothing is left" nothing_left
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
