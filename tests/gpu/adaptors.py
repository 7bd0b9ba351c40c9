"""The adaptors on a real GPU: logging, statistics, tracking and guard, by the checks of tests/integration/adaptors.

The group `adaptors` of run.py. Programs under all of them at once are cases of the group `debugging`.
"""
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


def jobs(build, table):
    """(name, function) of each check."""
    def run(name, check):
        started = time.monotonic()
        try:
            check(build)
            table.add(name, "PASS", "", f"{time.monotonic() - started:.2f} s")
        except harness.Skipped as reason:
            table.add(name, "SKIP", note=str(reason)[:80])

    names = {check: check.__name__.removeprefix("test_").replace("_", " ") for check in CHECKS}
    return [(name, lambda name=name, check=check: run(name, check)) for check, name in names.items()]
