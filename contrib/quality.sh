#!/usr/bin/env bash
# The runs, tables and plots of doc/quality.md: trains the reference transformer on real text and a network on drawn
# images, in the canonical arithmetic, in bytes and on libtorch, from several seeds, and measures on held-out data.
# Usage: contrib/quality.sh [OPTIONS]
#   --folder DIR    where everything lies (default: build/quality, with --quick build/quality-quick)
#   --quick         small models and few steps: two minutes, to see that all of it works
#   --only REGEX    runs whose names it matches (text-f32-1, text-int8-1, images-torch-2, ...)
#   --jobs N        runs side by side, one thread each (default 1)
#   --list          the runs in their order, with how far each is; starts none
#   --plots         tables and plots of what there is; starts none
#   --publish       puts tables and plots into doc/quality.md and doc/images as well
# All runs take some eight hours of one CPU. Ctrl-C or a kill loses nothing: the same command goes on where it was, from
# the newest checkpoint, and two commands on one folder share the runs. Tables and plots say how many steps each run has.
# Needs gnuplot, cmake-data (the text: CMake's manual), and quern-measure built with libtorch (contrib/build.sh testing).
set -euo pipefail
case "${1:-}" in -h|--help) sed -n '2,16s/^# \{0,1\}//p' "$0"; exit 0 ;; esac
exec python3 "$(dirname "$0")/python/quality.py" "$@"
