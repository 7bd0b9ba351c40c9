"""The adaptors on a real GPU: logging, statistics, tracking and guard, by the checks of tests/integration/adaptors.

adaptors.py [--build FOLDER] [--seconds N]. One line a check; ends with a count. Exits 77 without a GPU, 1 when one failed.
"""
import argparse
import ctypes
import pathlib
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
for folder in ("tests/integration", "tests/integration/adaptors", "scripts"):
    sys.path.insert(0, str(ROOT / folder))
import callers
import harness
import log_files

# Those that need no debug information: the programs of this folder are stripped.
CHECKS = [
    callers.test_37_leaks_by_figures,
    callers.test_wrong_frees_without_a_pool,
    callers.test_damaged_zones,
    callers.test_guard_leaves_programs_alone,
    callers.test_statistics_agree_with_the_program,
    callers.test_leaks_are_known_after_kill_9,
    log_files.test_event_for_event_with_threads,
    log_files.test_event_for_event_with_streams,
    log_files.test_segments_below_the_pool,
    log_files.test_exec_leaves_two_whole_logs,
    log_files.test_a_forked_child_writes_a_file_of_its_own,
    log_files.test_a_reset_ends_all_blocks,
    log_files.test_flush_survives_kill_9,
]


def has_gpu():
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    count = ctypes.c_int(0)
    return driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0 and count.value > 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=str(ROOT / "build"))
    parser.add_argument("--seconds", type=float, default=240, help="start no further check after so long")
    options = parser.parse_args()
    if not has_gpu():
        print("no GPU here")
        sys.exit(harness.SKIP)
    build = harness.Build(options.build, simulated=False)
    begin, good = time.monotonic(), 0
    for check in CHECKS:
        started = time.monotonic()
        if started - begin > options.seconds:
            print(f"left out  {check.__name__}: no time")
            continue
        try:
            check(build)
            result, good = "passed", good + 1
        except (AssertionError, harness.Skipped) as fault:
            result = f"FAILED: {str(fault)[:1500]}"
        print(f"{time.monotonic() - started:7.1f} s  {check.__name__.removeprefix('test_')}  {result}", flush=True)
    print(f"{good} of {len(CHECKS)} passed")
    sys.exit(0 if good == len(CHECKS) else 1)


if __name__ == "__main__":
    main()
