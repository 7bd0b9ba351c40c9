"""Programs built with a sanitizer run under the release library as they do without it.

sanitizers.py BUILD [test...]; see harness.main. The sanitizer's own calls meet ours from the first instruction on: it finds
the functions that it wraps by our dlsym, and its wrappers are what our calls of libc come to.
"""
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import harness

# What the simulated CUDA and this library do is not compiled for the thread sanitizer, which then sees half of it: the
# option is the usual one for a program over libraries like that.
OPTIONS = {"ASAN_OPTIONS": "detect_leaks=0", "TSAN_OPTIONS": "ignore_noninstrumented_modules=1"}


def runtime(sanitizer):
    """The sanitizer's own library, which must be the first of a process."""
    name = {"address": "libasan.so", "thread": "libtsan.so"}[sanitizer]
    path = subprocess.run(["gcc", f"-print-file-name={name}"], capture_output=True, text=True).stdout.strip()
    if not pathlib.Path(path).is_absolute():
        raise harness.Skipped(f"no {name} here")
    return str(pathlib.Path(path).resolve())


def compared(build, compiler, sanitizer, program, *arguments, env=None):
    path = build.folder / "programs" / f"{program}.{compiler}_{sanitizer}"
    if not path.exists():
        raise harness.Skipped(f"{compiler} does not build for the {sanitizer} sanitizer here")
    command = [str(path), *arguments]
    first = [runtime(sanitizer)] if compiler == "gnu" else []
    plain = build.run(command, env=OPTIONS)
    harness.equal(plain.code, 0, f"exit code of the plain run, {plain.stderr[-2000:]}")
    preload = ":".join([*first, str(build.library)])
    run = build.run(command, preload=True, env={**OPTIONS, "LD_PRELOAD": preload, **(env or {})})
    harness.equal(harness.differences(plain, run), [], f"{path.name}, {run.stderr[-2000:]}")
    return run


def counted(build, compiler, sanitizer):
    for program, *arguments in (("runtime_loop", "100"), ("threads", "4", "20")):
        run = compared(build, compiler, sanitizer, program, *arguments)
        harness.equal(harness.count_faults(run), [], "counts")
        harness.equal(len(run.reports), 1, "reports")


def test_gnu_address(build):
    counted(build, "gnu", "address")


def test_gnu_thread(build):
    counted(build, "gnu", "thread")


def test_clang_address(build):
    counted(build, "clang", "address")


def test_clang_thread(build):
    counted(build, "clang", "thread")


def test_disabled(build):
    for compiler in ("gnu", "clang"):
        for sanitizer in ("address", "thread"):
            compared(build, compiler, sanitizer, "runtime_loop", "20", env={"GPUMEM_DISABLE": "1"})


def test_a_process_without_cuda(build):
    """`true` is not built with it: the sanitizer comes by LD_PRELOAD, as to a Python whose module has it."""
    for sanitizer in ("address", "thread"):
        env = {**OPTIONS, "LD_PRELOAD": f"{runtime(sanitizer)}:{build.library}"}
        run = build.run(["/bin/true"], env=env)
        harness.equal((run.code, run.stdout, run.stderr), (0, "", ""), f"/bin/true behind the {sanitizer} sanitizer")


harness.main(globals())
