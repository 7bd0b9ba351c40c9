"""Recordings of whole programs: replayed chunk by chunk they end with the ledger of the report, whatever the chain; after
kill -9 too. And what becomes of a recording whose file cannot be had, may not grow, or is limited.

recorded.py BUILD [test...]; see harness.main. recording_ledger prints what a replay ends with.
"""
import json
import os
import pathlib
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "random"))
import harness
from random_run import CONFIGS, NEEDS, options_of

COMPLETE, RECOVERED = 1, 3
PROGRAMS = pathlib.Path(__file__).resolve().parent.parent / "programs"
ROWS = ("requested", "rounding", "reserved", "observed")


def replayed(build, path):
    done = subprocess.run([build.program("recording_ledger"), str(path)], capture_output=True, text=True)
    harness.equal((done.returncode, done.stderr), (0, ""), f"the reader of {path}")
    return json.loads(done.stdout)


def expect_sound(found, what):
    harness.equal((found["faults"], found["contradictions"], found["breaks"]), ([], 0, 0), what)


def expect_ledger(build, report, what):
    """The recording that the report names ends with the report's ledger."""
    found = replayed(build, report["recording"]["path"])
    expect_sound(found, what)
    harness.equal(found["state"], COMPLETE, f"{what}: state")
    for device in report["devices"]:
        replay = found["devices"].get(str(device["device"]), dict.fromkeys(ROWS, 0))
        ledger = {row: device["now"][f"{row}_bytes"] for row in ROWS}
        harness.equal(replay, ledger, f"{what}: device {device['device']}, the replay and the report")
    return found


def random_run(build, config, seed, extra=None, operations=15_000):
    with tempfile.TemporaryDirectory(prefix="gpumem-recorded.") as folder:
        folder = pathlib.Path(folder)
        (folder / "chain.toml").write_text(CONFIGS[config])
        env = {"GPUMEM_CONFIG": str(folder / "chain.toml"), "GPUMEM_RECORD": str(folder / "recording.%p.%x"),
               "GPUMEM_SIMULATED_STRICT": None, "GPUMEM_SIMULATED_DEVICES": "3", **NEEDS.get(config, {}), **(extra or {})}
        done = build.run([build.program("random_program"), str(seed), str(operations), "4", *options_of(config)], preload=True, env=env)
        harness.equal(done.code, 0, f"{config}, seed {seed}: {done.stdout}{done.stderr}")
        events = 0
        compared = 0
        for report in done.reports:
            if report["end"]["kind"] != "exit":
                continue
            events += expect_ledger(build, report, f"{config}, seed {seed}")["events"]
            compared += 1
        assert compared > 0 and events > operations / 3, f"only {events} events of {compared} processes: nothing was proven"


def test_random_programs(build):
    for config in CONFIGS:
        random_run(build, config, 1)


def test_fresh_random_programs(build):
    seed = os.environ.get("GPUMEM_TEST_SEED") or str(int.from_bytes(os.urandom(2), "little"))
    print(f"fresh seed: GPUMEM_TEST_SEED={seed} repeats it")
    for config in ("pool", "returning", "pool_over_vmm", "cuda_async", "arena", "managed_and_host"):
        random_run(build, config, seed)


def test_other_memory(build):
    """Arrays, virtual memory, pools, IPC, contexts that end."""
    for name in ("every_kind.shared", "virtual_memory.linked", "memory_totals.shared", "reset.shared", "contexts.shared"):
        if not (build.folder / "programs" / name).exists():
            continue
        with tempfile.TemporaryDirectory(prefix="gpumem-recorded.") as folder:
            done = build.run([build.program(name)], preload=True, env={"GPUMEM_RECORD": f"{folder}/recording.%p.%x"})
            assert done.reports, f"{name}: no report: {done.stderr}"
            for report in done.reports:
                expect_ledger(build, report, name)



