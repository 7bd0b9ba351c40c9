"""[report.categories]: what programs of known sizes hold by the user's names, and what a refusal says of it.

categories.py BUILD [test...]; see harness.main. Programs: tests/programs/sampled_sites.cpp, library_holders.cpp, python_program.py.
"""
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import harness

MIB = 1 << 20
TAKE = """
import ctypes, os, signal
runtime = ctypes.CDLL("libcudart.so.13")
def hold(size):
    p = ctypes.c_void_p()
    return runtime.cudaMalloc(ctypes.byref(p), ctypes.c_size_t(size))
assert hold(10 << 20) == 0
"""


def run(build, command, categories, config="", every="1 B", code=0):
    with tempfile.TemporaryDirectory(prefix="gpumem-categories.") as folder:
        path = pathlib.Path(folder) / "chain.toml"
        path.write_text(f'version = 1\n{config}[report]\nsample_every = "{every}"\n[report.categories]\n{categories}')
        done = build.run(command, preload=True, env={"GPUMEM_CONFIG": str(path)}, cwd=folder)
    harness.equal(done.code, code, done.stdout + done.stderr)
    return done


def rows_of(report, device=0):
    """By name: (now, at the highest) by samples, and by library; the sums are those of the whole."""
    rows = next(one for one in report["categories"]["devices"] if one["device"] == device)["rows"]
    harness.equal(rows[-1]["name"], "other", "the last row")
    figures = [[row[by][when] for row in rows] for by in ("samples", "libraries") for when in ("now_bytes", "at_highest_bytes")]
    whole = next((one for one in report["samples"]["devices"] if one["device"] == device), {"now_bytes": 0, "at_highest_bytes": 0})
    libraries = next(one for one in report["devices"] if one["device"] == device)["libraries"]
    harness.equal([sum(column) for column in figures],
                  [whole["now_bytes"], whole["at_highest_bytes"],
                   sum(one["routed_bytes"] + one["observed_bytes"] for one in libraries),
                   sum(one["at_highest_bytes"] for one in libraries)], "the rows of a device, added up")
    return {row["name"]: tuple(column[i] for column in figures) for i, row in enumerate(rows)}


