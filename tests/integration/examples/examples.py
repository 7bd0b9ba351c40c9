"""Runs a program under every configuration of config/examples on the simulated CUDA: it must work, and as it says.

examples.py BUILD [NAME...]. The program's output, code and stderr are those of the plain run; each chain of the file was
built and served requests, of routes and of rules that a plain program can meet; `gpumem check` calls the file good.
"""
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import harness
import modules

EXAMPLES = pathlib.Path(__file__).resolve().parents[3] / "config" / "examples"
KINDS = ("device", "managed", "host")


def names_below(config, chain):
    """All resources of a chain, those of bins and of fallback chains too."""
    found = []
    for name in chain:
        table = config.get("resource", {}).get(name, {})
        found.append(name)
        found += [bin["to"] for bin in table.get("bins", []) if "to" in bin]
        for branch in table.get("chains", []):
            found += names_below(config, branch)
    return found


def chain_faults(config, chain, route, report):
    """The chain must be in the report whole, and its top must have served."""
    nodes = [node for c in report["chains"] if c["route"] == route for node in c["nodes"]]
    absent = [name for name in names_below(config, chain) if name not in [node["name"] for node in nodes]]
    if absent:
        return [f"the chain of {route} lacks {absent}: {[node['name'] for node in nodes]}"]
    return [] if nodes[0]["requests"] > 0 else [f"the chain of {route} served nothing"]


# The program does what the file promises that it does not.
WARNS = {"one_stream": 'gpumem: warning: a stream was created: from now on free = "one_stream" is as "deferred"\n'}


def log_faults(config, folder):
    """A log is where the file says, and is one."""
    faults = []
    for name, table in config.get("resource", {}).items():
        if table.get("type", name) != "logging" or "file" not in table:
            continue
        lines = (folder / table["file"]).read_text().splitlines() if (folder / table["file"]).exists() else []
        if not lines or not lines[0].startswith("Thread,Time,Action,Pointer,Size,Stream") or len(lines) < 10:
            faults.append(f"{table['file']}: {lines[:2]}")
    return faults


def faults_of(build, path, plain, surroundings):
    config = modules.read_toml(path)
    with tempfile.TemporaryDirectory(prefix="gpumem-example.") as name:
        done = build.run([build.program("every_kind.shared")], preload=True, cwd=name,
                         env={**surroundings, "GPUMEM_CONFIG": str(path)})
        expected = WARNS.get(path.stem, "")
        done.stderr = done.stderr.replace(expected, "", 1) if expected in done.stderr else f"no warning\n{done.stderr}"
        faults = harness.differences(plain, done) + log_faults(config, pathlib.Path(name))
    if len(done.reports) != 1:
        return faults + [f"{len(done.reports)} reports"]
    faults += harness.ledger_faults(done.reports[0]) + harness.count_faults(done)
    for kind in KINDS:
        if isinstance(config["route"].get(kind), list):
            faults += chain_faults(config, config["route"][kind], kind, done.reports[0])
    for number, rule in enumerate(config.get("rule", []), 1):
        if isinstance(rule["chain"], list) and "library" not in rule:
            faults += chain_faults(config, rule["chain"], f"rule {number}", done.reports[0])
    check = subprocess.run([build.tool, "check", "--device-memory", "96 GiB", path], capture_output=True, text=True,
                           env=build.environment(), check=False)
    if check.returncode != 0 or check.stderr:
        faults.append(f"gpumem check: {check.returncode} {check.stderr}")
    return faults


def main():
    build = harness.Build(sys.argv[1])
    surroundings = {"GPUMEM_SIMULATED_MEMORY": str(96 << 30), "GPUMEM_SIMULATED_PAGEABLE": "1"}
    plain = build.run([build.program("every_kind.shared")], env=surroundings)
    harness.equal(plain.code, 0, f"the plain run: {plain.stderr}")
    shown = subprocess.run([build.tool, "check"], capture_output=True, text=True, env=build.environment(surroundings),
                           check=False).stdout
    assert "devices 0, 1: " in shown and "96.00 GiB" in shown, shown  # asked of the driver that is found
    failed = 0
    paths = sorted(EXAMPLES.rglob("*.toml"))
    assert len(paths) > 25, paths
    for path in paths:
        name = str(path.relative_to(EXAMPLES).with_suffix(""))
        if sys.argv[2:] and name not in sys.argv[2:]:
            continue
        faults = faults_of(build, path, plain, surroundings)
        failed += bool(faults)
        print(f"{'FAILED ' if faults else 'passed '} {name}", *faults, sep="\n    ")
    sys.exit(1 if failed else 0)


main()
