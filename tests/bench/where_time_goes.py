"""Which functions, and which instructions of them, a workload's threads are in: by samples of processor time, on any machine.

where_time_goes.py BUILD [--cuda] [--config FILE] [--plain] [--top N] [--instructions N] -- WORKLOAD ALLOCATOR [key=value ...]: as
bench's own arguments, say `threads async from=16 threads=16`. What counts instructions does not see that a line of memory comes from
another core each time, or that threads wait for a lock: that is time in few instructions here.
"""
import argparse
import bisect
import collections
import os
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "integration"))
import harness
import tables


class Object:
    """One file with code in the process: its functions by address."""

    def __init__(self, path):
        self.name = pathlib.Path(path).name
        self.path = path
        listed = subprocess.run(["nm", "-C", "-n", "--defined-only", path], capture_output=True, text=True).stdout
        found = re.findall(r"^([0-9a-f]+) [tTwWiI] (.*)$", listed, re.MULTILINE)
        self.begins = [int(address, 16) for address, _ in found]
        self.functions = [name for _, name in found]

    def function_at(self, offset):
        at = bisect.bisect_right(self.begins, offset) - 1
        return self.functions[at] if at >= 0 else f"[{self.name}]"

    def instructions(self, begin, end):
        """Of one stretch of code: text by offset."""
        listed = subprocess.run(["objdump", "-d", "-C", "--no-show-raw-insn", f"--start-address={begin}", f"--stop-address={end}", self.path],
                                capture_output=True, text=True).stdout
        return {int(address, 16): re.sub(r" <.*>$", "", re.sub(r"\s+", " ", text)) for address, text in re.findall(r"^ +([0-9a-f]+):\t(.*)$", listed, re.MULTILINE)}


def read(path, program):
    """Samples as (object, offset); None for what lies in none."""
    parts, samples, objects = [], [], {}
    for line in path.read_text().splitlines():
        kind, *words = line.split(" ", 4)
        if kind == "object":
            file = program if words[3] == "/proc/self/exe" else words[3]
            if file not in objects:
                objects[file] = Object(file)
            parts.append((int(words[0], 16), int(words[1], 16), int(words[2], 16), objects[file]))
        else:
            at = int(words[0], 16)
            within = next((part for part in parts if part[1] <= at < part[2]), None)
            samples.append((within[3], at - within[0]) if within else None)
    return samples


def main():
    given = argparse.ArgumentParser()
    given.add_argument("build")
    given.add_argument("--cuda", action="store_true")
    given.add_argument("--config")
    given.add_argument("--plain", action="store_true", help="without gpumem")
    given.add_argument("--top", type=int, default=20)
    given.add_argument("--instructions", type=int, default=0, help="so many of the most frequent, with the two before each")
    given.add_argument("workload", nargs="+")
    wanted = given.parse_args()
    build = harness.Build(wanted.build, simulated=not wanted.cuda)
    program = build.program("bench.static")
    with tempfile.TemporaryDirectory(prefix="gpumem-samples.") as folder:
        file = pathlib.Path(folder) / "samples"
        preloads = [] if wanted.plain else [build.preload()]
        env = {"LD_PRELOAD": ":".join([*preloads, build.program("instruction_samples.so")]), "GPUMEM_BENCH_SAMPLES": str(file),
               "GPUMEM_REPORT": "none", "GPUMEM_JSON": "none", "GPUMEM_STATE_DIR": folder, **{k: v for k, v in os.environ.items() if k.startswith("GPUMEM_SIMULATED_")}}
        if wanted.config:
            env["GPUMEM_CONFIG"] = os.path.abspath(wanted.config)
        done = subprocess.run([program, *wanted.workload], capture_output=True, text=True, env=build.environment(env))
        if done.returncode != 0:
            sys.exit(f"exit code {done.returncode}\n{done.stderr[-2000:]}")
        samples = read(file, program)
    if not samples:
        sys.exit("no samples: the process used no processor time, or its timer does not tick")
    print(done.stdout, end="")
    by_function = collections.Counter(one[0].function_at(one[1]) if one else "[elsewhere]" for one in samples)
    rows = [(f"{100 * many / len(samples):.1f} %", name[:110]) for name, many in by_function.most_common(wanted.top)]
    print(tables.table((f"of {len(samples)} samples", "function"), rows))
    rows = []
    for one, many in collections.Counter(filter(None, samples)).most_common(wanted.instructions):
        code = one[0].instructions(one[1] - 32, one[1] + 16)
        texts = [text for offset, text in sorted(code.items()) if offset <= one[1]][-3:]
        rows.append((f"{100 * many / len(samples):.1f} %", one[0].function_at(one[1])[:60], " ; ".join(texts)))
    if rows:
        print(tables.table(("share", "function", "instruction, behind the two before it"), rows))


main()
