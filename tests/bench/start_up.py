"""What the preload costs a process that never uses CUDA: start_up.py LIBRARY... [rounds]. Runs `true` plain and with each
library in turn, prints the medians and the shortest times in microseconds, and the page faults. Start it on an idle machine:
on a busy one the shortest say more than the medians. Nothing is asserted."""
import os
import statistics
import sys
import time

libraries = [os.path.abspath(word) for word in sys.argv[1:] if not word.isdigit()]
rounds = next((int(word) for word in sys.argv[1:] if word.isdigit()), 400)
program = "/bin/true"
plain_env = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}


def once(env):
    begin = time.perf_counter_ns()
    child = os.posix_spawn(program, [program], env)  # cheaper and steadier than fork
    _, status, used = os.wait4(child, 0)
    assert status == 0, f"{program} ended with {status}"
    return (time.perf_counter_ns() - begin) / 1000, used.ru_minflt


environments = [plain_env] + [{**plain_env, "LD_PRELOAD": library} for library in libraries]
runs = [[] for _ in environments]
for _ in range(rounds):
    for found, env in zip(runs, environments):
        found.append(once(env))
middle = [statistics.median(time for time, _ in found) for found in runs]
least = [min(time for time, _ in found) for found in runs]
faults = [statistics.median(number for _, number in found) for found in runs]
for i, library in enumerate(libraries, 1):
    if len(libraries) > 1:
        print(library)
    print(f"start-up of {program}, median of {rounds}: plain {middle[0]:.0f} us, preloaded {middle[i]:.0f} us, "
          f"difference {middle[i] - middle[0]:.0f} us, ratio {middle[i] / middle[0]:.2f}")
    print(f"shortest: plain {least[0]:.0f} us, preloaded {least[i]:.0f} us, difference {least[i] - least[0]:.0f} us; "
          f"page faults: plain {faults[0]:.0f}, preloaded {faults[i]:.0f}")
