"""[[rule]]s by library, call and size, on the simulated CUDA: each request is served by the chain that its rule names.

rules.py BUILD [test...]; see harness.main. The program loads libraries that call cudaMalloc; the report says which rule
took what, and every block is freed, on another thread too.
"""
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import harness

LINKS = ("shared", "static")


def run(build, config, *steps, env=None):
    """A run of the program with `config`; steps are (library, count, bytes[, "managed"]) or "-library"."""
    folder = build.folder / "rules"
    path = lambda name: f"{folder}/lib{name}.so" if (folder / f"lib{name}.so").exists() else f"{folder}/{name}.so"
    arguments = []
    for step in steps:
        if isinstance(step, str):
            arguments.append("-" + path(step[1:]))
        else:
            arguments.append(":".join([path(step[0]), *map(str, step[1:])]))
    with tempfile.TemporaryDirectory() as name:
        file = pathlib.Path(name) / "rules.toml"
        file.write_text("version = 1\n" + config)
        command = [str(folder / "program"), *arguments]
        plain = build.run(command, env=env)
        done = build.run(command, preload=True, env={**(env or {}), "GPUMEM_CONFIG": str(file)})
    assert harness.differences(plain, done) == [], harness.differences(plain, done)
    harness.equal(done.code, 0, f"exit code; {done.stdout}{done.stderr}")
    harness.equal(len(done.reports), 1, "reports")
    harness.equal(harness.ledger_faults(done.reports[0]), [], "the ledger")
    for device in done.reports[0]["devices"]:
        harness.equal(device["live_blocks"], 0, "blocks still allocated")
    return done


def chain(report, route):
    found = [c for c in report["chains"] if c["route"] == route]
    return found[0]["nodes"] if found else []


def taken(report):
    """Requests that each rule took."""
    return [node["requests"] for node in chain(report, "rules")]


def served(report):
    """(calls, served by a chain) of cudaMalloc."""
    hook = [h for h in report["intercept"]["hooks"] if h["symbol"] == "cuMemAlloc_v2"][0]
    return hook["calls"], hook["served"]


BY_LIBRARY = """
[route]
device = ["pool", "cuda"]
[[rule]]
library = "*alpha*"
chain = "passthrough"
[[rule]]
library = "*beta*"
chain = ["beta", "cuda"]
[resource.beta]
type = "pool"
"""


def test_each_library_has_its_chain(build):
    for link in LINKS:
        done = run(build, BY_LIBRARY, (f"alpha_{link}", 5, 4096), (f"beta_{link}", 7, 4096), (f"alpha_{link}", 2, 1 << 20),
                   (f"beta_{link}", 3, 1 << 20))
        report = done.reports[0]
        harness.equal(taken(report), [7, 10], f"requests by rule, {link}")
        harness.equal(served(report), (17, 10), f"calls and those served, {link}")
        harness.equal([n["name"] for n in chain(report, "rule 2")], ["beta", "cuda"], f"the chain of rule 2, {link}")
        harness.equal(chain(report, "rule 2")[0]["requests"], 10, f"requests to it, {link}")
        text = done.texts[0]
        assert "RULES" in text and "*alpha*: passthrough" in text and "*beta*: beta > cuda" in text, text


def test_a_path_with_a_slash_is_the_whole_path(build):
    config = BY_LIBRARY.replace('"*alpha*"', '"*/rules/*alpha*"').replace('"*beta*"', '"*/elsewhere/*beta*"')
    report = run(build, config, ("alpha_shared", 5, 4096), ("beta_shared", 7, 4096)).reports[0]
    harness.equal(taken(report), [5, 0], "requests by rule")
    harness.equal(served(report), (12, 7), "calls and those served")


def test_a_constructor_under_dlopen(build):
    for link in LINKS:
        done = run(build, BY_LIBRARY, (f"alpha_{link}", 1, 4096), (f"beta_{link}", 1, 4096), env={"TAKE_AT_LOAD": "65536"})
        harness.equal(taken(done.reports[0]), [2, 2], f"requests by rule, {link}")


def test_another_library_at_the_same_addresses(build):
    """What is remembered of an unloaded library must not hold for the next one, which lands where it was."""
    steps = []
    for _ in range(3):
        steps += [("alpha_static", 4, 4096), "-alpha_static", ("beta_static", 5, 4096), "-beta_static"]
    report = run(build, BY_LIBRARY, *steps).reports[0]
    harness.equal(taken(report), [12, 15], "requests by rule")


def test_calls_by_driver_and_runtime_name(build):
    for link in LINKS:
        for name in ("cudaMalloc", "cuMemAlloc", "cuMemAlloc_v2", "cu*Alloc*"):
            config = f'[route]\ndevice = ["pool", "cuda"]\n[[rule]]\napi = "{name}"\nmin_size = "64 KiB"\nchain = ["cuda"]\n'
            report = run(build, config, (f"alpha_{link}", 5, 4096), (f"alpha_{link}", 3, 65536)).reports[0]
            harness.equal(taken(report), [3], f"requests by rule, {name}, {link}")
            harness.equal([n["name"] for n in chain(report, "rule 1")], ["cuda", "direct"], "its chain")


def test_kinds_and_sizes(build):
    config = """
[route]
managed = ["managed"]
[[rule]]
kind = "managed"
min_size = "1 MiB"
chain = "passthrough"
[[rule]]
max_size = "8 KiB"
chain = ["pool", "cuda"]
[[rule]]
library = "*alpha*"
chain = ["pool", "cuda"]
"""
    report = run(build, config, ("alpha_shared", 2, 4096), ("alpha_shared", 3, 1 << 20), ("beta_shared", 4, 1 << 20),
                 ("alpha_shared", 5, 1 << 20, "managed"), ("alpha_shared", 6, 4096, "managed")).reports[0]
    harness.equal(taken(report), [5, 2, 3], "requests by rule")
    harness.equal(served(report), (9, 5), "calls and those served")
    harness.equal([c["route"] for c in report["chains"]], ["rules", "rule 2", "managed"], "chains: equal ones are one")


harness.main(globals())
