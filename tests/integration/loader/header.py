"""Every function of cuda.h is hooked, or listed in untouched.txt with the reason why it need not be: header.py CUDA_H...

A function that a newer CUDA brings is neither: somebody has to look at it. CUDA 13.3 began captures by a call that nobody
had looked at, and the library spoilt them. Names without their version and form. A pattern that hides a hook is a fault too.
"""
import fnmatch
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
SYMBOLS = HERE.parents[2] / "shim" / "symbols" / "symbols.def"


def family(name):
    return re.sub(r"(_v\d+)?(_pts[zd])?$", "", name)


def main():
    patterns = [line.strip() for line in (HERE / "untouched.txt").read_text().splitlines()
                if line.strip() and line[0] not in "#="]
    hooked = {family(name) for name in re.findall(r"DRIVER_HOOK\((cu\w+)", SYMBOLS.read_text())}
    there = set()
    for header in sys.argv[1:]:
        text = pathlib.Path(header).read_text(errors="replace")
        there |= {family(name) for name in re.findall(r"CUresult\s+CUDAAPI\s+(cu\w+)\s*\(", text)}
    faults = [f"{name}: no hook, and nobody has said why it needs none" for name in sorted(there - hooked)
              if not any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)]
    exact = {pattern for pattern in patterns if "*" not in pattern}
    faults += [f"{name}: hooked, and listed as untouched" for name in sorted(hooked & exact)]
    if len(there) < 300:
        faults.append(f"only {len(there)} functions were found: the header was not read")
    print("\n".join(faults) or f"{len(there)} functions: {len(there & hooked)} hooked, the others listed")
    sys.exit(1 if faults else 0)


main()
