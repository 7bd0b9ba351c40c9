"""Processes of one program that take turns, each under another allocator: some steps of one, the same steps of the next.

Called by real_programs.py, for programs that read from their input how many steps to time (tests/gpu/turns.py). They run on
the same few processors, so that a slow moment of the machine meets neighbours in time alike: what is compared is one turn of
one allocator with the same turn of the first. Whoever goes first changes from turn to turn.
"""
import os
import re
import statistics
import subprocess
import tempfile
import threading

TIME = re.compile(r"^time: (.*?) ([\d.]+) (ns|us|ms)$")
PROCESSORS = 4


class Worker:
    """One process: started at once, ready when it has done its warm-up; stopped at the end of the block or of its time."""

    def __init__(self, build, command, preload, env, seconds):
        extra = {"LD_PRELOAD": build.preload(), "GPUMEM_REPORT": "none", "GPUMEM_JSON": "none"} if preload else {}
        self.errors = tempfile.TemporaryFile()
        self.process = subprocess.Popen([*command, "turns"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors,
                                        text=True, env=build.environment({**extra, **env}))
        self.watchdog = threading.Timer(seconds, self.process.kill)
        self.watchdog.start()
        self.said = []

    def until(self, wanted):
        """The match of the first line that `wanted` matches; None: the process has ended."""
        for line in self.process.stdout:
            self.said.append(line.strip())
            if found := wanted.match(line.strip()):
                return found
        return None

    def turn(self, steps):
        try:
            self.process.stdin.write(f"{steps}\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            return None
        found = self.until(TIME)
        return found and (found[1], float(found[2]), found[3])

    def end(self):
        """The exit code, and what the process said last."""
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass
        self.until(re.compile("(?!)"))
        code = self.process.wait()
        self.watchdog.cancel()
        self.errors.seek(0)
        last = (self.said + self.errors.read().decode(errors="replace").strip().splitlines())[-1:]
        return code, "".join(last)


def same_processors(workers):
    """Not the first one, which serves the machine's interrupts; few, as one worker runs at a time."""
    here = sorted(os.sched_getaffinity(0))
    chosen = here[1:1 + PROCESSORS] if len(here) > PROCESSORS else here
    for worker in workers:
        for thread in os.listdir(f"/proc/{worker.process.pid}/task"):
            try:
                os.sched_setaffinity(int(thread), chosen)
            except ProcessLookupError:
                pass


def one_set(workers, steps, turns):
    """[{label: (what, value, unit)} for each turn], as far as all of them came."""
    if not all(worker.until(re.compile("^ready$")) for worker in workers.values()):
        return []
    same_processors(workers.values())
    labels, found = list(workers), []
    for number in range(-1, turns):
        first = number % len(labels)
        order = labels[first:] + labels[:first]
        this_turn = {label: workers[label].turn(steps) for label in order}
        if not all(this_turn.values()):
            break
        if number >= 0:                       # the one before all others only warms up
            found.append(this_turn)
    return found


def compare(build, commands, steps, turns, sets, time_left):
    """`commands`: {label: (command, preload, env)}, the first is what the others are compared with, and a second process of it.

    Returns ({label: [(metric, unit, value)]}, [what was found of each set, or went wrong]).
    """
    first = next(iter(commands))
    again = f"{first} again"                  # what differs from 1 no more than this tells nothing
    commands = {**commands, again: commands[first]}
    figures, notes = {label: [] for label in commands}, []
    for number in range(sets):
        if time_left() <= 0:
            notes.append(f"set {number + 1} not started: the time was up")
            break
        workers = {label: Worker(build, *how, seconds=max(10, time_left())) for label, how in commands.items()}
        try:
            found = one_set(workers, steps, turns)
        finally:
            ends = {label: worker.end() for label, worker in workers.items()}
        notes += [f"{label}: exit code {code}: {last[:160]}" for label, (code, last) in ends.items() if code != 0]
        if len(found) < turns:
            notes.append(f"set {number + 1} ended after {len(found)} of {turns} turns")
        if not found:
            break
        ratios = {}
        for label in commands:
            figures[label] += [(f"time in turns, {what}", unit, value) for what, value, unit in (t[label] for t in found)]
            if label != first:
                quotients = [t[label][1] / t[first][1] for t in found]
                figures[label] += [(f"time / that of {first} in the same turn", "times", q) for q in quotients]
                ratios[label] = statistics.median(quotients)
        notes.append(f"set {number + 1}, {len(found)} turns of {steps} steps, medians against {first}: "
                     + ", ".join(f"{label} {value:.3f}" for label, value in ratios.items()))
    del figures[again]
    return figures, notes
