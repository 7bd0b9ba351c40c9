#!/usr/bin/env bash
# Tries packages for another machine under qemu-user: check_emulated.sh PACKAGES MACHINE VERSION. Each is installed into a root of
# Debian 11 (glibc 2.31) for that machine by this system's tools; there run `gpumem -V`, `gpumem check`, true and ls preloaded,
# and a CUDA program preloaded on the simulated CUDA where scripts/cross.sh built them. Then it is removed. What a program starts
# is not emulated without the kernel's help: no `gpumem run`. Called by check.sh; stops at the first failure, exit code 1.
set -euo pipefail
cd "$(dirname "$0")/../.."
packages="$1" machine="$2" version="$3"
case "$machine" in aarch64) architecture=arm64 ;; *) architecture="$machine" ;; esac
emulator="qemu-$machine"
if [ "$(id -u)" -ne 0 ] || ! command -v debootstrap >/dev/null 2>&1 || ! command -v "$emulator" >/dev/null 2>&1; then
  echo "check: error: root, debootstrap and $emulator are needed (Debian: debootstrap qemu-user rpm)" >&2
  exit 1
fi
roots="$PWD/build-package/roots"
root="$roots/bullseye-$architecture"
mkdir -p "$roots"
if [ ! -e "$root" ]; then
  echo "check: making a root of Debian 11 for $machine"
  rm -rf "$root.new"
  debootstrap --foreign --arch="$architecture" --variant=minbase bullseye "$root.new" >"$root.log" 2>&1 || {
    tail -n 5 "$root.log" >&2
    exit 1
  }
  mv "$root.new" "$root"
fi
mkdir -p "$root/var/lib/rpm" "$root/opt"

emulated() {
  env -i HOME=/root LC_ALL=C.UTF-8 "$emulator" -L "$root" -E "GPUMEM_STATE_DIR=$roots/state" "$@"
}
# All files but what the package managers keep about themselves.
files() {
  (cd "$root" && find . \( -path ./var/lib/dpkg -o -path ./var/lib/rpm -o -path ./root/.rpmdb -o -path ./var/log \) -prune -o \
    \( -type d -printf '%p\n' \) -o -printf '%p %s\n' | sort)
}

# A CUDA program of the cross build, with that build's C library; the package's library in it.
cuda_program() {
  local cross="$PWD/build-$machine" library="$1"
  if [ ! -e "$cross/programs/runtime_loop.static" ] || [ ! -e "$cross/simulated/libcuda.so.1" ]; then
    echo "check: no CUDA program for $machine: scripts/cross.sh was not run"
    return
  fi
  local program=("$emulator" -L "/usr/$machine-linux-gnu" -E "LD_LIBRARY_PATH=$cross/simulated" -E "GPUMEM_STATE_DIR=$roots/state")
  rm -f "$roots/report.txt"
  "${program[@]}" "$cross/programs/runtime_loop.static" 50 >"$roots/plain"
  "${program[@]}" -E "LD_PRELOAD=$library" -E "GPUMEM_REPORT=$roots/report.txt" "$cross/programs/runtime_loop.static" 50 >"$roots/preloaded"
  cmp "$roots/plain" "$roots/preloaded"
  grep -E '^status|coverage  50 of 50 allocations routed' "$roots/report.txt"
}

# tried WHAT AT INSTALL REMOVE: after INSTALL bin/ and lib/ stand in the folder AT of the root.
tried() {
  local what="$1" at="$root$2"
  echo "--- $what for $machine"
  files >"$roots/before"
  eval "$3"
  readelf -h "$at/bin/gpumem" "$at/lib/gpumem/libgpumem.so" | grep 'Machine:' | sort | uniq -c | grep -q '2 .*AArch64'
  python3 scripts/package/symbol_versions.py --most 2.28 "$at/bin/gpumem" "$at/lib/gpumem/libgpumem.so" | sed "s|$root||"
  emulated "$at/bin/gpumem" -V | sed "s|$root||"
  emulated "$at/bin/gpumem" check
  emulated -E "LD_PRELOAD=$at/lib/gpumem/libgpumem.so" "$root/bin/true"
  emulated -E "LD_PRELOAD=$at/lib/gpumem/libgpumem.so" "$root/bin/ls" "$at/bin" | grep -qx gpumem
  cuda_program "$at/lib/gpumem/libgpumem.so"
  eval "$4"
  files >"$roots/after"
  diff "$roots/before" "$roots/after"
  echo "--- $what for $machine: installed, tried, removed without a trace"
}

deb="$packages/gpumem_${version}_$architecture.deb"
rpm="$packages/gpumem-$version-1.$machine.rpm"
wheel="$packages/gpumem-$version-py3-none-manylinux_2_28_$machine.whl"
dpkg="dpkg --root='$root' --force-architecture --force-depends --log=/dev/null"
tried deb /usr "$dpkg -i '$deb' >/dev/null 2>&1" "$dpkg --purge gpumem >/dev/null 2>&1"
tried tgz "/opt/gpumem-$version" "tar -C '$root/opt' -xzf '$packages/gpumem-$version-linux-$machine.tar.gz'" "rm -r '$root/opt/gpumem-$version'"
tried rpm /usr "rpm --root '$root' --force-debian --nodeps --ignorearch -i '$rpm' 2>/dev/null" "rpm --root '$root' --force-debian -e gpumem 2>/dev/null"
tried wheel /opt/wheel/gpumem "python3 -m pip install -q --no-index --no-deps --only-binary=:all: --platform manylinux_2_28_$machine \
  --target '$root/opt/wheel' '$wheel'" "rm -r '$root/opt/wheel'"
lintian --allow-root --fail-on error "$deb"
echo 'Filters = ["no-signature"]' >"$roots/rpmlint.toml"  # as in check.sh
rpmlint -c "$roots/rpmlint.toml" "$rpm"
echo "check: all packages for $machine were installed, tried and removed"
