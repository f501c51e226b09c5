#!/usr/bin/env bash
# Does what README.md and doc/operations.md say, to the letter, on a bare Debian 12: debootstrap makes one, a copy of this
# checkout goes in, and every block of commands is pasted, as root and as a user with sudo. Takes an hour on two cores.
# Usage: contrib/check-docs.sh [root] [user] [--tests] [--ccache DIR] [--directory DIR] [--keep]
#   root, user       only as this one (default: both, each on a system of its own)
#   --tests          also the block that runs all tests
#   --ccache DIR     begin with a copy of this compiler cache, for a trial that is not about time
#   --programs DIR   built already: copied in, and the demo's and the build's blocks are left out; four minutes a system instead of an hour
#   --directory DIR  where the systems are made (default: a new one under the temporary directory)
#   --keep           leave them there
# Needs root, debootstrap, the network and the ports that the documents use (8545, 8546, 7876); the mirror is the one that
# this system's apt uses. Ends with one line: "N passed, N failed".
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
refuse() { echo "check-docs: $*" >&2; exit 2; }
people=() without=() ccache='' programs='' directory='' keep=0 tests=0
while [ $# -gt 0 ]; do
  case "$1" in
    -h|--help) sed -n '2,12s/^# \{0,1\}//p' "$0"; exit 0 ;;
    root|user) people+=("$1") ;;
    --tests) tests=1 ;;
    --ccache) ccache=$(realpath "${2:?--ccache needs a directory}"); shift ;;
    --programs)
      programs=$(realpath "${2:?--programs needs a directory}") without+=(--without demo --without build)
      [ -x "$programs/quernd" ] || refuse "--programs $programs holds no quernd"
      shift ;;
    --directory) directory=${2:?--directory needs a name}; shift ;;
    --keep) keep=1 ;;
    *) refuse "unknown option $1; see contrib/check-docs.sh --help" ;;
  esac
  shift
