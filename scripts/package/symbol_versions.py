#!/usr/bin/env python3
"""Which versions of which library's symbols a program or library asks for: symbol_versions.py [--most 2.28] FILE...
Prints one line a file. Exits 1, with the symbols, where one asks for a later glibc than --most, for a part of glibc that
is nobody's interface, or for libstdc++ or libgcc, which it has to bring along. Read from the file by readelf; nothing is
loaded. Used by package.sh for what it packaged and by the test of every build.
"""
import argparse
import re
import subprocess
import sys


def tool(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def asked_for(file):
    """{version: [symbols]} of the symbols that the file takes from others."""
    found = {}
    for line in tool("readelf", "-W", "--dyn-syms", file).splitlines():
        wanted = re.search(r"\bUND\s+(\S+?)@+(\S+)", line)
        if wanted:
            found.setdefault(wanted.group(2), []).append(wanted.group(1))
    # Those that no symbol needs but the loader demands, such as GLIBC_ABI_DT_RELR.
    needs = tool("readelf", "-W", "--version-info", file).partition("Version needs section")[2]
    for version in re.findall(r"Name: (\S+)", needs):
        found.setdefault(version, [])
    return found


def numbers(version):
    return tuple(int(part) for part in version.split("."))


def too_new(version, most):
    glibc = re.fullmatch(r"GLIBC_(\d[\d.]*)", version)
    return not glibc or numbers(glibc.group(1)) > numbers(most)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--most", default="2.28")
    parser.add_argument("files", nargs="+")
    wanted = parser.parse_args()
    faults = 0
    for file in wanted.files:
        found = asked_for(file)
        glibc = [version[6:] for version in found if re.fullmatch(r"GLIBC_\d[\d.]*", version)]
        needed = re.findall(r"\(NEEDED\).*\[(.*)\]", tool("readelf", "-dW", file))
        newest = max(glibc, key=numbers, default="none")
        print(f"{file}: newest glibc asked for {newest}, at most {wanted.most}; needs {' '.join(sorted(needed))}")
        if not glibc:
            print(f"{file}: error: no symbol of glibc found: is it a program or a shared library?")
            faults += 1
        for version in sorted(v for v in found if too_new(v, wanted.most)):
            print(f"{file}: error: {version} is asked for by {' '.join(sorted(found[version])) or 'the loader'}")
            faults += 1
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
