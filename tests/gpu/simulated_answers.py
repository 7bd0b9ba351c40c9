"""Whether the simulated CUDA tells the truth: random calls, good and bad, to the GPU's driver and to the simulated one.

simulated_answers.py [--build FOLDER] [--seconds N] [--first SEED] [--steps N] [--parallel N] [--without NAME,...] [--out FILE]
[--preloaded CHAIN]. Runs tests/integration/random/transcript without gpumem on both, many seeds of few steps, as the first
difference of a seed brings about others. Prints each kind of difference once with what came before, and how often each was.
Whatever differs the simulated driver has to be taught, or the document has to say why it may differ. With --preloaded the other
side is the GPU's driver under gpumem and that chain (random_run.py), which must answer alike. 77 without a GPU, 1 with differences.
"""
import argparse
import collections
import concurrent.futures
import ctypes
import pathlib
import re
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests" / "integration"))
sys.path.insert(0, str(ROOT / "tests" / "integration" / "random"))
import harness
from random_run import CONFIGS


def devices():
    """How many there are, and the memory of the first."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return 0, 0
    count, bytes_of_one = ctypes.c_int(0), ctypes.c_size_t(0)
    if driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count)) or driver.cuDeviceTotalMem_v2(ctypes.byref(bytes_of_one), 0):
        return 0, 0
    return count.value, bytes_of_one.value


def answers(build, program, seed, steps, env):
    outcome = build.run([build.program(program), str(seed), str(steps)], env={"TRANSCRIPT_TAME": "1", **env}, timeout=12)
    return [*outcome.stdout.splitlines(), f"exit code {outcome.code}"]


def kind_of(line):
    """A line without its numbers and names."""
    return re.sub(r"\b[a-z]\d+\b|\+\d+|\d+ and \d+|, \d+|^[\d.]+", "", line).strip()


class Search:
    def __init__(self, given, count, memory):
        self.given = given
        self.other = "simulated" if given.preloaded is None else "preloaded"
        self.real = harness.Build(given.build, simulated=False)
        self.simulated = harness.Build(given.build)
        self.without = {"TRANSCRIPT_WITHOUT": given.without} if given.without else {}
        self.lines = self.runs = 0
        self.devices = {"GPUMEM_SIMULATED_STRICT": None, "GPUMEM_SIMULATED_DEVICES": str(count), "GPUMEM_SIMULATED_MEMORY": str(memory)}
        self.found, self.told = collections.Counter(), []

    def both(self, seed):
        real = answers(self.real, "transcript.driver", seed, self.given.steps, self.without)
        if self.given.preloaded is None:
            return seed, real, answers(self.simulated, "transcript", seed, self.given.steps, {**self.devices, **self.without})
        with tempfile.TemporaryDirectory(prefix="gpumem-answers.") as folder:
            chain = pathlib.Path(folder) / "chain.toml"
            chain.write_text(CONFIGS[self.given.preloaded])
            env = {"LD_PRELOAD": self.real.preload(), "GPUMEM_CONFIG": str(chain), "GPUMEM_STATE_DIR": folder, "GPUMEM_REPORT": "none"}
            return seed, real, answers(self.real, "transcript.driver", seed, self.given.steps, {**env, **self.without})

    def note(self, seed, real, simulated):
        self.runs += 1
        self.lines += len(real)
        for number, pair in enumerate(zip([*real, "(ends)"], [*simulated, "(ends)"])):
            if pair[0] == pair[1]:
                continue
            kind = tuple(map(kind_of, pair))
            self.found[kind] += 1
            if self.found[kind] == 1:
                before = "\n".join(f"    {line}" for line in real[max(0, number - 14):number])
                after = "\n".join(f"  {self.other:9} {line}" for line in simulated[number:number + 3])
                self.told.append(f"seed {seed}, {self.given.steps} steps\n{before}\n" +
                                 "\n".join(f"  GPU       {line}" for line in real[number:number + 3]) + f"\n{after}\n")
            return

    def run(self):
        end = time.monotonic() + self.given.seconds
        seed = self.given.first
        with concurrent.futures.ThreadPoolExecutor(self.given.parallel) as workers:
            while time.monotonic() < end:
                for pair in workers.map(self.both, range(seed, seed + 2 * self.given.parallel)):
                    self.note(*pair)
                seed += 2 * self.given.parallel
        rows = [f"{times:5}  GPU: {real}  {self.other}: {simulated}" for (real, simulated), times in self.found.most_common()]
        return "\n".join([f"{self.runs} runs of {self.given.steps} steps, {self.lines:,} lines compared, "
                          f"{self.found.total()} runs with a difference, {len(self.found)} kinds", *rows, "", *self.told])


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--build", default=str(ROOT / "build"))
    options.add_argument("--seconds", type=int, default=60)
    options.add_argument("--first", type=int, default=1)
    options.add_argument("--steps", type=int, default=80)
    options.add_argument("--parallel", type=int, default=8)
    options.add_argument("--without", default="")
    options.add_argument("--out")
    options.add_argument("--preloaded", choices=CONFIGS, metavar="CHAIN")
    given = options.parse_args()
    count, memory = devices()
    if count == 0:
        print("skipped: no CUDA device here")
        sys.exit(harness.SKIP)
    search = Search(given, count, memory)
    text = search.run()
    print(text)
    if given.out:
        pathlib.Path(given.out).write_text(text + "\n")
    sys.exit(1 if search.found or not search.runs else 0)


main()
