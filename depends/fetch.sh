#!/bin/sh
# fetch.sh FILE SHA256 URL...: makes FILE be there with this checksum. A file that is there is checked, never fetched
# again, so a directory filled beforehand makes the build work offline. npm:NAME@VERSION is a package's tarball, which npm
# fetches from whatever registry it is set up with. Used by the Makefile beside it.
set -e
file=$1 sha256=$2
shift 2
fits() { echo "$sha256  $1" | sha256sum --check --status; }
if [ -f "$file" ]; then
  fits "$file" && exit 0
  echo "depends: $file has the wrong SHA-256; remove it to fetch it again" >&2
  exit 1
fi
mkdir -p "$(dirname "$file")"
get() {
  case $1 in
    npm:*)
      packed=$(mktemp -d) || return 1
      status=0
      (cd "$packed" && npm pack --silent "${1#npm:}" >/dev/null) && mv "$packed"/*.tgz "$file.part" || status=1
      rm -rf "$packed"
      return $status ;;
    *) curl --fail --location --silent --show-error --connect-timeout 20 --retry 2 -o "$file.part" "$1" ;;
  esac
}
for url in "$@"; do
  echo "depends: fetching $url"
  if get "$url"; then
    if fits "$file.part"; then
      mv "$file.part" "$file"
      exit 0
    fi
    echo "depends: what $url serves has the wrong SHA-256" >&2
  fi
  rm -f "$file.part"
done
echo "depends: cannot get $(basename "$file"); put it into $(dirname "$file") by hand (SHA-256 $sha256)" >&2
exit 1
