#!/usr/bin/env bash
# Makes the packages of the tree, the same bytes each time: deb, rpm, tgz and a Python wheel. package.sh [--check] [--aarch64]
# [--build FOLDER] [--out FOLDER]: from a build of its own (build-package) into build-package/packages; prints which versions
# of which symbols they ask for. --check installs each in clean roots and tries it there (scripts/package/check.sh; root,
# network). --aarch64: with Debian's cross compiler and qemu-user. GPUMEM_MAINTAINER="Name <address>" says who answers for
# them. What a package's own tool is missing for is said and left out. Exits 1 when something failed.
set -euo pipefail
cd "$(dirname "$0")/.."

check=0
machine="$(uname -m)"
build=""
out=""
while [ "$#" -gt 0 ]; do
  case "$1" in
    --check) check=1; shift ;;
    --aarch64) machine="aarch64"; shift ;;
    --build) build="$2"; shift 2 ;;
    --out) out="$2"; shift 2 ;;
    -h|--help) sed -n '2,7s/^# //p' "$0"; exit 0 ;;
    *) echo "package: error: unknown argument \"$1\"; --help shows what there is" >&2; exit 2 ;;
  esac
done
if [ -z "$build" ]; then
  build="build-package"
  if [ "$machine" != "$(uname -m)" ]; then build+="-$machine"; fi
fi
mkdir -p "$build"
build="$(realpath "$build")"
out="${out:-$build/packages}"
mkdir -p "$out"
out="$(realpath "$out")"
rm -f "$out"/gpumem[-_]*
version="$(sed -n 's/^project(gpumem VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)"
if [ -z "${SOURCE_DATE_EPOCH:-}" ]; then SOURCE_DATE_EPOCH="$(git log -1 --format=%ct)"; fi
export SOURCE_DATE_EPOCH TZ=UTC LC_ALL=C.UTF-8
umask 022

echo "package: gpumem $version for $machine"
# Without the folder in any of their texts; no debug information, so that nothing has to be stripped of it.
options=(-DGPUMEM_TESTS=OFF -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX=/usr "-DCMAKE_CXX_FLAGS_RELEASE=-O2 -DNDEBUG")
flags="-ffile-prefix-map=$PWD=. -ffile-prefix-map=$build=build"
if [ "$machine" != "$(uname -m)" ]; then
  scripts/link_headers.sh "$build/include"
  flags+=" -isystem $build/include"
  options+=(-DCMAKE_SYSTEM_NAME=Linux "-DCMAKE_SYSTEM_PROCESSOR=$machine" "-DCMAKE_C_COMPILER=$machine-linux-gnu-gcc"
    "-DCMAKE_CXX_COMPILER=$machine-linux-gnu-g++" "-DCMAKE_ASM_COMPILER=$machine-linux-gnu-gcc"
    "-DCMAKE_STRIP=/usr/bin/$machine-linux-gnu-strip"
    "-DGPUMEM_TOMLPLUSPLUS=$build/include" "-DGPUMEM_FMT=$build/include"
    "-DGPUMEM_EMULATOR=qemu-$machine -L /usr/$machine-linux-gnu")
fi
if [ -n "${GPUMEM_MAINTAINER:-}" ]; then options+=("-DGPUMEM_MAINTAINER=$GPUMEM_MAINTAINER"); else options+=(-UGPUMEM_MAINTAINER); fi
if command -v ccache >/dev/null 2>&1; then options+=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache); fi
cmake -S . -B "$build" -G Ninja "${options[@]}" "-DCMAKE_CXX_FLAGS=$flags" >"$build/configure.log" 2>&1 || {
  cat "$build/configure.log" >&2
  exit 1
}
cmake --build "$build" -j "${GPUMEM_JOBS:-$(nproc)}" --target gpumem_preload gpumem_cli documents >"$build/build.log" 2>&1 || {
  tail -n 60 "$build/build.log" >&2
  exit 1
}
maintainer="$(sed -n 's/^GPUMEM_MAINTAINER:STRING=//p' "$build/CMakeCache.txt")"
echo "package: maintainer: $maintainer${GPUMEM_MAINTAINER:+ (GPUMEM_MAINTAINER)}"
tree="$build/tree"
rm -rf "$tree"
DESTDIR="$tree" cmake --install "$build" --strip >"$build/install.log"
find "$tree" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
python3 scripts/package/symbol_versions.py --most 2.28 "$tree/usr/bin/gpumem" "$tree/usr/lib/gpumem/libgpumem.so" |
  sed "s|$tree||"

tar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --transform "s|^\./usr|gpumem-$version|" \
  -C "$tree" -cf - ./usr | gzip -9n >"$out/gpumem-$version-linux-$machine.tar.gz"
python3 scripts/package/wheel.py "$tree/usr" "$version" "$machine" "$out" "$maintainer"
if command -v dpkg-deb >/dev/null 2>&1; then
  scripts/package/deb.sh "$tree" "$version" "$machine" "$out" "$maintainer"
else
  echo "package: no deb: no dpkg-deb (Debian: dpkg)"
fi
if command -v rpmbuild >/dev/null 2>&1; then
  scripts/package/rpm.sh "$tree" "$version" "$machine" "$out" "$maintainer"
else
  echo "package: no rpm: no rpmbuild (Debian: rpm)"
fi
(cd "$out" && sha256sum gpumem[-_]*)
if [ "$check" = 1 ]; then exec scripts/package/check.sh "$out" "$machine" "$version"; fi
