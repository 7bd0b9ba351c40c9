"""Stops the thread that writes a recording, as a debugger does: for the program its disk takes nothing any more.

Used by recording_proofs.py and in_turns.py. Who holds a thread has to let it go before the process can end.
"""
import ctypes
import os
import pathlib

SEIZE, INTERRUPT, DETACH = 0x4206, 0x4207, 17
ALL_THREADS = 0x40000000


def hold(process):
    """The threads that were stopped: none where tracing is not allowed."""
    libc = ctypes.CDLL(None, use_errno=True)
    for task in sorted(pathlib.Path(f"/proc/{process}/task").iterdir(), key=lambda task: int(task.name)):
        if (task / "comm").read_text().strip() != "gpumem-record":
            continue
        thread = int(task.name)
        stopped = libc.ptrace(SEIZE, thread, None, None) == 0 and libc.ptrace(INTERRUPT, thread, None, None) == 0
        return [thread] if stopped else []  # the first that was made is the one that writes
    return []


def let_go(threads):
    libc = ctypes.CDLL(None)
    for thread in threads:
        if libc.ptrace(DETACH, thread, None, None) != 0:
            try:
                os.waitpid(thread, ALL_THREADS)  # it has ended with its process, which is there until its tracer knows
            except ChildProcessError:
                pass
