#!/usr/bin/env bash
# The tables and plots of doc/tolerance.md: runs quern-tolerance, writes its tables into a folder and draws
# doc/images/tolerance-*.png from them. Needs gnuplot and the testing build. Takes two hours on two cores.
# Usage: contrib/tolerance.sh [--draw] [FOLDER]      default: build/tolerance; --draw: plots of the tables that are there
set -euo pipefail
cd "$(dirname "$0")/.."
case "${1:-}" in -h|--help) sed -n '2,5s/^# \{0,1\}//p' "$0"; exit 0 ;; esac
draw=false
if [[ ${1:-} == --draw ]]; then draw=true; shift; fi
folder=${1:-build/tolerance}
measure() {
  local name=$1
  shift
  echo "== $name"
  build/testing/bin/quern-tolerance "$@" --text "$folder/text" --csv "$folder/$name.csv" | tee "$folder/$name.txt"
}
if ! $draw; then
  mkdir -p "$folder"
  cat doc/*.md > "$folder/text"
  measure samples samples
  measure largest largest --segments 300 -k 4
  measure noise noise --segments 6 --longest 8 --gap 15
  measure noise-convolution noise --model convolution --segments 10 --longest 16
  measure noise-loose noise --model convolution --segments 10 --longest 16 --loose model.0.bias model.4.bias
  measure rates rates --segments 5
  echo "== refusals"
  python3 contrib/python/refusals.py "$folder/text" "$folder/refusals" 2> "$folder/refusals.log" | tee "$folder/refusals.txt"
  measure corpus corpus --segments 300 -k 4
  measure corpus-reference corpus --model reference --segments 30 -k 2 --batch 8
fi
limit=$(sed -n 's/^limits: l2 \([^,]*\),.*/\1/p' "$folder/corpus.txt")
gnuplot -e "folder='$folder'; limit=$limit" doc/images/tolerance.gp
