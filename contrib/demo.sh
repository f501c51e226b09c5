#!/usr/bin/env bash
# Installs what is missing, builds the programs, and runs the main job on real text: see contrib/python/quern/demo.py.
# Usage: contrib/demo.sh [--report FILE] [--validators N] [--seed N] [--directory DIR]
#   --report FILE    also write everything as JSON
#   --validators N   1 to 20 (default 4)
#   --seed N         changes keys and initialisation (default 1)
#   --directory DIR  where the network lives (default: a new one under the temporary directory)
# Exit codes: 0 done, 1 failed, 2 wrong options.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
refuse() { echo "demo: $*" >&2; exit 2; }

# Everything about the options is checked here, before minutes of installing and building.
report='' validators=4 seed=1 directory='' arguments=()
while [ $# -gt 0 ]; do
  case "$1" in
    -h|--help) sed -n '2,8s/^# \{0,1\}//p' "$0"; exit 0 ;;
    --report=*|--validators=*|--seed=*|--directory=*) name=${1%%=*} value=${1#*=}; shift ;;
    --report|--validators|--seed|--directory)
      [ $# -ge 2 ] || refuse "$1 needs a value; see contrib/demo.sh --help"
      name=$1 value=$2; shift 2 ;;
    *) refuse "unknown option $1; see contrib/demo.sh --help" ;;
  esac
  case "$name" in
    --report) report=$value ;;
    --validators) validators=$value ;;
    --seed) seed=$value ;;
    --directory) directory=$value ;;
  esac
  arguments+=("$name=$value")
done
[[ "$validators" =~ ^[0-9]{1,3}$ ]] && [ "$validators" -ge 1 ] && [ "$validators" -le 20 ] ||
  refuse "--validators $validators: 1 to 20"
[[ "$seed" =~ ^[0-9]{1,18}$ ]] || refuse "--seed $seed: expected a number"
case " ${arguments[*]:-} " in *" --report= "*|*" --directory= "*) refuse "an empty file name" ;; esac
if [ -n "$report" ]; then
  existed=0
  [ -e "$report" ] && existed=1
  [ ! -d "$report" ] && { : >>"$report"; } 2>/dev/null || refuse "--report $report cannot be written"
  [ "$existed" = 1 ] || rm -f -- "$report"
fi
if [ -n "$directory" ]; then
  [ ! -e "$directory/genesis.json" ] || refuse "--directory $directory holds a network already"
  mkdir -p -- "$directory" 2>/dev/null && [ -w "$directory" ] || refuse "--directory $directory cannot be written"
fi

if [ -x "$here/../build/testing/bin/quernd" ]; then
  echo "demo: the programs are built: about 6 minutes on two cores, 500 MB of disk, 2 GB of memory"
else
  echo "demo: about 13 minutes on two cores, the first 7 of them to install packages and to build; 2 GB of disk," \
    "2 GB of memory"
fi
"$here/install-deps.sh" --programs
# One of its solvers is told to cheat, which the production build cannot do.
"$here/build.sh" testing --programs
export QUERN_BIN=$here/../build/testing/bin
PYTHONPATH=$here/python exec python3 -m quern.demo ${arguments[@]+"${arguments[@]}"}