def test_run_and_export(build):
    with tempfile.TemporaryDirectory(prefix="gpumem-recorded.") as folder:
        recording = f"{folder}/recording"
        done = build.run([build.program("threads.shared")], tool=["-q", "--record", "recording"], cwd=folder)
        harness.equal(done.code, 0, done.stderr)
        report = done.reports[0]
        harness.equal(report["recording"]["path"], recording, "the path in the report")
        assert re.search(rf"^recording   {recording}", done.texts[0], re.M), done.texts[0]
        found = expect_ledger(build, report, "gpumem run --record")
        csv = f"{folder}/events.csv"
        made = subprocess.run([build.tool, "export", "--format", "rmm-csv", recording, "-o", csv], capture_output=True, text=True)
        harness.equal((made.returncode, made.stdout, made.stderr), (0, "", ""), "gpumem export")
        lines = pathlib.Path(csv).read_text().splitlines()
        harness.equal(lines[0], "Thread,Time,Action,Pointer,Size,Stream", "the first line")
        live, last = {}, ""
        for line in lines[1:]:
            match = re.fullmatch(r"(\d+),(\d\d:\d\d:\d\d\.\d{6}),(allocate|free|allocate failure),(0x[0-9a-f]+|\(nil\)),(\d+),(0|0x[0-9a-f]+)", line)
            assert match, line
            _, time, action, pointer, size, _ = match.groups()
            assert last <= time or last[:2] == "23", f"{last} before {time}"
            last = time
            if action == "allocate":
                assert pointer not in live, line
                live[pointer] = size
            elif action == "free":
                harness.equal(live.pop(pointer), size, line)
        assert len(lines) > 100, f"{len(lines)} lines"
        harness.equal(sum(int(size) for size in live.values()), report["devices"][0]["now"]["requested_bytes"], "what is live in the CSV")
        # A name that is taken stays, which is said; no file has the name none.
        made = subprocess.run([build.tool, "export", "--format", "rmm-csv", recording, "-o", csv], capture_output=True, text=True)
        assert (made.returncode, made.stdout) == (0, "") and f"goes to {csv}.1" in made.stderr, made.stderr
        harness.equal(pathlib.Path(f"{csv}.1").read_text(), pathlib.Path(csv).read_text(), "the second export")
        made = subprocess.run([build.tool, "export", "--format", "rmm-csv", recording, "-o", "none"], capture_output=True, text=True, cwd=folder)
        harness.equal((made.returncode, made.stdout, made.stderr, os.path.exists(f"{folder}/none")), (0, "", "", False), "-o none")
        for words in ([], ["-o", "-"], ["-o", "/dev/stdout"]):
            made = subprocess.run([build.tool, "export", "--format", "rmm-csv", recording, *words], capture_output=True, text=True)
            harness.equal((made.returncode, made.stdout, made.stderr), (0, pathlib.Path(csv).read_text(), ""), f"export {words}")
        # A second run takes the next name.
        build.run([build.program("threads.shared")], tool=["-q", "--record", "recording"], cwd=folder)
        assert pathlib.Path(f"{recording}.1").exists()
        assert found["events"] > 100


def export_into(build, recording, output, limit):
    """By a process whose files may not grow beyond that."""
    limited = lambda: (resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)), signal.signal(signal.SIGXFSZ, signal.SIG_IGN))
    return subprocess.run([build.tool, "export", "--format", "rmm-csv", recording, "-o", output], capture_output=True, text=True,
                          preexec_fn=limited)


def test_an_export_that_does_not_fit(build):
    """Is said, with the cause, and no part of it is left; what was there before stays."""
    with tempfile.TemporaryDirectory(prefix="gpumem-recorded.") as folder:
        build.run([build.program("threads.shared")], tool=["-q", "--record", "recording"], cwd=folder)
        made = export_into(build, f"{folder}/recording", f"{folder}/events.csv", 1000)
        harness.equal((made.returncode, made.stdout), (3, ""), made.stderr)
        assert f"cannot write all of {folder}/events.csv: File too large; it is removed" in made.stderr, made.stderr
        harness.equal(os.listdir(folder), ["recording"], "what is left")
        made = export_into(build, f"{folder}/recording", "/dev/full", 1000)
        assert made.returncode == 3 and "cannot write all of /dev/full: No space left on device\n" in made.stderr, made.stderr
        assert os.path.exists("/dev/full")


def test_misuse(build):
    for arguments in (["export"], ["export", "--format", "xml", "file"], ["export", "file"]):
        done = subprocess.run([build.tool, *arguments], capture_output=True, text=True)
        harness.equal(done.returncode, 2, arguments)
        assert "error" in done.stderr, done.stderr
    done = subprocess.run([build.tool, "export", "--format", "rmm-csv", "/etc/passwd"], capture_output=True, text=True)
    harness.equal(done.returncode, 2, done.stderr)


