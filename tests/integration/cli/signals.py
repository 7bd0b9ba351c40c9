"""`gpumem run` between a sender of signals and a program: the program gets each signal once, as it does alone.

Every scenario runs the same program plain and under `gpumem run`; what it counted must be equal. The sender is as timeout, a
batch system or a shell: it signals the process it started, its group, or both.
"""
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import harness

SENT = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM, signal.SIGINT, signal.SIGXCPU,
        signal.SIGRTMIN + 3)

COUNTER = """
import os, signal, sys, time
if sys.argv[1] == "session": os.setsid()
counts = {}
def note(number, frame): counts[number] = counts.get(number, 0) + 1
for number in %s: signal.signal(number, note)
print("ready", os.getpid(), flush=True)
end = time.monotonic() + 20
while signal.SIGQUIT not in counts and time.monotonic() < end: time.sleep(0.005)
counts.pop(signal.SIGQUIT, None)
print(sorted(counts.items()), flush=True)
sys.exit(7)
""" % [int(s) for s in (*SENT, signal.SIGQUIT)]


def started(build, command, preloaded):
    words = [build.tool, "run", "-q", "--", *command] if preloaded else command
    process = subprocess.Popen(words, env=build.environment({"GPUMEM_REPORT": "none"}), stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, preexec_fn=os.setpgrp)  # process_group: Python 3.11
    word, pid = process.stdout.readline().split()
    harness.equal(word, "ready", "the program")
    return process, int(pid)


def counted(build, preloaded, send, place="group"):
    process, pid = started(build, [sys.executable, "-c", COUNTER, place], preloaded)
    for number in SENT:
        send(process.pid, number)
        time.sleep(0.05)
    time.sleep(0.1)
    os.kill(pid, signal.SIGQUIT)
    out, err = process.communicate(timeout=30)
    harness.equal(process.returncode, 7, f"exit code, {err}")
    return out


def same(build, send, place="group"):
    plain, under = (counted(build, preloaded, send, place) for preloaded in (False, True))
    harness.equal(under, plain, "what the program counted")
    return plain


def test_to_the_process(build):
    every = same(build, os.kill)
    harness.equal(every.count(", 1)"), len(SENT), f"the plain program counted {every}")


def test_to_the_group(build):
    every = same(build, os.killpg)
    harness.equal(every.count(", 1)"), len(SENT), f"the plain program counted {every}")


def test_to_both_as_timeout_does(build):
    """Plain the two may be one or two; under us the one to the process must not become a third."""
    def both(pid, number):
        os.kill(pid, number)
        os.killpg(pid, number)
    counts = dict(eval(counted(build, True, both)))
    assert set(counts) == set(map(int, SENT)) and set(counts.values()) <= {1, 2}, counts


def test_timeout_itself(build):
    for preloaded in (False, True):
        words = [build.tool, "run", "-q", "--"] if preloaded else []
        script = ("import signal,time\nn=[]\nfor s in (15,18): signal.signal(s,lambda s,f:n.append(s))\n"
                  "t=time.time()\nwhile time.time()-t<1.2: time.sleep(.02)\nprint(n.count(15))")
        done = subprocess.run(["timeout", "0.7", *words, sys.executable, "-c", script], capture_output=True, text=True,
                              env=build.environment())
        # timeout sends it to its child and then to the group: one or two, plain as well, by when the child looks.
        harness.equal((done.stdout in ("1\n", "2\n"), done.returncode), (True, 124), f"preloaded {preloaded}, {done}")


def test_a_program_that_left_the_group(build):
    """What its old group gets is not for it, and plain it would not have it."""
    harness.equal(counted(build, True, os.killpg, "session"), "[]\n", "what the program counted")


def test_on_a_machine_so_busy_that_gpumem_comes_late(build):
    """Its witness in the group has not run yet when the signal is judged."""
    process, pid = started(build, [sys.executable, "-c", COUNTER, "session"], True)
    children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    (witness,) = [int(child) for child in children if int(child) != pid]
    for number in SENT[:4]:
        os.kill(witness, signal.SIGSTOP)
        os.killpg(process.pid, number)
        time.sleep(0.2)
        os.kill(witness, signal.SIGCONT)
        time.sleep(0.1)
    os.kill(pid, signal.SIGQUIT)
    out, err = process.communicate(timeout=30)
    harness.equal((process.returncode, out), (7, "[]\n"), f"what the program counted, {err}")


