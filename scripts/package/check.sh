#!/usr/bin/env bash
# Tries the packages in clean roots: check.sh PACKAGES MACHINE VERSION. Each is installed, runs `gpumem check`, a preloaded
# program on the simulated CUDA with its report, and `gpumem run`; then it is removed, and the root must hold the same
# files as before. Roots are made by debootstrap, kept in build-package/roots, and copied for each try. Called by package.sh
# --check as root with network; not part of the tests. Prints what was tried; stops at the first failure, exit code 1.
set -euo pipefail
cd "$(dirname "$0")/../.."
packages="$1" machine="$2" version="$3"
case "$machine" in x86_64) architecture=amd64 ;; aarch64) architecture=arm64 ;; *) architecture="$machine" ;; esac
if [ "$machine" != "$(uname -m)" ]; then
  exec scripts/package/check_emulated.sh "$packages" "$machine" "$version"
fi
if [ "$(id -u)" -ne 0 ] || ! command -v debootstrap >/dev/null 2>&1; then
  echo "check: error: root and debootstrap are needed (Debian: debootstrap rpm lintian rpmlint)" >&2
  exit 1
fi
roots="$PWD/build-package/roots"
mkdir -p "$roots"
scripts/build.sh release portable >/dev/null

deb="$packages/gpumem_${version}_$architecture.deb"
rpm="$packages/gpumem-$version-1.$machine.rpm"
tgz="$packages/gpumem-$version-linux-$machine.tar.gz"
wheel="$(echo "$packages"/gpumem-"$version"-py3-none-*.whl)"

root=""
release() {
  if [ -n "$root" ] && mountpoint -q "$root/proc"; then umount "$root/proc"; fi
  if [ -n "$root" ]; then rm -rf "$root"; fi
  root=""
}
trap release EXIT

# base NAME [debootstrap options]: made once, from the mirror that debootstrap knows for the suite. Suites of Ubuntu that are
# younger than it are made as its others are.
base() {
  local name="$1"
  shift
  [ -e "$roots/$name.tar" ] && return
  echo "check: making a root of $name"
  rm -rf "${roots:?}/$name.new"
  local known=/usr/share/debootstrap/scripts from=()
  if [ ! -e "$known/$name" ]; then from=("" "$known/gutsy"); fi
  debootstrap --variant=minbase "$@" "$name" "$roots/$name.new" "${from[@]}" >"$roots/$name.log" 2>&1 || {
    tail -n 5 "$roots/$name.log" >&2
    return 1
  }
  tar -C "$roots/$name.new" -cf "$roots/$name.tar.new" .
  rm -rf "${roots:?}/$name.new"
  mv "$roots/$name.tar.new" "$roots/$name.tar"
}

fresh() {
  release
  root="$(mktemp -d /tmp/gpumem-root.XXXXXX)"
  tar -C "$root" -xf "$roots/$1.tar"
  mount -t proc proc "$root/proc"
  mkdir "$root/try"
  cp build/portable/libcuda.so.1 build/portable/runtime_loop "$root/try/"
  inside 'sed -n "s/^PRETTY_NAME=//p" /etc/os-release; ldd --version | head -n 1'
}

inside() {
  chroot "$root" /usr/bin/env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 \
    LD_LIBRARY_PATH=/try /bin/sh -ec "$1"
}

# All files but what the package managers keep about themselves.
files() {
  (cd "$root" && find . -xdev \( -path ./proc -o -path ./dev -o -path ./try -o -path ./tmp -o -path ./var/log -o -path ./var/cache \
    -o -path ./var/lib/dpkg -o -path ./var/lib/rpm -o -path ./root/.rpmdb \) -prune -o \( -type d -printf '%p\n' \) -o -printf '%p %s\n' | sort)
}

try() {
  local library="$1"
  inside "gpumem --version
    gpumem check
    cd /tmp; plain=\$(/try/runtime_loop 100)
    preloaded=\$(LD_PRELOAD=$library GPUMEM_REPORT=/tmp/report.txt /try/runtime_loop 100)
    test \"\$plain\" = \"\$preloaded\"
    grep -E '^status|in use on the device|coverage' /tmp/report.txt
    grep -q 'coverage  100 of 100 allocations routed' /tmp/report.txt
    LD_PRELOAD=$library ls / >/dev/null
    gpumem run -q /try/runtime_loop 100 2>&1 | grep -q 'coverage  100 of 100'
    gpumem check -- /try/runtime_loop
    rm -rf /tmp/*"
}

# tried WHAT INSTALL LIBRARY REMOVE: the commands run inside.
tried() {
  echo "--- $1"
  files >"$roots/before"
  eval "$2"
  try "$3"
  eval "$4"
  files >"$roots/after"
  diff "$roots/before" "$roots/after"
  echo "--- $1: installed, tried, removed without a trace"
}

base bullseye --include=python3,python3-pip
suites=()
for suite in ${GPUMEM_ROOTS-bullseye bookworm focal jammy noble}; do  # Debian 11 and 12, Ubuntu 20.04, 22.04 and 24.04
  case "$suite" in
    bullseye|bookworm) base "$suite" ;;
    *) base "$suite" --no-check-gpg ;;
  esac
  suites+=("$suite")
done
for suite in "${suites[@]}"; do
  fresh "$suite"
  cp "$deb" "$tgz" "$root/try/"
  tried "deb on $suite" "inside 'dpkg -i /try/*.deb'" /usr/lib/gpumem/libgpumem.so "inside 'dpkg --purge gpumem'"
  # What the Containerfile's lines do.
  tried "tgz on $suite" "inside 'tar -C /opt -xzf /try/*.tar.gz; ln -s /opt/gpumem-*/bin/gpumem /usr/local/bin/gpumem'" \
    "/opt/gpumem-$version/lib/gpumem/libgpumem.so" "inside 'rm -r /opt/gpumem-* /usr/local/bin/gpumem'"
done
fresh bullseye
cp "$wheel" "$root/try/"
touch "$root/usr/local/bin/another"  # pip removes a folder that it leaves empty, though it was there before
inside 'python3 -c "import site; print(site.getsitepackages()[0])"' >"$roots/site"
tried "wheel on bullseye" "inside 'python3 -m pip install --no-cache-dir --no-index /try/*.whl'" \
  "$(cat "$roots/site")/gpumem/lib/gpumem/libgpumem.so" "inside 'python3 -m pip uninstall -y gpumem'"
fresh bullseye
mkdir -p "$root/var/lib/rpm"
tried "rpm on bullseye (rpm --root)" "rpm --root '$root' --force-debian --nodeps -i '$rpm'" /usr/lib/gpumem/libgpumem.so \
  "rpm --root '$root' -e gpumem"
release

echo "--- lintian, rpmlint, auditwheel"
lintian --allow-root --fail-on error "$deb"
# Its signature is the publisher's: without it rpmlint has one error, which is left out by name.
echo 'Filters = ["no-signature"]' >"$roots/rpmlint.toml"
rpmlint -c "$roots/rpmlint.toml" "$rpm"
python3 -m venv "$roots/venv"
"$roots/venv/bin/python3" -m pip install -q auditwheel
"$roots/venv/bin/auditwheel" show "$wheel"
"$roots/venv/bin/auditwheel" show "$wheel" | tr '\n' ' ' | grep -qE 'manylinux_2_(1[7-9]|2[0-8])_'
echo "check: all packages were installed, tried and removed"
