"""`logging` in whole programs: its file tells event for event what the program did, however the program ends."""
import collections
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
sys.path.insert(0, str(HERE.parent.parent.parent / "scripts"))
import harness
import replay_check

CONFIG = """version = 1
[route]
device = ["logging", "pool", "segments", "cuda"]
[resource.logging]
file = "{folder}/blocks.%p.csv"
flush = {flush}
[resource.segments]
type = "logging"
file = "{folder}/segments.%p.csv"
"""


def logged(build, command, flush=False, code=0, **how):
    """Runs the program with logs; ([events of each process], outcome)."""
    with tempfile.TemporaryDirectory() as folder:
        config = pathlib.Path(folder, "chain.toml")
        config.write_text(CONFIG.format(folder=folder, flush=str(flush).lower()))
        run = build.run(command, preload=True, env={"GPUMEM_CONFIG": str(config)}, **how)
        harness.equal(run.code, code, f"exit code: {run.stderr[-1000:]}")
        return read_logs(folder), run


def read_logs(folder, cut_allowed=False):
    logs = {}
    for path in sorted(pathlib.Path(folder).glob("*.csv*")):
        try:
            events, live, cut = replay_check.check(path)
        except replay_check.Fault as fault:
            raise AssertionError(str(fault)) from fault
        assert cut_allowed or not cut, f"{path} ends in the middle of a line"
        logs[path.name] = (events, live)
    return logs


def of_kind(logs, name):
    return [log for file, log in logs.items() if file.startswith(name)]


def tally(events):
    """The same figures as a program's own `counts:` line, out of the log."""
    counts = collections.Counter()
    for _, _, action, _, size, _, row in events:
        counts[harness.base_name(row["Call"])] += 1
        if action == "allocate":
            counts["bytes"] += size
    return dict(counts)


def same_as_program(build, command, **how):
    logs, run = logged(build, command, **how)
    mine = sorted(sorted(tally(events).items()) for events, _ in of_kind(logs, "blocks"))
    own = sorted(sorted(c.items()) for c in harness.own_counts(run.stdout))
    harness.equal(mine, own, "events, against what the program counted itself")
    return logs, run


def test_event_for_event_with_threads(build):
    logs, run = same_as_program(build, [build.program("threads.shared")])
    (events, live), = of_kind(logs, "blocks")
    assert len({e[0] for e in events}) > 4, "the events of all threads have one thread number"
    harness.equal(len(live), run.reports[0]["devices"][0]["live_blocks"], "blocks live at the end")
    assert all(row["Library"] == "threads.shared" for *_, row in events), "the calling library"
    assert all(row["Device"] == "0" and row["Kind"] == "device" for *_, row in events), "device and kind"


def test_event_for_event_with_streams(build):
    logs, _ = same_as_program(build, [build.program("async_streams.static")])
    (events, _), = of_kind(logs, "blocks")
    assert any(e[5] not in (0, 1, 2) for e in events), "no event names a stream"


def test_segments_below_the_pool(build):
    logs, run = logged(build, [build.program("threads.shared")])
    (events, live), = of_kind(logs, "segments")
    harness.equal(sum(size for size in live.values()), run.reports[0]["devices"][0]["now"]["reserved_bytes"], "live segments")
    assert all(e[4] % 512 == 0 for e in events), "a segment is no multiple of 512"


def test_complete_however_the_program_ends(build):
    for way, code in (("return", None), ("exit", 7), ("_exit", 8), ("quick_exit", 9), ("thread", 11), ("static", None)):
        plain = build.run([build.program("exits.shared"), way])
        same_as_program(build, [build.program("exits.shared"), way], code=plain.code if code is None else code)


def test_exec_leaves_two_whole_logs(build):
    logs, run = same_as_program(build, [build.program("exits.shared"), "exec"])
    harness.equal(len(of_kind(logs, "blocks")), 2, "logs: one for each image of the process")


def test_a_forked_child_writes_a_file_of_its_own(build):
    logs, _ = same_as_program(build, [build.program("forks.shared"), "before"])
    assert len(of_kind(logs, "blocks")) > 1, "the child has no log"


def test_a_reset_ends_all_blocks(build):
    same_as_program_after_reset, _ = logged(build, [build.program("reset.shared")])
    (events, _), = of_kind(same_as_program_after_reset, "blocks")
    assert events, "nothing was logged"


def killed(build, folder, flush):
    config = pathlib.Path(folder, "chain.toml")
    config.write_text(CONFIG.format(folder=folder, flush=flush))
    os.mkdir(f"{folder}/state", 0o700)
    env = {"LD_PRELOAD": str(build.library), "GPUMEM_CONFIG": str(config), "GPUMEM_STATE_DIR": f"{folder}/state"}
    out = pathlib.Path(folder, "out")
    with open(out, "wb") as stdout:
        process = subprocess.Popen([build.program("exits.shared"), "hang"], stdout=stdout, env=build.environment(env))
        deadline = time.monotonic() + 60
        while "counts:" not in out.read_text() and time.monotonic() < deadline and process.poll() is None:
            time.sleep(0.02)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    own, = harness.own_counts(out.read_text())
    (events, _), = of_kind(read_logs(folder), "blocks")
    return tally(events), own


def test_flush_survives_kill_9(build):
    with tempfile.TemporaryDirectory() as folder:
        mine, own = killed(build, folder, "true")
        harness.equal(mine, own, "events after kill -9")


def test_without_flush_kill_9_leaves_whole_lines(build):
    with tempfile.TemporaryDirectory() as folder:
        mine, own = killed(build, folder, "false")
        assert all(mine.get(key, 0) <= value for key, value in own.items()), f"{mine} is more than {own}"


def test_the_check_finds_faults(build):
    with tempfile.TemporaryDirectory() as folder:
        head = "Thread,Time,Action,Pointer,Size,Stream\n"
        take, give = "1,00:00:00.000000,allocate,0x1000,512,0\n", "1,00:00:00.000000,free,0x1000,512,0\n"
        for text in (take, head + give, head + take + take, head + take + give.replace("512", "256"),
                     head + take + take.replace("0x1000", "0x1100"), head + take.replace("allocate", "alloc")):
            path = pathlib.Path(folder, "log.csv")
            path.write_text(text)
            try:
                replay_check.check(path)
            except replay_check.Fault:
                continue
            raise AssertionError(f"accepted: {text!r}")
        path.write_text(head + take + give)
        replay_check.check(path, whole=True)


if __name__ == "__main__":
    harness.main(globals())
