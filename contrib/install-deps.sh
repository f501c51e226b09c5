#!/usr/bin/env bash
# Installs the Debian packages that Quern builds, runs and tests with (Debian 12). Run as root or with sudo. What Debian has
# no package of (blst) is built once into ${XDG_CACHE_HOME:-$HOME/.cache}/quern-depends, for all clones; npm fetches it.
# Usage: contrib/install-deps.sh [--programs | --with-clang --with-arm]
#   --programs     only what the programs, the demo and contrib/devnet need: no libtorch, no tests, and of Node.js only
#                  npm, where blst's sources are not there yet
#   --with-clang   also clang 14, its runtimes, clang-format and clang-tidy, for the fuzz preset and check-code.sh
#   --with-arm     also a cross compiler for 64-bit ARM and qemu to run what it makes, for check-neon.sh (45 MB)
# Installs only what is missing, so a second run is quick. Why each package is needed: doc/dependencies.md
set -euo pipefail

packages=(
  build-essential cmake ninja-build ccache pkg-config ca-certificates
  libboost-dev libssl-dev libsecp256k1-dev libgmp-dev libleveldb-dev libcrypto++-dev libjemalloc-dev
  rapidjson-dev libspdlog-dev libfmt-dev libcli11-dev libexpected-dev libspng-dev libturbojpeg0-dev
  libonnx-dev libprotobuf-dev libcurl4-openssl-dev
  python3 gnuplot-nox iproute2
)
more=(autoconf git libtorch-dev libopenblas0-openmp libseccomp-dev libgtest-dev libgmock-dev xz-utils python3-torch
      python3-pip mypy python3-typeshed)
# Intel's libraries are used where Intel's processors are.
if [ "$(dpkg --print-architecture)" = amd64 ]; then packages+=(libipsec-mb-dev libisal-dev); fi
npm=1
for argument in "$@"; do
  case "$argument" in
    --programs) more=() npm=0 ;;
    --with-clang) more+=(clang libclang-rt-14-dev clang-format clang-tidy) ;;
    --with-arm) more+=(g++-aarch64-linux-gnu qemu-user) ;;
    -h|--help) sed -n '2,9s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "install-deps: unknown option $argument" >&2; exit 2 ;;
  esac
done
packages+=(${more[@]+"${more[@]}"})

installed() { dpkg-query -W -f='${Status}' "$1" 2>/dev/null | grep -q '^install ok installed$'; }

missing=()
for package in "${packages[@]}"; do
  installed "$package" || missing+=("$package")
done

# Whose cache the builds of this clone will look into, which sudo of all of this script would hide.
owner=() cache=${XDG_CACHE_HOME:-$HOME/.cache}/quern-depends
if [ "$(id -u)" -eq 0 ] && [ "${SUDO_USER:-root}" != root ]; then
  owner=(sudo -u "$SUDO_USER") cache=$(getent passwd "$SUDO_USER" | cut -d: -f6)/.cache/quern-depends
fi
as_owner() { ${owner[@]+"${owner[@]}"} "$@"; }
# By depends/, with the cache's folders; the second time there is nothing to fetch and nothing to build.
build_blst() {
  local work
  work=$(as_owner mktemp -d)
  as_owner make -s -C "$(dirname "$0")/../depends" packages=blst SOURCES_PATH="$cache/sources" BASE_CACHE="$cache/built" \
    WORK_PATH="$work" HOST_PREFIX="$cache/$(dpkg-architecture -qDEB_HOST_MULTIARCH)"
  as_owner rm -rf "$work"
}
# Without its sources npm must fetch them.
[ -n "$(ls "$cache"/sources/c-kzg-*.tgz 2>/dev/null)" ] || npm=1
# A vendor's Node.js conflicts with Debian's npm package, so the command decides, not the package.
if [ $npm = 1 ] && ! command -v npm >/dev/null 2>&1; then missing+=(nodejs npm); fi
if [ "${#missing[@]}" -eq 0 ]; then
  build_blst
  echo "install-deps: every package is present"
  exit 0
fi

sudo=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null 2>&1 || { echo "install-deps: run as root, or install sudo; missing: ${missing[*]}" >&2; exit 1; }
  sudo=(sudo)
fi
echo "install-deps: installing ${#missing[@]} packages: ${missing[*]}"
# env: sudo passes no environment on.
"${sudo[@]}" apt-get update -qq
"${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends -o Dpkg::Use-Pty=0 "${missing[@]}" >/dev/null
build_blst
echo "install-deps: done"
