"""Processes of one program that take turns, each under another allocator: some steps of one, the same steps of the next.

Called by real_programs.py, for programs that read from their input how many steps to time (tests/gpu/turns.py). They run on
the same processor, or few, so that a slow moment of the machine meets neighbours in time alike: what is compared is one turn
of one allocator with the same turn of the first. Whoever goes first changes from turn to turn.
"""
import os
import pathlib
import re
import statistics
import subprocess
import tempfile
import threading
import time

import stalled_writer

TIME = re.compile(r"^time: (.*?) ([\d.]+) (ns|us|ms)$")


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
        self.held = []

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
        stalled_writer.let_go(self.held)
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


def time_of_a_loop():
    begin = time.perf_counter()
    for _ in range(20_000):
        pass
    return time.perf_counter() - begin


def quietest(count):
    """Processors on which somebody else's work disturbs least: a thread stays where it first ran, so that of two processes
    on several processors one may have the disturbed one for all of its turns."""
    here = os.sched_getaffinity(0)
    times = {}
    for processor in sorted(here)[len(here) > 1:]:        # not the first one, which serves the machine's interrupts
        os.sched_setaffinity(0, {processor})
        times[processor] = statistics.median(time_of_a_loop() for _ in range(9))
    os.sched_setaffinity(0, here)
    return sorted(times, key=times.get)[:count]


def name_of(process, thread):
    try:
        return pathlib.Path(f"/proc/{process.pid}/task/{thread}/comm").read_text().strip()
    except OSError:
        return ""


def same_processors(workers, chosen):
    """But for the threads that merge and write a recording: a program has other processors for them."""
    for worker in workers:
        for thread in os.listdir(f"/proc/{worker.process.pid}/task"):
            try:
                if name_of(worker.process, thread) != "gpumem-record":
                    os.sched_setaffinity(int(thread), chosen)
            except ProcessLookupError:
                pass


def one_set(workers, steps, turns, processors):
    """[{label: (what, value, unit)} for each turn], as far as all of them came."""
    if not all(worker.until(re.compile("^ready$")) for worker in workers.values()):
        return []
    same_processors(workers.values(), quietest(processors))
    labels, found = list(workers), []
    for label in labels:
        if "stalls" in label:
            workers[label].held = stalled_writer.hold(workers[label].process.pid)
    for number in range(-1, turns):
        first = number % len(labels)
        order = labels[first:] + labels[:first]
        this_turn = {label: workers[label].turn(steps) for label in order}
        if not all(this_turn.values()):
            break
        if number >= 0:                       # the one before all others only warms up
            found.append(this_turn)
    return found


def again(first):
    return f"{first} again"


def compare(build, commands, steps, turns, sets, processors, time_left):
    """`commands`: {label: (command, preload, env)}, the first is what the others are compared with, and a second process of it:
    what differs from 1 no more than that one does tells nothing.

    Returns ({label: [(metric, unit, value)]}, [what was found of each set, or went wrong]).
    """
    first = next(iter(commands))
    commands = {first: commands[first], again(first): commands[first], **commands}
    figures, notes = {label: [] for label in commands}, []
    for number in range(sets):
        if time_left() <= 0:
            notes.append(f"set {number + 1} not started: the time was up")
            break
        workers = {label: Worker(build, *how, seconds=max(10, time_left())) for label, how in commands.items()}
        try:
            found = one_set(workers, steps, turns, processors)
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
    return figures, notes
