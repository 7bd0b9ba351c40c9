"""gpumem.h as a program meets it: from C and from Python, with the library and without it.

interface.py BUILD [test...]; see harness.main.
"""
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import harness

ROOT = HERE.parent.parent.parent
HEADER = ROOT / "shim" / "include" / "gpumem" / "gpumem.h"
SAID = """loaded 1
version as compiled 1
before CUDA: statistics 3, trim 2, report 2
two blocks: code 0, requested 51380224, highest 51380224, idle within reserved 1, allocations 2, frees 0, refusals 0
one block: code 0, requested 1048576, highest 51380224, idle within reserved 1, allocations 2, frees 1, refusals 0
trim 0, at least the large one 1
a shorter one: code 0, requested 1048576, the rest untouched 1
no such device 3, no result 3
report: code 4, then 0, as long as it says 1, begins with {
phases: begin 0, end 0, another end 3
"""
PYTHON = """
import ctypes, gpumem
cuda = ctypes.CDLL("libcudart.so.13")
if not gpumem.is_loaded():
    for ask in (gpumem.get_statistics, gpumem.trim, gpumem.get_report):
        try:
            ask()
        except gpumem.NotLoaded as why:
            print("not loaded:", str(why)[:20])
    raise SystemExit
try:
    gpumem.get_statistics()
except gpumem.NotLoaded as why:
    print(why)
block = ctypes.c_void_p()
assert cuda.cudaMalloc(ctypes.byref(block), ctypes.c_size_t(1 << 20)) == 0
now = gpumem.get_statistics()
print(now.current_bytes, now.peak_bytes, now.current_count, now.total_count, now.refusals)
print(gpumem.get_report()["devices"][0]["now"]["requested_bytes"])
assert cuda.cudaFree(block) == 0
print(gpumem.trim() >= 1 << 20, gpumem.get_statistics().current_count)
try:
    gpumem.get_statistics(63)
except ValueError as why:
    print(why)
"""
FROM_PYTHON = """gpumem has nothing to tell: it is disabled, or there was no CUDA call yet
1048576 1048576 1 1 0
1048576
True 0
device 63: gpumem.h's code 3
"""


NAMED = "named_chains"
CONFIGS = HERE / "configs"


def test_chains_by_their_names(build):
    outcome = build.run([build.program(NAMED)], preload=True, env={"GPUMEM_CONFIG": str(CONFIGS / "named_chains.toml")})
    harness.equal((outcome.code, outcome.stdout), (0, (HERE / "expected" / "named_chains.txt").read_text()), outcome.stderr)
    harness.equal(outcome.stderr.count("warning"), 1, outcome.stderr)
    assert 'asks for the chain "scratsh", and no rule has this name' in outcome.stderr, outcome.stderr
    report, = outcome.reports
    calls = {each["symbol"]: each for each in report["intercept"]["hooks"]}
    harness.equal({name: calls[name]["route"] for name in calls if name.startswith("gpumem_")},
                  {"gpumem_allocate": "device", "gpumem_allocate_sync": "device", "gpumem_release": "free",
                   "gpumem_release_sync": "free"}, "calls of the interface")
    harness.equal(harness.ledger_faults(report, outcome.known.get(report["process"]["pid"]), noted=False), [], "ledger")


def test_a_configuration_without_names_refuses_them(build):
    outcome = build.run([build.program(NAMED)], preload=True)
    assert "no such chain 6; nor such 6; no result 3" in outcome.stdout and "gpumem_allocate gave 6" in outcome.stdout, outcome.stdout


def test_disabled_chains_say_so(build):
    outcome = build.run([build.program(NAMED)], preload=True, env={"GPUMEM_DISABLE": "1"})
    assert "no such chain 2; nor such 2; no result 3" in outcome.stdout, outcome.stdout


def test_without_the_library(build):
    for name in ("interface.pie", "interface.no_pie"):
        harness.equal(build.run([build.program(name)]).stdout, "loaded 0\n", name)
    harness.equal(build.run([build.program(NAMED)]).stdout, "not there\n", NAMED)


def test_with_the_library(build):
    outcome = build.run([build.program("interface.pie")], preload=True)
    harness.equal((outcome.code, outcome.stdout), (0, SAID), outcome.stderr)


def test_an_executable_that_cannot_move_does_not_see_it(build):
    outcome = build.run([build.program("interface.no_pie")], preload=True)
    harness.equal((outcome.code, outcome.stdout), (0, "loaded 0\n"), outcome.stderr)


def test_a_disabled_library_says_so(build):
    outcome = build.run([build.program("interface.pie")], preload=True, env={"GPUMEM_DISABLE": "1"})
    assert "two blocks: code 2" in outcome.stdout, outcome.stdout


def test_from_python(build):
    env = {"PYTHONPATH": str(ROOT / "shim" / "python"), "PYTHONDONTWRITEBYTECODE": "1"}
    outcome = build.run([sys.executable, "-c", PYTHON], preload=True, env=env)
    harness.equal((outcome.code, outcome.stdout), (0, FROM_PYTHON), outcome.stderr)
    outcome = build.run([sys.executable, "-c", PYTHON], env=env)
    harness.equal((outcome.code, outcome.stdout), (0, 3 * "not loaded: gpumem is not loaded\n"), outcome.stderr)


def test_the_header_is_c99_and_cpp(build):
    for compiler, name in (("c99", "header.c"), ("c++", "header.cpp")):
        with tempfile.TemporaryDirectory() as folder:
            source = pathlib.Path(folder) / name
            source.write_text(f'#include "{HEADER}"\nint main(void) {{ return gpumem_is_loaded(); }}\n')
            done = subprocess.run([compiler, "-Wall", "-Wextra", "-pedantic", "-Werror", source, "-o", source.with_suffix("")],
                                  capture_output=True, text=True)
            harness.equal(done.returncode, 0, f"{compiler}: {done.stderr}")


harness.main(globals())