def test_killed(build):
    """Killed in the middle, at different moments: gpumem run completes the file."""
    for after in (20, 60, 200):  # hundredths of a second of processor time, which a busy machine gives later
        with tempfile.TemporaryDirectory(prefix="gpumem-recorded.") as folder:
            script = f"""
                "$@" &
                while read -r name _ _ _ _ _ _ _ _ _ _ _ _ used kernel _ </proc/$!/stat && [ $((used + kernel)) -lt {after} ]; do sleep 0.01; done
                kill -9 $!
                wait"""
            done = build.run(["sh", "-c", script, "sh", build.program("random_program"), "7", "100000000", "4"],
                             tool=["-q", "--record", f"{folder}/recording.%p"],
                             env={"GPUMEM_SIMULATED_STRICT": None, "GPUMEM_SIMULATED_DEVICES": "3"})
            found = [replayed(build, path) for path in pathlib.Path(folder).glob("recording.*")]
            assert found, done.stderr
            for one in found:
                expect_sound(one, f"killed after {after} ticks")
                assert one["state"] in (COMPLETE, RECOVERED), one
            assert any(one["state"] == RECOVERED and one["events"] > 10 for one in found), found


OWN_CONTEXTS = ("racing_contexts.driver", "own", "200")
GIVES_BACK = ("ending_beside_others.driver", "keeps", "100")
FREES_LATE = ("ending_beside_others.driver", "late", "20")


def of_ended_contexts(build, program, config, mutant="none"):
    """Of threads beside contexts that end, whose addresses are the next ones' at once."""
    with tempfile.TemporaryDirectory(prefix="gpumem-recorded.") as folder:
        env = {"LD_PRELOAD": str(build.folder / "libgpumem_mutant.so"), "TEST_MUTANT": mutant, "TEST_INTERLEAVE": "1",
               "GPUMEM_RECORD": f"{folder}/recording", "GPUMEM_CONFIG": str(PROGRAMS / "configs" / f"{config}.toml")}
        done = build.run([build.program(program[0]), *program[1:]], preload=True, env=env)
        harness.equal(done.code, 0, f"{config}: {done.stdout}{done.stderr}")
        return replayed(build, f"{folder}/recording")


def expect_told_twice(build, program, config, mutant, attempts):
    if not any(of_ended_contexts(build, program, config, mutant)["contradictions"] for _ in range(attempts)):
        raise AssertionError(f"{mutant}: not caught")


def test_memory_of_ended_contexts(build):
    for config in ("small_pool", "pool_over_vmm", "arena", "direct", "direct_vmm", "pool_over_cuda_async"):
        for program in (OWN_CONTEXTS, GIVES_BACK):
            found = of_ended_contexts(build, program, config)
            expect_sound(found, f"{config}, {program}")
            assert found["events"] > 200, found


def test_memory_of_ended_contexts_that_is_told_late(build):
    expect_told_twice(build, OWN_CONTEXTS, "small_pool", "lost_after_its_segment", attempts=5)


def test_blocks_whose_free_is_under_way_when_their_context_ends(build):
    """It waits for such frees to be told, so that the next one's blocks at these addresses are told of later."""
    for config in ("small_pool", "direct", "binning", "counted"):
        for mutant in ("none", "late_free"):
            expect_sound(of_ended_contexts(build, FREES_LATE, config, mutant), f"{config}, {mutant}")


def test_such_a_free_that_is_told_too_late(build):
    expect_told_twice(build, FREES_LATE, "small_pool", "free_told_too_late", attempts=5)


def test_memory_of_ended_contexts_that_is_in_no_table(build):
    expect_told_twice(build, GIVES_BACK, "small_pool", "lost_from_the_hand", attempts=10)


