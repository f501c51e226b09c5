#!/bin/sh
# Makes ./configure from configure.ac. Needs autoconf alone; neither automake nor libtool is used.
set -e
cd "$(dirname "$0")"
command -v autoconf >/dev/null 2>&1 || { echo "autogen.sh: autoconf is missing (Debian: apt-get install autoconf)" >&2; exit 1; }
exec autoconf --warnings=all --force
