#!/usr/bin/env bash
# The kernels for graphics processors on this machine's card: builds quern-cuda-check, compares random cases bit by bit
# with the processor and measures. One command for a machine that is there for minutes; it needs nvcc (CUDA 12 or newer),
# a C++20 compiler and nothing else, not even CMake.
# Usage: contrib/cuda.sh [--cases N] [--scenarios N] [--seed S] [--build-only]     default: 10,000,000 cases, 100,000
#                                                                                  scenarios, seed 1, and the measurements
# nvcc is looked for in CUDAToolkit_ROOT, in PATH and in /usr/local/cuda; objects lie in build/cuda. Without nvcc or
# without a card it is skipped. Ends with rows for doc/benchmarks.md and one line: "N passed, N failed[, N skipped]".
set -uo pipefail
cd "$(dirname "$0")/.."
cases=10000000 scenarios=100000 seed=1 build_only=
while [ $# -gt 0 ]; do
  case "$1" in
    -h|--help) sed -n '2,8s/^# \{0,1\}//p' "$0"; exit 0 ;;
    --cases) cases=${2:?--cases needs a number}; shift ;;
    --scenarios) scenarios=${2:?--scenarios needs a number}; shift ;;
    --seed) seed=${2:?--seed needs a number}; shift ;;
    --build-only) build_only=yes ;;
    *) echo "cuda: unknown option $1" >&2; exit 2 ;;
  esac
  shift
done
nvcc=
for each in "${CUDAToolkit_ROOT:+$CUDAToolkit_ROOT/bin/nvcc}" "$(command -v nvcc)" \
            "${QUERN_CUDA_DEFAULT-/usr/local/cuda}/bin/nvcc"; do
  if [ -n "$each" ] && [ -x "$each" ]; then nvcc=$each; break; fi
done
if [ -z "$nvcc" ]; then
  echo "skipped: nvcc is missing"
  echo "0 passed, 0 failed, 1 skipped"
  exit 0
fi
folder=build/cuda
mkdir -p "$folder"
threads=$(nproc)
export nvcc folder cxx=${CXX:-g++}
host="-std=c++20 -O2 -Wall -Wextra -ffp-contract=off -fno-fast-math -Isrc -Itests -DQUERN_HAVE_CUDA"
device="-std=c++20 -O3 --expt-relaxed-constexpr -fmad=false -ftz=false -prec-div=true -prec-sqrt=true -Isrc
  -gencode arch=compute_90a,code=sm_90a -gencode arch=compute_80,code=compute_80 -Xptxas -v
  -Xcompiler=-Wall,-Wextra,-ffp-contract=off"
export host device
compile() {
  local object
  object=$folder/$(basename "$1").o
  case "$1" in
    *.cu) "$nvcc" $device -ccbin "$cxx" -c "$1" -o "$object" >"$object.log" 2>&1 ;;
    *) "$cxx" $host -c "$1" -o "$object" >"$object.log" 2>&1 ;;
  esac || { echo "FAIL cuda: $1"; cat "$object.log"; return 255; }
}
export -f compile
began=$SECONDS
rm -f "$folder"/*.o
arith=src/vm/tensor/arith
if ! printf '%s\n' src/vm/tensor/cuda/*.cu tests/cuda/*.cpp \
       $arith/{soft_float,soft_elementary,soft_kernels,scalar,scalar_kernels}.cpp |
     xargs -P "$threads" -I{} bash -c 'compile {}' ||
   ! "$nvcc" -ccbin "$cxx" "$folder"/*.o -cudart static -o "$folder/quern-cuda-check"; then
  echo "0 passed, 1 failed"
  exit 1
fi
grep -hE '[1-9][0-9]* bytes spill' "$folder"/*.log || true
echo "built in $((SECONDS - began)) s by $("$nvcc" --version | grep -oE 'release [0-9.]+'), $("$cxx" --version | head -n 1)"
if [ -n "$build_only" ]; then
  echo "1 passed, 0 failed"
  exit 0
fi
log=$folder/log
"$folder/quern-cuda-check" --cases "$cases" --scenarios "$scenarios" --seed "$seed" --threads "$threads" --measure |
  tee "$log"
status=$?
if grep -q '^card: ' "$log"; then
  echo
  echo "$(date -u +%Y-%m-%d), $(sed -n 's/^card: //p' "$log"):"
  echo
  echo "| case | time | rate |"
  echo "|---|---:|---|"
  sed -nE 's/^ok   ([^:]+): ([0-9.]+ ms), (.*)$/| \1 | \2 | \3 |/p' "$log"
  echo
fi
grep -E '^[0-9]+ passed, ' "$log" | tail -n 1 || echo "0 passed, 1 failed"
exit "$status"
