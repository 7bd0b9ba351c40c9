"""The pages of docs on a real GPU, word for word and without stand-ins, and what `check --recommend` names for a program that is too large.

The group `pages` of run.py. A page whose framework is not installed is skipped; containers and launchers are tried on the simulated CUDA only.
"""
import os
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
for folder in ("tests/integration", "tests/integration/pages", "tests/integration/cli"):
    sys.path.insert(0, str(ROOT / folder))
os.environ["GPUMEM_PAGES_ON_A_GPU"] = "1"
import harness
import pages

NEEDS = {"strategies": None, "pytorch": "torch", "jax": "jax", "rapids": "rmm"}
# Takes nine tenths of the device and a half of it on top, in blocks of 1 GiB; says how many it got.
TAKES_TOO_MUCH = """
import ctypes
driver = ctypes.CDLL("libcuda.so.1")
device, context, block = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
free, total = ctypes.c_size_t(), ctypes.c_size_t()
codes = [driver.cuInit(0), driver.cuDeviceGet(ctypes.byref(device), 0),
         driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device), driver.cuCtxSetCurrent(context)]
driver.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total))
wanted = int(1.4 * total.value) >> 30
got = [driver.cuMemAlloc_v2(ctypes.byref(block), ctypes.c_size_t(1 << 30)) for _ in range(wanted)].count(0)
print("all" if got == wanted else "some")
"""


def follow(build, name):
    module = NEEDS[name]
    if module and subprocess.run(["python3", "-c", f"import {module}"], capture_output=True).returncode != 0:
        raise harness.Skipped(f"no {module} here")
    getattr(pages, f"test_{name}")(build)


def larger_than_the_device(build):
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder) / "report.json"
        command = ["python3", "-c", TAKES_TOO_MUCH]
        done = build.run(command, preload=True, env={"GPUMEM_JSON": str(report)})
        harness.equal(done.stdout, "some\n", done.stderr)
        said = subprocess.run([build.tool, "check", "--recommend", report], capture_output=True, text=True, timeout=60)
        example = said.stdout.partition("first: gpumem run -c ")[2].split(" ")[0]
        assert example.endswith("rmm/failure_callback.toml"), said.stdout + said.stderr
        # Not run under it: managed memory beyond what is free may hang a GPU that a virtual machine was given.


def jobs(build, table):
    """(name, function) of each page."""
    def run(name, check):
        started = time.monotonic()
        try:
            check()
            table.add(name, "PASS", "", f"{time.monotonic() - started:.2f} s")
        except harness.Skipped as reason:
            table.add(name, "SKIP", note=str(reason)[:80])

    found = [(f"page {name}", lambda name=name: run(f"page {name}", lambda: follow(build, name))) for name in NEEDS]
    larger = "recommended: larger than the device"
    return [*found, (larger, lambda: run(larger, lambda: larger_than_the_device(build)))]