def test_functions(build):
    done = run(build, [build.program("sampled_sites"), "sites", "said"],
               'large = ["take_large"]\nsmall = ["take_sm*", "no_such_function"]\n"never seen" = ["take_never"]\n')
    rows = rows_of(done.reports[0])
    harness.equal({name: row[0] // MIB for name, row in rows.items()}, {"large": 192, "small": 64, "never seen": 0, "other": 8}, "now, MiB")
    named = {site["frames"][0].get("symbol"): site["category"] for site in done.reports[0]["samples"]["sites"]}
    harness.equal({k: named[k] for k in ("take_large", "take_small", "take_array")},
                  {"take_large": "large", "take_small": "small", "take_array": "other"}, "sites")
    text = done.texts[0]
    assert "CATEGORIES device 0" in text and "by samples, about" in text and "never seen" not in text, text
    (line,) = [line for line in text.splitlines() if line.startswith("  large ")]
    harness.equal(line.split()[1:3], ["192.00", "MiB"], text)


def test_the_first_that_matches_wins(build):
    command = [build.program("sampled_sites"), "sites", "said"]
    for categories, wanted in (('all = ["*"]\nlarge = ["take_large"]\n', {"all": 264, "large": 0, "other": 0}),
                               ('large = ["take_large"]\nall = ["*"]\n', {"large": 192, "all": 72, "other": 0}),
                               ('folder = ["*/programs/*"]\n', {"folder": 264, "other": 0}),
                               ('"no path" = ["programs/*"]\n', {"no path": 0, "other": 264})):
        rows = rows_of(run(build, command, categories).reports[0])
        harness.equal({name: row[0] // MIB for name, row in rows.items()}, wanted, categories)


def test_libraries(build):
    files = [build.program(f"lib/libholding_{name}.so") for name in ("first", "second")]
    done = run(build, [build.program("library_holders"), *files], 'first = ["libholding_first*"]\nprogram = ["*/library_holders"]\n')
    report = done.reports[0]
    rows = rows_of(report)
    # By the library that called, exact. Every stack leads to the program: of the others' memory that is a match as well.
    harness.equal({name: row[2] // MIB for name, row in rows.items()}, {"first": 64, "program": 5, "other": 48}, "by library, MiB")
    harness.equal({name: row[0] // MIB for name, row in rows.items()}, {"first": 64, "program": 53, "other": 0}, "by samples, MiB")
    named = {pathlib.Path(one["path"]).name: one["category"] for one in report["devices"][0]["libraries"]}
    harness.equal(named, {"libholding_first.so": "first", "library_holders": "program", "libholding_second.so": "other"}, "libraries")


def test_python_code(build):
    with tempfile.TemporaryDirectory(prefix="gpumem-optim.") as folder:
        package = pathlib.Path(folder) / "optim"
        package.mkdir()
        (package / "adam.py").write_text("def step(hold):\n    return hold(40 << 20)\n")
        script = pathlib.Path(folder) / "train.py"
        script.write_text(f"import sys\nsys.path.insert(0, {folder!r})\n" + TAKE +
                          "from optim import adam\ndef forward():\n    return hold(20 << 20)\n"
                          "assert adam.step(hold) == 0\nassert forward() == 0\n")
        rows = rows_of(run(build, [sys.executable, str(script)],
                           'optimizer = ["*/optim/*.py"]\nactivations = ["forward"]\nscript = ["train.py"]\n').reports[0])
    harness.equal({name: row[0] // MIB for name, row in rows.items()}, {"optimizer": 40, "activations": 20, "script": 10, "other": 0}, "MiB")


def test_of_a_process_that_was_killed(build):
    """Its page is enough: the configuration is gone by then."""
    with tempfile.TemporaryDirectory(prefix="gpumem-categories.") as folder:
        state, path = pathlib.Path(folder) / "state", pathlib.Path(folder) / "chain.toml"
        state.mkdir(mode=0o700)
        path.write_text('version = 1\n[report]\nsample_every = "1 B"\n[report.categories]\nmine = ["hold"]\nrest = ["*"]\n')
        env = {"GPUMEM_CONFIG": str(path), "GPUMEM_STATE_DIR": str(state)}
        done = build.run([sys.executable, "-c", TAKE + "os.kill(os.getpid(), signal.SIGKILL)\n"], env={**env, "LD_PRELOAD": build.preload()})
        harness.equal(done.code, -9, done.stderr)
        path.unlink()
        told = subprocess.run([build.tool, "report", "--last", "--json"], env=build.environment({"GPUMEM_STATE_DIR": str(state)}),
                              capture_output=True, text=True, timeout=60)
    report = harness.read_json(told.stdout)
    harness.equal(report["categories"]["names"], [{"name": "mine", "patterns": ["hold"]}, {"name": "rest", "patterns": ["*"]}], "names")
    harness.equal({name: row[0] // MIB for name, row in rows_of(report).items()}, {"mine": 10, "rest": 0, "other": 0}, "MiB")


def test_without_categories_nothing_is_said(build):
    done = build.run([build.program("sampled_sites"), "sites", "said"], preload=True)
    assert "categories" not in done.reports[0] and "CATEGORIES" not in done.texts[0], done.texts[0]
    assert all("category" not in site for site in done.reports[0]["samples"]["sites"])


def test_a_refusal(build):
    limit = '[route]\ndevice = ["limiting", "pool", "cuda"]\n[resource.limiting]\nallocation_limit = "100 MiB"\n'
    script = TAKE + "def forward(): return hold(60 << 20)\nassert forward() == 0\nassert hold(50 << 20) == 2\n"
    done = run(build, [sys.executable, "-c", script], 'activations = ["forward"]\n', limit)
    (failure,) = done.reports[0]["failures"]
    harness.equal(failure["categories"], [{"name": "activations", "held_bytes": 60 * MIB}, {"name": "other", "held_bytes": 10 * MIB}], "held")
    harness.equal(failure["sampled_bytes"], 70 * MIB, "of all code")
    text = " ".join(done.texts[0].split())
    assert re.search(r"try .* \d+ % \(70\.00 MiB\) is held by \S+, most of it by <string>:\d+ hold", text), done.texts[0]
    assert "held at <string>:6 hold about 70.00 MiB" in text, done.texts[0]
    assert "held for activations about 60.00 MiB (85.7 %), other about 10.00 MiB (14.3 %)" in text, done.texts[0]


harness.main(globals())
