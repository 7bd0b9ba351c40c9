"""How many steps a program is to time: its own number once, or, with the argument "turns", a number from each line of its input.

For programs that tests/bench/in_turns.py lets take turns with other processes of the same program: what the machine does
meanwhile then meets all of them alike.
"""
import sys


def asked(steps):
    if sys.argv[1:] != ["turns"]:
        yield steps
        return
    print("ready", flush=True)
    for line in sys.stdin:
        yield int(line)
