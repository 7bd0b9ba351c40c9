"""The documents against the tree: every link leads somewhere, docs/rmm.md names all that exists.

documents.py. Reads every Markdown file; each resource type, each of its options and each file of config/examples/rmm stands
in docs/rmm.md; each test that docs/command_line.md names exists.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
FOLDERS = ("shim", "core", "config", "tests", "scripts", "docs")


def link_faults():
    files = [ROOT / "README.md"] + [f for folder in FOLDERS for f in sorted((ROOT / folder).rglob("*.md"))]
    faults, links = [], 0
    for file in files:
        for target in re.findall(r"\]\(([^)\s#]+)(?:#[^)]*)?\)", file.read_text()):
            if re.match(r"[a-z]+:", target):
                continue
            links += 1
            if not (file.parent / target).exists():
                faults.append(f"{file.relative_to(ROOT)}: {target} is not there")
    assert links > 30, f"only {links} links were found in {len(files)} files"
    return faults


def parity_faults():
    schema = (ROOT / "config" / "schema" / "schema.def").read_text()
    text = (ROOT / "docs" / "rmm.md").read_text()
    said = set(re.findall(r"`([a-z_]+)`", text))
    types = set(re.findall(r'^GPUMEM_TYPE\("(\w+)"', schema, re.M))
    options = set(re.findall(r'^GPUMEM_KEY\("resource\.\w+", "(\w+)"', schema, re.M))
    assert len(types) > 15 and len(options) > 25, (types, options)
    faults = [f"docs/rmm.md does not name {name}" for name in sorted((types | options) - said)]
    for file in sorted((ROOT / "config" / "examples" / "rmm").glob("*.toml")):
        if f"examples/rmm/{file.name})" not in text:
            faults.append(f"docs/rmm.md does not link {file.name}")
    return faults


def command_line_faults():
    """Every test that docs/command_line.md names, by the file and the function it stands for; every row names one."""
    text = (ROOT / "docs" / "command_line.md").read_text()
    rows = [line for line in text.splitlines() if re.match(r"\| (?!what \||---)", line)] or [""]
    faults = [f"docs/command_line.md: no test in {row!r}" for row in rows if not re.search(r"(`[\w./ -]+`(, )?)+ \|$", row)]
    named = re.findall(r"`((?:(?:unit|golden)\.)?(\w+)\.(\w+)\.(\w+))`", text)
    assert len(named) > 50, named
    for name, folder, file, test in named:
        if name.startswith(("unit.", "golden.")):
            path, wanted = ROOT / "tests" / name.split(".")[0] / folder / f"{file}.cpp", rf"^TEST(_F)?\(\w+, {test}\)"
        elif name.startswith("integration."):
            path, wanted = ROOT / "tests" / "integration" / file / "CMakeLists.txt", rf"^add_test\(NAME {name}$"
        else:
            path, wanted = ROOT / "tests" / "integration" / folder / f"{file}.py", rf"^def test_{test}\("
        if not path.exists() or not re.search(wanted, path.read_text(), re.M):
            faults.append(f"docs/command_line.md: there is no test {name}")
    return faults


def main():
    faults = link_faults() + parity_faults() + command_line_faults()
    print(*faults, sep="\n")
    sys.exit(1 if faults else 0)


main()
