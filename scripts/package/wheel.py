#!/usr/bin/env python3
"""Makes the Python wheel of an installed tree: wheel.py TREE VERSION MACHINE OUT [MAINTAINER]. It holds the program, the library beside
it, its headers, the examples, a console script and the module of shim/python, for every Python 3 and glibc 2.28 and later; needs no Python at build time but this
file's. The same bytes for the same SOURCE_DATE_EPOCH. Called by package.sh.
"""
import base64
import hashlib
import os
import pathlib
import sys
import time
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]

METADATA = """Metadata-Version: 2.4
Name: gpumem
Version: {version}
Summary: RAPIDS RMM's memory resources for unmodified CUDA programs, by LD_PRELOAD
License-Expression: Apache-2.0 AND MIT AND BSD-3-Clause
License-File: LICENSE
License-File: copyright
{maintainer}Classifier: Operating System :: POSIX :: Linux
Classifier: Programming Language :: Python :: 3
Requires-Python: >=3.6
Description-Content-Type: text/markdown

{readme}"""


def digest(data):
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def main():
    tree, version, machine, out = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3], pathlib.Path(sys.argv[4])
    maintainer = f"Maintainer-email: {sys.argv[5]}\n" if len(sys.argv) > 5 else ""
    tag = f"py3-none-manylinux_2_28_{machine}"
    info = f"gpumem-{version}.dist-info"
    files = {f"gpumem/{file.name}": file.read_bytes() for file in sorted((ROOT / "shim" / "python" / "gpumem").glob("*.py"))}
    executable = {"gpumem/bin/gpumem", "gpumem/lib/gpumem/libgpumem.so"}
    for name in sorted(executable):
        files[name] = (tree / name.partition("/")[2]).read_bytes()
    for file in sorted((tree / "include" / "gpumem").iterdir()):
        files[f"gpumem/include/gpumem/{file.name}"] = file.read_bytes()
    examples = tree / "share" / "gpumem" / "examples"
    for file in sorted(examples.rglob("*.toml")):
        files[f"gpumem/examples/{file.relative_to(examples)}"] = file.read_bytes()
    files["gpumem/report.schema.json"] = (tree / "share" / "gpumem" / "report.schema.json").read_bytes()
    readme = (ROOT / "README.md").read_text()
    files[f"{info}/METADATA"] = METADATA.format(version=version, maintainer=maintainer, readme=readme).encode()
    files[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: gpumem\nRoot-Is-Purelib: false\nTag: {tag}\n".encode()
    files[f"{info}/entry_points.txt"] = b"[console_scripts]\ngpumem = gpumem:main\n\n[pytest11]\ngpumem = gpumem.pytest_plugin\n"
    for name in ("LICENSE", "copyright"):
        files[f"{info}/licenses/{name}"] = (tree / "share" / "doc" / "gpumem" / name).read_bytes()
    record = "".join(f"{name},{digest(data)},{len(data)}\n" for name, data in sorted(files.items()))
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()

    when = time.gmtime(max(int(os.environ["SOURCE_DATE_EPOCH"]), 315532800))[:6]  # a zip file knows no time before 1980
    with zipfile.ZipFile(out / f"gpumem-{version}-{tag}.whl", "w") as wheel:
        for name, data in sorted(files.items()):
            entry = zipfile.ZipInfo(name, when)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system = 3
            entry.external_attr = (0o100755 if name in executable else 0o100644) << 16
            wheel.writestr(entry, data)


if __name__ == "__main__":
    main()
