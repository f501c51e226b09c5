#!/usr/bin/env bash
# Installs what is missing, builds, and runs the main job on real text: see contrib/python/quern/demo.py.
# Usage: contrib/demo.sh [--report FILE] [--validators N] [--seed N] [--directory DIR]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
case " $* " in
  *" -h "*|*" --help "*) PYTHONPATH=$here/python exec python3 -m quern.demo --help ;;
esac
"$here/install-deps.sh"
"$here/build.sh" release
PYTHONPATH=$here/python exec python3 -m quern.demo "$@"
