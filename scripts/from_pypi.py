#!/usr/bin/env python3
"""Takes from PyPI what no package of the system has, into build-headers: from_pypi.py {cuda|toml++|validator}...
Headers, for systems without a CUDA toolkit or without a package of toml++ (Ubuntu 22.04), which CMakeLists.txt and setup.sh look
for there last; and a validator of JSON that loads four times as fast as python3-jsonschema, which tests take where it is
(tests/integration/modules.py). pip fetches, and takes no other bytes than those named here. Called by setup.sh and
test.sh; prints what it put where, exits 1 with what to do by hand where PyPI is not reached.
"""
import pathlib
import subprocess
import sys
import tarfile
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
# name: (package and version, sha256 of its files for x86-64 and aarch64 or of its source, folder in it, folder here)
SOURCES = {
    "cuda": [
        ("nvidia-cuda-runtime==13.0.96", ("7f82250d7782aa23b6cfe765ecc7db554bd3c2870c43f3d1821f1d18aebf0548",
                                          "ef9bcbe90493a2b9d810e43d249adb3d02e98dd30200d86607d8d02687c43f55"),
         "nvidia/cu13/include/", "cuda/include"),
        ("nvidia-cuda-crt==13.0.88", ("2c8043c7c9e02492716426e9919fc78d2c5b3b2a7a768a88e952676b08aa55a4",
                                      "ee2ea2a97073e02ee62bb27841f437332be2c248e3eac013df07997ada39c003"),
         "nvidia/cu13/include/", "cuda/include"),
    ],
    "toml++": [
        ("pytomlpp==1.1.0", ("61a0f73e7ba2fe8bba4e99ce6d2701491885850b53aad8f3e46d03c4b31e594d",),
         "pytomlpp-1.1.0/third_party/tomlplusplus/include/toml++/", "toml++"),
    ],
    "validator": [
        ("jsonschema-rs==0.61.0", ("6620c857c351cd34909f00161d043db04572a32225a92e55faf79495f9aa2bf9",), "jsonschema_rs/",
         "python/jsonschema_rs"),
    ],
}
BY_HAND = {
    "cuda": "install cuda-cudart-dev and cuda-driver-dev of NVIDIA's repository (11.3 or newer), or set CUDA_HOME to a toolkit",
    "toml++": "put its folder include/toml++ at build-headers/toml++",
    "validator": "nothing: python3-jsonschema serves",
}


def files(archive):
    """(name, content) of each file in a wheel or a source archive."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            yield from ((name, wheel.read(name)) for name in wheel.namelist() if not name.endswith("/"))
    else:
        with tarfile.open(archive) as source:
            yield from ((item.name, source.extractfile(item).read()) for item in source if item.isfile())


def fetch(package, hashes, folder, to):
    with tempfile.TemporaryDirectory() as scratch:
        wanted = pathlib.Path(scratch, "wanted.txt")
        wanted.write_text(" ".join([package, *(f"--hash=sha256:{it}" for it in hashes)]) + "\n")
        into = pathlib.Path(scratch, "fetched")
        subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--require-hashes", "-r", wanted, "-d", into], check=True)
        (archive,) = into.iterdir()
        found = 0
        for name, content in files(archive):
            if name.startswith(folder) and ".." not in name:
                target = ROOT / "build-headers" / to / name[len(folder):]
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(content)
                found += 1
        if not found:
            raise RuntimeError(f"nothing under {folder} in {archive.name}")
        print(f"setup: {found} files of {package} from PyPI in build-headers/{to}")


def main():
    for what in sys.argv[1:]:
        try:
            for source in SOURCES[what]:
                fetch(*source)
        except (subprocess.CalledProcessError, RuntimeError) as why:
            print(f"setup: error: no {what} from PyPI: {why}\nsetup: instead: {BY_HAND[what]}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
