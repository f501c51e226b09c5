#!/usr/bin/env bash
# The tables and plots of doc/economics.md: runs quern-sim market, writes its tables into a folder and draws
# doc/images/economics-*.png from them. Needs gnuplot and build/testing/bin/quern-sim. Takes minutes.
# Usage: contrib/economics.sh [FOLDER]      default: build/economics
set -euo pipefail
cd "$(dirname "$0")/.."
case "${1:-}" in -h|--help) sed -n '2,4s/^# \{0,1\}//p' "$0"; exit 0 ;; esac
folder=${1:-build/economics}
sim=build/testing/bin/quern-sim
mkdir -p "$folder"
for table in detection cost watching draws; do
  "$sim" market --table "$table" --csv "$folder/$table.csv"
done
# What is swept shows where honesty stops paying: there a scenario's expectations do not hold, which is no failure here.
sweep() {
  local name=$1 scenario=$2
  shift 2
  "$sim" market --scenario "$scenario" --csv "$folder/$name.csv" "$@" > "$folder/$name.txt" || true
  tail -n 1 "$folder/$name.txt" | sed "s/^/$name: /"
}
sweep margins honest --sweep cost_percent=10,30,50,70,80,90,110,130 --tasks 40 --seeds 4
sweep lazy lazy --sweep watch_percent=0,2,5,10,20,40,70,100 --tasks 100 --seeds 2
sweep cheating cheating --param samples=1 --sweep faked_per_mille=10,50,100,200,300,500,700,1000 --tasks 100 --seeds 2
sweep coalition coalition --sweep share_percent=5,10,20,33,45 --tasks 100 --seeds 2
sweep withholding withholding --sweep share_percent=10,20,33,40,50 --tasks 100 --seeds 2
gnuplot -e "folder='$folder'" doc/images/economics.gp
