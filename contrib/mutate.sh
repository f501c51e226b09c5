#!/usr/bin/env bash
# Mutation testing: breaks one line at a time in a copy of the tree and sees whether the tests of its folder notice.
# Usage: contrib/mutate.sh [--seed N] [--count N] [--jobs N] [FOLDER OF src/ | FILE]...
#   --seed N    which lines are broken, and how (default: the commit's own number, so each commit draws its own)
#   --count N   how many mutants (default 40), spread over the files by their number of lines that can be broken
#   default folders: those with changes since the commit before; else chain/consensus/sdbft chain/exec compute/core p2p
# Each survivor is printed with its diff: write the test that is missing, or show that nothing can tell the difference.
# Ends with "N passed, N failed" (killed, survived). Exit status 0 when at least 90 % were killed.
set -euo pipefail
cd "$(dirname "$0")/.."
export CCACHE_DIR=${CCACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/quern-ccache}
exec python3 contrib/python/mutate.py "$@"