done
[ ${#people[@]} -gt 0 ] || people=(root user)
[ $tests = 1 ] || without+=(--without tests)
[ "$(id -u)" = 0 ] || refuse "making a system in a directory needs root"
command -v debootstrap >/dev/null || refuse "debootstrap is missing (Debian package debootstrap)"
for port in 8545 8546 7876; do
  if (: <"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then refuse "port $port is in use; the documents' commands need it"; fi
done

# "codename component site" of what apt knows; the first line is the release itself, the others its updates.
sources=$(apt-get indextargets --format '$(CODENAME) $(COMPONENT) $(SITE)' 'Created-By: Packages' 'Origin: Debian' | sort -u)
release=$(awk '$1 == "bookworm" && $2 == "main" { print; exit }' <<<"$sources")
[ -n "$release" ] || refuse "this system's apt knows no mirror of Debian 12 (bookworm); run apt-get update"
read -r codename _ mirror <<<"$release"
eval "$(apt-config shell proxy Acquire::http::Proxy)"
if [ -n "${proxy:-}" ]; then export http_proxy=$proxy; fi

made=0
if [ -z "$directory" ]; then directory=$(mktemp -d -t quern-docs-XXXXXX) made=1; fi
mkdir -p "$directory"
passed=0 failed=0
clean() {
  if [ "$keep" = 1 ]; then
    echo "check-docs: what was made is in $directory"
    return
  fi
  for who in "${people[@]}" packages; do rm -rf --one-file-system "${directory:?}/$who"; done
  rm -f "$directory"/*.log "$directory"/packages.tar
  if [ "$made" = 1 ]; then rmdir "$directory"; fi
}
trap clean EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

# apart COMMAND...: with mounts and processes of its own; nothing of either is left when it ends, or when this script does.
apart() { unshare --mount --pid --fork --kill-child --mount-proc "$@"; }

# make_system WHO: a bare system in $directory/WHO with a copy of the checkout in the home of WHO.
make_system() {
  local who=$1 system=$directory/$1 archive=$directory/packages.tar
  [ -f "$archive" ] ||
    apart debootstrap --variant=minbase --make-tarball="$archive" "$codename" "$directory/packages" "$mirror" >"$directory/debootstrap.log" 2>&1 ||
    { tail -n 5 "$directory/debootstrap.log"; return 1; }
  apart debootstrap --variant=minbase --unpack-tarball="$archive" "$codename" "$system" "$mirror" >"$directory/debootstrap.log" 2>&1 ||
    { tail -n 5 "$directory/debootstrap.log"; return 1; }
  awk '{ print "deb", $3, $1, $2 }' <<<"$sources" >"$system/etc/apt/sources.list"
  apt-config dump | grep -E '^Acquire::(https?|Check-[A-Za-z-]+|Retries)\b.* "' >"$system/etc/apt/apt.conf.d/90check-docs" || true
  cp /etc/resolv.conf "$system/etc/resolv.conf"
  local home=/root name
  if [ "$who" = user ]; then
    home=/home/user
    chroot "$system" sh -c 'apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq sudo &&
      useradd -m -s /bin/bash user && echo "user ALL=(ALL) NOPASSWD: ALL" >/etc/sudoers.d/user' >>"$directory/debootstrap.log" 2>&1 ||
      { tail -n 5 "$directory/debootstrap.log"; return 1; }
  fi
  mkdir -p "$system$home/quern" "$system$home/.cache"
  # A copy: ccache's locks name processes by number, which means another one in the system's own namespace.
  if [ -n "$ccache" ]; then
    cp -a "$ccache" "$system$home/.cache/quern-ccache"
    rm -f "$system$home/.cache/quern-ccache/ccache.conf"  # it speaks of this system
  fi
  echo "127.0.0.1 localhost $(hostname)" >"$system/etc/hosts"
  (cd "$root" && git ls-files -z --cached --others --exclude-standard | tar --null --ignore-failed-read -cf - -T -) |
    tar -xf - --no-same-owner -C "$system$home/quern"
  if [ -n "$programs" ]; then
    mkdir -p "$system$home/quern/build/release/bin"
    for name in quernd quern-worker quern-cli quern-wallet quern-genesis quern-compile quern-train; do
      cp "$programs/$name" "$system$home/quern/build/release/bin"
    done
  fi
  for name in README.md doc/operations.md; do
    {
      [ -z "$programs" ] || echo "~/quern/contrib/install-deps.sh --programs || exit 1"
      PYTHONPATH=$root/contrib/python python3 -m quern.fenced_blocks "$root/$name" --as "$who" \
        ${without[@]+"${without[@]}"}
    } >"$system$home/$(basename "$name").sh"
  done
  if [ "$who" = user ]; then chroot "$system" chown -R user:user /home/user; fi
}

# paste WHO: all blocks, in namespaces of their own, so that no process and no mount is left behind.
paste() {
  local who=$1 system=$directory/$1 home=/root shell=(bash -l)
  if [ "$who" = user ]; then home=/home/user shell=(sudo -u user -H bash -l); fi
  export system home
  apart bash -s -- "${shell[@]}" 3>"$directory/$who.blocks" <<'INSIDE'
set -euo pipefail
mount --make-rprivate /
mount -t proc proc "$system/proc"
mount -t sysfs sysfs "$system/sys"
mount --rbind /dev "$system/dev"
mount -t tmpfs tmpfs "$system/run"
mount -t tmpfs -o mode=1777 tmpfs "$system/dev/shm"
unset CCACHE_DIR QUERN_BIN QUERN_JOBS TMPDIR
exec chroot "$system" /usr/bin/env -i HOME="$home" TERM="${TERM:-dumb}" PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
  "$@" -c 'exec 3>&1 >&2
    (cd ~/quern && bash ~/README.md.sh) &&
    mkdir ~/first-start && cd ~/first-start && PATH=~/quern/build/release/bin:$PATH bash ~/operations.md.sh' >&3
INSIDE
}

for who in "${people[@]}"; do
  echo "check-docs: a bare Debian ($codename) for $who"
  if ! make_system "$who"; then
    echo "FAIL a bare system for $who"
    failed=$((failed + 1))
    continue
  fi
  started=$(date +%s)
  paste "$who" >"$directory/$who.log" 2>&1 && ended=0 || ended=$?
  good=$(grep -c '^ok ' "$directory/$who.blocks" || true)
  sed 's/^ok /ok   /' "$directory/$who.blocks"
  passed=$((passed + good))
  if [ "$ended" != 0 ]; then
    failed=$((failed + 1))
    tail -n 40 "$directory/$who.log"
  fi
  sed -n 's/^\(\[ *[0-9.]* s\] --- .*\)/     \1/p' "$directory/$who.log"
  echo "     $(($(date +%s) - started)) s as $who, $(du -sm "$directory/$who" | cut -f1) MB; log: $directory/$who.log"
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