def test_stopped_and_continued(build):
    """The shell sees the job stop and go on; the program does both."""
    program = "import os,sys,time; print('ready', os.getpid(), flush=True); time.sleep(0.6); sys.exit(5)"
    for send in (os.kill, os.killpg):
        process, pid = started(build, [sys.executable, "-c", program], True)
        send(process.pid, signal.SIGTSTP)
        _, status = os.waitpid(process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status), status
        end = time.monotonic() + 10
        while state_of(pid) != "T" and time.monotonic() < end:
            time.sleep(0.01)
        harness.equal(state_of(pid), "T", "the program")
        send(process.pid, signal.SIGCONT)
        harness.equal(process.wait(20), 5, "exit code")
        process.communicate()


def test_killed_for_good(build):
    """Plain, kill -9 ends the program; it must not stay behind when that reaches gpumem alone. Nothing else does either."""
    program = "import os,time; print('ready', os.getpid(), flush=True); time.sleep(60)"
    process, pid = started(build, [sys.executable, "-c", program], True)
    children = [int(word) for word in pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]
    assert pid in children, children
    process.kill()
    process.communicate(timeout=20)  # the pipe ends: nobody has it any more
    end = time.monotonic() + 10
    alive = children
    while alive and time.monotonic() < end:
        alive = [child for child in alive if state_of(child) not in ("gone", "Z")]
        time.sleep(0.02)
    harness.equal(alive, [], "processes left behind")


def state_of(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return "gone"


def test_a_page_that_a_killed_program_began_is_removed(build):
    """Nobody can read it; one of another process, or of another version, stays."""
    with tempfile.TemporaryDirectory() as name:
        state = pathlib.Path(name) / "state"
        state.mkdir(mode=0o700)
        (state / "1-2-0").write_text("of another version")
        script = f"echo begun > {state}/$$-1-0; kill -9 $$"
        done = subprocess.run([build.tool, "run", "-q", "--", "sh", "-c", script], capture_output=True, text=True,
                              env=build.environment({"GPUMEM_REPORT": "none", "GPUMEM_STATE_DIR": str(state)}))
        harness.equal(done.returncode, 128 + signal.SIGKILL, f"exit code, {done.stderr}")
        harness.equal([path.name for path in state.iterdir()], ["1-2-0"], "what is left")


def test_killed_programs_have_their_reports(build):
    """Twenty programs, each killed at another moment under `gpumem run`: a report, or the program had not begun."""
    reports = 0
    for i in range(20):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            (folder / "state").mkdir(mode=0o700)
            environment = build.environment({"GPUMEM_REPORT": "none", "GPUMEM_JSON": str(folder / "r.json"),
                                             "GPUMEM_STATE_DIR": str(folder / "state")})
            process = subprocess.Popen([build.tool, "run", "-q", "--", build.program("runtime_loop.shared"), "100000000"],
                                       env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            time.sleep(0.004 * (i + 1) ** 1.5)
            children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
            for child in children[:1]:
                os.kill(int(child), signal.SIGKILL)
            if not children:
                process.kill()
            _, err = process.communicate(timeout=30)
            if children:
                harness.equal(process.returncode, 128 + signal.SIGKILL, f"exit code of kill {i}, {err}")
            if (folder / "r.json").exists():
                report = harness.read_json((folder / "r.json").read_text())
                harness.equal(report["end"]["kind"], "signal", f"the end of kill {i}")
                harness.equal(harness.ledger_faults(report), [], f"the ledger of kill {i}")
                reports += 1
            harness.equal(err, "", f"kill {i} said")
            left = [path.name for path in (folder / "state").iterdir()]
            # gpumem itself was killed, maybe with a child just made that dies of it: what is left the next one clears away.
            deadline = time.monotonic() + 20
            while left and not children and time.monotonic() < deadline:
                subprocess.run([build.tool, "report", "--clean"], env=environment, check=True, stdout=subprocess.DEVNULL)
                left = [path.name for path in (folder / "state").iterdir()]
            harness.equal(left, [], f"pages left by kill {i}, {children}")
    assert reports >= 8, f"{reports} of 20 were killed after they began"


if __name__ == "__main__":
    harness.main(globals())
