"""Pipes, sockets and terminals that nobody reads: the program ends without its report, which is kept and can be had later.

unread.py BUILD [test...]; see harness.main. The program writes nothing of its own, so that natively it ends at once.
"""
import concurrent.futures
import os
import pathlib
import pty
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import harness


def full(descriptor):
    """Filled until nothing more goes in for a while: a terminal hands on what was written a little later, and has room then."""
    os.set_blocking(descriptor, False)
    unchanged = 0
    while unchanged < 10:
        unchanged += 1
        for size in (1 << 16, 1):
            try:
                while True:
                    os.write(descriptor, b"x" * size)
                    unchanged = 0
            except BlockingIOError:
                pass
        time.sleep(0.02)
    os.set_blocking(descriptor, True)
    return descriptor


def a_pipe():
    reads, writes = os.pipe()
    return reads, full(writes)


def a_socket():
    ends = socket.socketpair()
    return ends[0].detach(), full(ends[1].detach())


def a_terminal():
    reads, writes = pty.openpty()
    return reads, full(writes)


def ends(build, make, stream, settings):
    reads, writes = make()
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o700)
        env = {"LD_PRELOAD": str(build.library), "GPUMEM_STATE_DIR": folder, **settings}
        to = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, stream: writes}
        process = subprocess.Popen([build.program("acts"), "malloc", "threads", "2"], env=build.environment(env), stdin=subprocess.DEVNULL, **to)
        try:
            code = process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            code = "none: it stands still"
        kept = build.run([str(build.tool), "report", "--last"], env={"GPUMEM_STATE_DIR": folder})
    os.close(reads)
    os.close(writes)
    return code, kept.code, "gpumem" in kept.stdout


def test_the_program_ends_and_the_report_is_kept(build):
    # What acts prints of its own would wait as well: where that goes to stdout, only stderr is full.
    cases = [(make, "stderr", settings) for make in (a_pipe, a_socket, a_terminal)
             for settings in ({}, {"GPUMEM_REPORT": "none", "GPUMEM_JSON": "/dev/stderr"}, {"GPUMEM_LOG": "debug"})]
    with concurrent.futures.ThreadPoolExecutor(len(cases)) as pool:
        found = list(pool.map(lambda case: ends(build, *case), cases))
    for (make, stream, settings), outcome in zip(cases, found):
        harness.equal(outcome, (0, 0, True), f"exit code, code and text of the report later, {make.__name__} {stream} {settings}")


harness.main(globals())
