"""Times a program's steps: its own number of them once, or, with the argument "turns", a number from each line of its input.

For programs that tests/bench/in_turns.py lets take turns with other processes of the same program: what the machine does
meanwhile then meets all of them alike.
"""
import sys
import time

IN_A_SECOND = {"ms": 1e3, "us": 1e6}


def asked(steps):
    if sys.argv[1:] != ["turns"]:
        yield steps
        return
    print("ready", flush=True)
    for line in sys.stdin:
        yield int(line)


def timed(what, unit, steps, one_step, settle):
    """Prints what one_step(number) takes with the work that settle() waits for; returns the last step's result."""
    last = None
    for count in asked(steps):
        begin = time.perf_counter()
        for number in range(count):
            last = one_step(number)
        settle()
        print(f"time: {what} {(time.perf_counter() - begin) / count * IN_A_SECOND[unit]:.3f} {unit}", flush=True)
    return last
