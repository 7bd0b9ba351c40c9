#!/usr/bin/env python3
"""Makes docs/transparency.md of transparency.toml and of the GPU tables, or checks it: transparency.py BUILD | --write.

The check demands every entry of the catalogue, a test or a reason for each, that every named test exists, and that the
document is fresh. Standard library only. A test that is renamed and not followed here fails this check.
"""
import pathlib
import re
import subprocess
import sys

import modules

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
SOURCE = HERE / "transparency.toml"
DOCUMENT = ROOT / "docs" / "transparency.md"
GROUPS = {
    "L": ("dlsym and the loader", 21),
    "E": ("Entry points", 11),
    "P": ("Pointers and sizes", 16),
    "M": ("Memory information", 10),
    "S": ("Streams, captures, synchronisation", 16),
    "I": ("IPC, virtual memory, peers, several GPUs", 10),
    "X": ("Life cycle", 15),
    "H": ("Hostile surroundings", 14),
    "U": ("Under gpumem run, and what check says", 5),
    "R": ("The report", 6),
}
KEYS = {"promise": str, "tests": list, "gpu": list, "limit": str}
HEAD = """# The program cannot tell

Every known way in which an interposer breaks a program, and the tests that show that gpumem does not. The oracle of nearly
all of them: the same program plain and preloaded gives the same output, exit code and stderr.

- **CI**: the tests named run in `scripts/test.sh` on the simulated CUDA, which needs no GPU.
- **GPU**: cases of `tests/gpu`, with their result in the newest table of `docs/gpu-results`.
- **Limit**: what cannot be met, or cannot be tested here, and why.

Made by `tests/integration/transparency.py --write` from `tests/integration/transparency.toml`; a test checks that it is fresh.
"""


def entries():
    return modules.read_toml(SOURCE)


def gpu_cases():
    """The names in tests/gpu/cases.py, and the rows that run.py adds by itself."""
    sys.path.insert(0, str(ROOT / "tests" / "gpu"))
    import cases
    return cases.names() | set(re.findall(r'"(kill -9[^"]*)"', (ROOT / "tests/gpu/run.py").read_text()))


def gpu_results():
    """{case: (result, table)}: FAIL in any form of a case makes it FAIL; a later table wins over an earlier one."""
    results = {}
    for path in sorted((ROOT / "docs" / "gpu-results").glob("*.md")):
        found = {}
        for line in path.read_text().splitlines():
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            if len(cells) < 2 or cells[1] not in ("PASS", "FAIL", "SKIP"):
                continue
            name = re.sub(r", (static|shared|driver)(, \w+)?$", "", cells[0])
            if found.get(name) != "FAIL":
                found[name] = cells[1]
        results.update({name: (result, path.stem) for name, result in found.items()})
    return results


def faults_of(listed):
    wanted = [f"{letter}{number}" for letter, (_, count) in GROUPS.items() for number in range(1, count + 1)]
    faults = [f"{name} is missing" for name in wanted if name not in listed]
    faults += [f"{name} is not of the catalogue" for name in listed if name not in wanted]
    for name, entry in listed.items():
        for key, value in entry.items():
            if not isinstance(value, KEYS.get(key, type(None))):
                faults.append(f"{name}: key {key} is unknown or of the wrong type")
        if not entry.get("promise"):
            faults.append(f"{name} has no promise")
        if not (entry.get("tests") or entry.get("gpu") or entry.get("limit")):
            faults.append(f"{name} has no test, no case and no limit")
    return faults


def tests_of_past_faults():
    """The names in the second column of the table of past faults."""
    section = (ROOT / "tests" / "README.md").read_text().split("## Faults of the past", 1)[1].split("\n## ", 1)[0]
    rows = [line for line in section.splitlines() if line.startswith("| ") and not line.endswith("| |")]
    named = [test for row in rows for test in re.findall(r"`([^`]+)`", row.rsplit(" | ", 1)[1])]
    assert len(named) > 50, f"only {len(named)} tests were found"
    return named


def unknown_names(listed, build):
    listing = subprocess.run(["ctest", "--test-dir", build, "-N"], capture_output=True, text=True, check=True).stdout
    tests = set(re.findall(r"^ *Test +#\d+: (\S+)", listing, re.MULTILINE))
    cases = gpu_cases()
    faults = [f"tests/README.md: ctest knows no {test}" for test in tests_of_past_faults() if test not in tests]
    for name, entry in listed.items():
        faults += [f"{name}: ctest knows no {test}" for test in entry.get("tests", []) if test not in tests]
        faults += [f"{name}: tests/gpu knows no case {case!r}" for case in entry.get("gpu", []) if case not in cases]
    return faults


def cell(text):
    return text.replace("|", "\\|")


def rows(listed, letter, results):
    for number in range(1, GROUPS[letter][1] + 1):
        entry = listed[f"{letter}{number}"]
        tests = entry.get("tests", [])
        cases = entry.get("gpu", [])
        where = " + ".join(part for part, used in (("CI", tests), ("GPU", cases)) if used) or "-"
        proof = [f"`{test}`" for test in tests]
        for case in cases:
            result, table = results.get(case, ("not run yet", ""))
            proof.append(f"GPU `{case}`: {result}" + (f" ({table})" if table else ""))
        yield f"| {letter}{number} | {cell(entry['promise'])} | {where} | {cell('<br>'.join(proof))} | {cell(entry.get('limit', ''))} |"


def document(listed):
    results = gpu_results()
    count = lambda test: sum(1 for entry in listed.values() if test(entry))
    text = [HEAD]
    ran = lambda entry: any(case in results for case in entry.get("gpu", []))
    text.append(f"{len(listed)} entries: {count(lambda e: e.get('tests'))} tested in CI, {count(ran)} on a GPU,"
                f" {count(lambda e: not e.get('tests') and not ran(e))} by no test that has run"
                f" ({count(lambda e: not e.get('tests') and not ran(e) and e.get('gpu'))} of these have a GPU case).")
    for letter, (title, _) in GROUPS.items():
        text += ["", f"## {letter}: {title}", "", "| | a program may rely on | where | tests and results | limit |", "|---|---|---|---|---|"]
        text += rows(listed, letter, results)
    return "\n".join(text) + "\n"


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    listed = entries()
    faults = faults_of(listed)
    if not faults and sys.argv[1] == "--write":
        DOCUMENT.write_text(document(listed))
        return
    if not faults:
        faults = unknown_names(listed, sys.argv[1])
        if not DOCUMENT.exists() or DOCUMENT.read_text() != document(listed):
            faults.append(f"{DOCUMENT.relative_to(ROOT)} is not fresh: run tests/integration/transparency.py --write")
    print("\n".join(faults) or f"{len(listed)} entries, every test is there, the document is fresh")
    sys.exit(1 if faults else 0)


main()
