#!/usr/bin/env bash
# Makes the Debian package of an installed tree: deb.sh TREE VERSION MACHINE OUT MAINTAINER. Called by package.sh, which sets
# SOURCE_DATE_EPOCH: the same bytes for the same time. Nothing runs at installation, so nothing is left after removal.
set -euo pipefail
tree="$1" version="$2" machine="$3" out="$4" maintainer="$5"
root="$(cd "$(dirname "$0")/../.." && pwd)"
case "$machine" in x86_64) architecture=amd64 ;; aarch64) architecture=arm64 ;; *) architecture="$machine" ;; esac

stage="$(mktemp -d)"
trap 'rm -rf "$stage"' EXIT
cp -a "$tree/usr" "$stage/usr"
chmod 755 "$stage"
chmod 644 "$stage/usr/lib/gpumem/libgpumem.so"
mkdir -p "$stage/usr/share/zsh/vendor-completions"
mv "$stage/usr/share/zsh/site-functions/_gpumem" "$stage/usr/share/zsh/vendor-completions/"
rmdir "$stage/usr/share/zsh/site-functions"
gzip -9n "$stage"/usr/share/man/man1/*.1
documents="$stage/usr/share/doc/gpumem"
rm "$documents/LICENSE" "$documents/CHANGELOG.md"
{
  echo "gpumem ($version) unstable; urgency=medium"
  echo
  # Its lines have at most 80 columns.
  awk -v version="## $version" '$0 == version { inside = 1; next } /^## / { inside = 0 } inside && NF' "$root/CHANGELOG.md" |
    sed 's/^  *//' | awk '/^- / && text { print text; text = "" } { text = text (text ? " " : "") $0 } END { print text }' |
    fold -s -w 74 | sed 's/^- /  * /; t; s/^/    /; s/ *$//'
  echo
  echo " -- $maintainer  $(date -u -R -d "@$SOURCE_DATE_EPOCH")"
} | gzip -9n >"$documents/changelog.gz"
mkdir "$stage/DEBIAN"
cat >"$stage/DEBIAN/control" <<TEXT
Package: gpumem
Version: $version
Architecture: $architecture
Maintainer: $maintainer
Section: utils
Priority: optional
Depends: libc6 (>= 2.28)
Installed-Size: $(du -k -s --apparent-size "$stage/usr" | cut -f1)
Description: RAPIDS RMM's memory resources for unmodified CUDA programs
 A library to be preloaded that serves the device memory of unmodified CUDA
 programs by a pool, fixed-size blocks, binning and more, chained as a TOML
 file says, and reports at exit what the program did with it. The program
 gpumem runs programs under it, checks configurations and shows reports.
TEXT
(cd "$stage" && find usr -type f -print0 | sort -z | xargs -0 md5sum) >"$stage/DEBIAN/md5sums"
find "$stage" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
dpkg-deb --root-owner-group -Zxz --build "$stage" "$out/gpumem_${version}_$architecture.deb" >/dev/null
