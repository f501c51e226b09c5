#!/usr/bin/env bash
# Installs what is missing, builds the programs, and tries the corpus of attacks on real processes: a table of what caught
# each, what it brought its authors and what it cost everybody else. About 20 minutes on two cores; a few by name take one.
# Usage: contrib/attacks.sh [--list] [--jobs N] [--json FILE] [--markdown FILE] [NAME...]      default: all, two at once
# Ends with "N passed, N failed": an attack passes when it was caught and brought nothing.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
case "${1:-}" in
  -h|--help) sed -n '2,5s/^# \{0,1\}//p' "$0"; exit 0 ;;
  --list) exec python3 "$here/../tests/attacks/run.py" --list ;;
esac
"$here/install-deps.sh" --programs
# Some workers are told to cheat, which the production build cannot do.
"$here/build.sh" testing --programs
exec python3 "$here/../tests/attacks/run.py" "$@"
