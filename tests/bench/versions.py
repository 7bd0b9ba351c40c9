"""What a result file says about the machine it was made on: device, driver, versions of everything that was compared."""
import ctypes
import hashlib
import importlib.metadata
import pathlib
import platform
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def no_device():
    """Why there is no GPU to measure on; empty where there is one."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError as reason:
        return str(reason)
    count = ctypes.c_int(0)
    code = driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count))
    return "" if code == 0 and count.value else f"cuInit or cuDeviceGetCount gave {code}, {count.value} devices"


def first_line(command):
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=30, cwd=ROOT).stdout.splitlines()[0].strip()
    except (OSError, IndexError, subprocess.TimeoutExpired):
        return ""


def package(name):
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""


def rmm(build):
    """The version of the wheel that bench.rmm was built with; the build puts it beside the program."""
    version = build.folder / "gpu" / "librmm.version"
    return version.read_text().strip() if version.exists() else ""


def cpu():
    try:
        found = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    except OSError:
        found = None
    return found.group(1) if found else platform.machine()


def cuda():
    """The CUDA version that the driver supports."""
    try:
        version = ctypes.c_int(0)
        ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(version))
        return f"{version.value // 1000}.{version.value % 1000 // 10}"
    except OSError:
        return ""


def digest(library):
    return f"sha256:{hashlib.sha256(library.read_bytes()).hexdigest()[:12]}"


def library(build):
    """Tells two builds apart also where there is no git."""
    commit = first_line(["git", "describe", "--always", "--dirty"])
    return f"{commit} {digest(build.library)}".strip()


def collect(build, simulated):
    query = ["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"]
    device, driver, memory = ([part.strip() for part in first_line(query).split(",")] + ["", "", ""])[:3]
    if simulated:
        device, driver, memory = "simulated CUDA", "", ""
    found = {"gpumem": library(build), "CUDA": cuda(), "RMM": rmm(build),
             "PyTorch": package("torch"), "CuPy": package("cupy-cuda13x") or package("cupy-cuda12x"),
             "JAX": package("jax"), "Python": platform.python_version()}
    return {"device": device or "unknown device", "driver": driver, "memory": memory, "cpu": cpu(),
            "versions": {name: version for name, version in found.items() if version}}