def test_buffers_that_nobody_fetched(build):
    """Of killed processes, which lie in memory where the state folder does: --clean removes them, others after a week; those of live ones stay."""
    with tempfile.TemporaryDirectory(prefix="gpumem-recorded.") as folder:
        env = build.environment({"LD_PRELOAD": build.preload(), "GPUMEM_RECORD": f"{folder}/recording.%p", "GPUMEM_REPORT": "none",
                                 "GPUMEM_STATE_DIR": f"{folder}/state"})
        buffers = pathlib.Path(folder) / "state" / "recordings"

        def started():
            before = len(list(buffers.glob("*"))) if buffers.exists() else 0
            one = subprocess.Popen([build.program("steady_loop.shared"), "1e9", "1", f"{folder}/noted.{before}"], env=env)
            while not buffers.exists() or len(list(buffers.glob("*"))) == before:
                time.sleep(0.01)
            time.sleep(0.1)
            return one

        killed, alive = started(), started()
        killed.kill()
        killed.wait()
        tool = lambda *more: subprocess.run([build.tool, "report", *more], env=env, capture_output=True, text=True)
        try:
            tool("--list")
            harness.equal(len(list(buffers.glob("*"))), 2, "new ones stay")
            for path in buffers.glob(f"{killed.pid}-*"):
                os.utime(path, (time.time() - 8 * 86400,) * 2)
            tool("--list")
            harness.equal([path.name.split("-")[0] for path in buffers.glob("*")], [str(alive.pid)], "after a week")
        finally:
            alive.kill()
            alive.wait()
        tool("--clean")
        harness.equal(list(buffers.glob("*")), [], "after --clean")


def test_limited(build):
    """A third of the limit holds what is live of this program, of whose threads no two runs are the same: more than two chunks stay."""
    with tempfile.TemporaryDirectory(prefix="gpumem-recorded.") as folder:
        (pathlib.Path(folder) / "chain.toml").write_text(
            f'version = 1\n[recording]\nfile = "{folder}/recording.%p.%x"\nmax_size = "2 MiB"\n')
        done = build.run([build.program("random_program"), "3", "150000", "4"], preload=True,
                         env={"GPUMEM_CONFIG": f"{folder}/chain.toml", "GPUMEM_SIMULATED_STRICT": None,
                              "GPUMEM_SIMULATED_DEVICES": "3"})
        report = max((r for r in done.reports if r["end"]["kind"] == "exit"),
                     key=lambda r: sum(d["counters"]["allocated_blocks"] if "counters" in d else 0 for d in r["devices"]))
        found = expect_ledger(build, report, "at a limit of 2 MiB")
        assert found["bytes"] <= 2 << 20 and found["chunks"] > 2, found


def expect_stopped(done, text):
    report = done.reports[0]
    assert text in (report["recording"]["stopped"] or ""), report.get("recording")
    harness.equal(done.stderr.count("warning"), 1, f"one warning: {done.stderr}")
    assert any("record" in finding["text"] for finding in report["findings"]), report["findings"]


def test_no_file(build):
    plain = build.run([build.program("threads.shared")])
    with tempfile.TemporaryDirectory(prefix="gpumem-recorded.") as folder:
        os.chmod(folder, 0o500)
        for path, text in ((f"{folder}/none/recording", "cannot create"), ("/dev/null", "no plain file"), ("/proc/recording", "cannot create")):
            done = build.run([build.program("threads.shared")], preload=True, env={"GPUMEM_RECORD": path})
            harness.equal((done.code, done.stdout), (plain.code, plain.stdout), path)
            expect_stopped(done, text)
        os.chmod(folder, 0o700)


def on_small_disk(build, inside, size):
    """The outcome of a program whose recording lies on a disk of that size; and what the shell said of it afterwards."""
    mount = ["unshare", "-m", "/bin/bash", "-c", f'mount -t tmpfs -o size={size},mode=700 none /dev/shm || exit 77; {inside}', "-"]
    program = [build.program("random_program"), "3", "150000", "4"]
    done = build.run([*mount, *program], preload=True, env={
        "GPUMEM_RECORD": "/dev/shm/recording.%p.%x", "GPUMEM_SIMULATED_STRICT": None, "GPUMEM_SIMULATED_DEVICES": "3"})
    if done.code in (1, 77) and "report" not in done.stdout and not done.reports:
        raise harness.Skipped(f"no mount of its own can be made here: {done.stderr.strip()[:100]}")
    return done


def test_full_disk(build):
    done = on_small_disk(build, '"$@"', "64k")
    harness.equal(done.code, 0, done.stderr)
    assert "hazards 0" in done.stdout, done.stdout
    stopped = [r for r in done.reports if r.get("recording", {}).get("stopped")]
    assert any("full" in r["recording"]["stopped"] for r in stopped), done.stderr
    assert "its disk is full; the program goes on without it" in done.stderr, done.stderr


if __name__ == "__main__":
    harness.main(dict(globals()))
