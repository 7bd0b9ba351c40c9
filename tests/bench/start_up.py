"""What the preload costs a process that never uses CUDA: start_up.py LIBRARY [rounds]. Runs `true` plain and preloaded in
turn, prints the medians and their difference in microseconds. Start it on an idle machine; nothing is asserted."""
import os
import statistics
import subprocess
import sys
import time

library, rounds = os.path.abspath(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 400
program = "/bin/true"
plain_env = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}
preload_env = {**plain_env, "LD_PRELOAD": library}


def once(env):
    begin = time.perf_counter_ns()
    # close_fds=False lets Python use posix_spawn, which is cheaper and steadier than fork.
    subprocess.run([program], env=env, close_fds=False, check=True)
    return (time.perf_counter_ns() - begin) / 1000


plain, preloaded = [], []
for _ in range(rounds):
    plain.append(once(plain_env))
    preloaded.append(once(preload_env))
a, b = statistics.median(plain), statistics.median(preloaded)
print(f"start-up of {program}, median of {rounds}: plain {a:.0f} us, preloaded {b:.0f} us, difference {b - a:.0f} us, "
      f"ratio {b / a:.2f}")
