#!/usr/bin/env bash
# Checks the code beside compiling and testing it; what CI runs after the testing build, whose compile commands it reads.
# Usage: contrib/check-code.sh format | clang | tidy [--all] | commits
#   format       every C++ file is as clang-format makes it
#   clang        every file of src (but libtorch's) compiles with clang, warnings are errors, and each access to what a
#                mutex guards holds it (-Wthread-safety)
#   tidy         clang-tidy with .clang-tidy's list on the files of src that changed: since $QUERN_BASE; since the branch
#                left origin/main; on main itself, as in a fresh clone, since the last full run of which doc/long-runs.md
#                tells, or else in the newest 20 commits. --all: on every file of src
#   commits      the same commits' subjects: "area: imperative", at most 72 characters, with a body
# Ends with one line: "N passed, N failed". Files are looked at in parallel.
set -euo pipefail
cd "$(dirname "$0")/.."
exec python3 contrib/python/check_code.py "$@"
