"""The random program with kernels on a GPU: plain, under every chain, and with each seeded bug, which it must find.

random_twin.py [--build FOLDER] [--seconds N] [--parts plain,chains,mutants] [--chains A,B] [--devices N] [--parallel N]
[--markdown FILE]. Prints one table; exit code 1 if a row is not as wanted. What a run does is told in
tests/integration/random/random_program.cpp, the bugs in core/base/mutant.hpp.
"""
import argparse
import concurrent.futures
import pathlib
import random
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(ROOT / "tests" / "integration"), str(ROOT / "tests" / "integration" / "random")]
import harness
from random_run import CONFIGS, FIGURES, options_of

LAST_WORDS = re.compile(r"operations (\d+), allocations (\d+), faults (\d+)")  # of one that hung or crashed
OPERATIONS = 4000        # of a round: what was found is counted at its end
THREADS = (4, 8, 2)
NEEDS_OTHER_DEVICES = {"pool_over_system"}  # pageable memory
# Bugs that this program cannot show, with the test that does.
NOT_HERE = {"exported_served": "nobody imports here: integration.programs.ipc_pair",
            "highest_added_up": "a figure of a pool that two devices share: integration.programs.served",
            **dict.fromkeys(("ended_thread_missed", "spoilt_stream_missed"), "costs memory, hurts nobody: integration.programs.capture_bugs"),
            "slotless_is_plain": "what is said of a block, nothing more: integration.programs.capture_bugs",
            "stream_turn_ignored": "the driver crashes where threads take such turns: integration.programs.capture_turns",
            "slot_of_an_ended_thread": "costs memory, hurts nobody: integration.programs.ended",
            "counted_late": "the ledger alone shows it: integration.programs.ended",
            "taken_by_its_handle": "the ledger alone shows it: integration.programs.ended",
            "passes_unseen": "a race that this program does not run: integration.programs.ended",
            "ending_entered": "the driver crashes, which says nothing: integration.programs.ended",
            **dict.fromkeys(("frees_in_order_wait", "host_waits_for_foreign_work", "requests_free_at_once"),
                            "waits are not counted on a GPU: integration.random.mutants"),
            "addresses_go_before_blocks": "a free is refused, hurts nobody: integration.programs.ended",
            **dict.fromkeys(("free_told_too_late", "lost_after_its_segment", "lost_from_the_hand"), "a recording alone shows it: integration.recording.recorded"),
            "looked_once": "a figure of a pool: integration.programs.served",
            "lost_still_held": "the ledger alone shows it: integration.random.mutants"}
TWO_DEVICES = {"joined_context_ignored", "ended_served"}
CHAIN_OF = {"freed_before_done": "vmm"}  # where a bug is not in the pool over cuda
# Bugs that no wrong word tells of, but another program does, which must do as plain without the bug and not with it.
SHOWN_BY = {"settings_stay": ("settings.shared", (), "every_pool"), "settings_shared": ("settings.shared", (), "every_pool"),
            "ended_pool_goes": ("asked_rules.driver", ("pool_ended",), "program_pools"),
            "used_by_any_free": ("default_pool.shared", (), None), "two_default_pools": ("default_pool.shared", (), None),
            "pitch_of_any_width": ("pitched.shared", (), None),
            "stale_refusal": ("out_of_memory.shared", (), None),
            "refused_given_to_driver": ("captured_contexts.driver", ("twice",), "direct_cuda_async"),
            "begun_when_over": ("dead_context.driver", ("released",), "pool_over_vmm"),
            "limit_under_ended": ("dead_context.driver", ("released",), "counted"),
            "freed_under_ended": ("dead_context.driver", ("frees",), None)}
PROGRAM_CONFIGS = ROOT / "tests" / "integration" / "programs" / "configs"


def mutants():
    found = set()
    for path in (ROOT / "core").rglob("*.?pp"):
        if path.name != "mutant.hpp":
            found.update(re.findall(r"GPUMEM_MUTANT\((\w+)\)", path.read_text()))
    return sorted(found)


class Row:
    def __init__(self, name, outcome, wanted_good):
        figures = FIGURES.search(outcome.stdout)
        self.name, self.outcome, self.wanted_good = name, outcome, wanted_good
        self.told = f"{outcome.stdout[-6000:]}{outcome.stderr[-1500:]}"
        self.allocations, self.operations, self.faults, self.wrong = map(int, figures.groups()) if figures else (0, 0, 0, 0)
        if last := LAST_WORDS.search(outcome.stdout):
            self.operations, self.allocations, self.faults = map(int, last.groups())

    def good(self):
        if self.wanted_good:
            return self.outcome.code == 0 and self.operations > 0
        return self.outcome.code != 0 and self.faults + self.wrong > 0  # a lost capture or context may also hang it

    def result(self):
        if self.good():
            return "as plain" if self.wanted_good else "caught"
        return f"NOT GOOD, code {self.outcome.code}" if self.wanted_good else f"NOT CAUGHT, code {self.outcome.code}"

    def cells(self):
        return (self.name, f"{self.operations:,}", f"{self.allocations:,}", f"{self.faults}", f"{self.wrong:,}", self.result())


def run(build, name, config, seconds, devices, threads, seed, mutant=None):
    with tempfile.TemporaryDirectory(prefix="gpumem-twin.") as folder:
        env = {"GPUMEM_SIMULATED_STRICT": None}
        if config is not None:
            path = pathlib.Path(folder) / "chain.toml"
            path.write_text(CONFIGS[config])
            library = "libgpumem.so" if mutant is None else "libgpumem_mutant.so"
            env.update(LD_PRELOAD=build.preload(library), GPUMEM_CONFIG=str(path), GPUMEM_STATE_DIR=folder, GPUMEM_REPORT="none")
        if mutant is not None:
            env["TEST_MUTANT"] = mutant
        command = [build.program("random_program" if build.simulated else "random_program.driver"), str(seed), str(OPERATIONS), str(threads), "--seconds", str(seconds),
                   "--devices", str(devices), *options_of(config)]
        outcome = build.run(command, env=env, timeout=seconds + 90)
    return Row(name, outcome, wanted_good=mutant in (None, "none"))


class ShownRow:
    """A seeded bug that a program of its own shows, beside the same without the bug."""

    def __init__(self, build, name, program, arguments, config):
        command = [build.program(program), *arguments]
        env = {"LD_PRELOAD": build.preload("libgpumem_mutant.so")}
        if config is not None:
            env["GPUMEM_CONFIG"] = str(PROGRAM_CONFIGS / f"{config}.toml")
        plain = build.run(command)
        clean = harness.differences(plain, build.run(command, preload=True, env={**env, "TEST_MUTANT": "none"}))
        shown = []
        for _ in range(5):                       # where two threads race the bug does not show in each run
            shown = shown or harness.differences(plain, self.run_with_bug(build, command, env, name))
        self.name, self.wanted_good, self.clean, self.shown = f"mutant {name}", False, clean, shown
        self.operations = self.faults = self.wrong = 0
        self.told = f"plain code {plain.code}\nwithout the bug: {clean}\nwith it: {shown}\n"
        self.program = program

    @staticmethod
    def run_with_bug(build, command, env, name):
        return build.run(command, preload=True, env={**env, "TEST_MUTANT": name}, timeout=60)

    def good(self):
        return not self.clean and bool(self.shown)

    def cells(self):
        found = "caught" if self.good() else "NOT CAUGHT" if not self.shown else "NOT CLEAN"
        return (self.name, "", "", "", "", f"{found} by {self.program}")


def jobs(given, chains):
    """(name, chain, seconds, devices, threads, mutant) of each run."""
    parts = given.parts.split(",")
    devices = [given.devices] if given.devices == 1 else [given.devices, 1]
    if "plain" in parts:
        for d in devices:
            yield f"plain, {d} devices", None, max(4, given.seconds // 12), d, 4, None
    if "chains" in parts:
        each = max(4, given.seconds * 7 * given.parallel // (12 * len(chains)))
        for number, chain in enumerate(chains):
            yield chain, chain, each, devices[number % 5 == 4 and len(devices) > 1], THREADS[number % 3], None
    if "mutants" in parts:
        names = [name for name in mutants() if name not in {*NOT_HERE, *SHOWN_BY} and (given.devices > 1 or name not in TWO_DEVICES)]
        each = max(8, given.seconds * 4 * given.parallel // (12 * len(names)))
        for number, name in enumerate(["none", *names]):
            yield f"mutant {name}", CHAIN_OF.get(name, "pool"), each, given.devices, THREADS[number % 2], name


def table(rows, heading):
    cells = [("run", "operations", "allocations", "faults", "wrong words", "result"), *(row.cells() for row in rows)]
    widths = [max(len(line[i]) for line in cells) for i in range(6)]
    lines = [heading, ""]
    for number, line in enumerate(cells):
        lines.append("| " + " | ".join(text.ljust(width) if i in (0, 5) else text.rjust(width)
                                       for i, (text, width) in enumerate(zip(line, widths))) + " |")
        if number == 0:
            lines.append("|" + "|".join("-" * (width + 2) for width in widths) + "|")
    total = sum(row.operations for row in rows if row.wanted_good)
    wrong = sum(row.wrong for row in rows if row.wanted_good)
    faults = sum(row.faults for row in rows if row.wanted_good)
    lines += ["", f"{total:,} operations without a seeded bug, {faults} faults, {wrong} wrong words"]
    return "\n".join(lines) + "\n"


def device_name():
    try:
        command = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
        lines = subprocess.run(command, capture_output=True, text=True, timeout=30).stdout.splitlines()
        return f"{len(lines)} x {lines[0]}" if lines else "no device"
    except OSError:
        return "simulated CUDA"


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--build", default=str(ROOT / "build"))
    options.add_argument("--seconds", type=int, default=120)
    options.add_argument("--parts", default="plain,chains,mutants")
    options.add_argument("--chains", default="")
    options.add_argument("--devices", type=int, default=2)
    options.add_argument("--parallel", type=int, default=2)
    options.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 20))
    options.add_argument("--simulated", action="store_true", help="the same host code on the simulated CUDA")
    options.add_argument("--markdown")
    given = options.parse_args()
    build = harness.Build(given.build, simulated=given.simulated)
    chains = given.chains.split(",") if given.chains else [name for name in CONFIGS if name not in NEEDS_OTHER_DEVICES]
    rows = []
    with concurrent.futures.ThreadPoolExecutor(given.parallel) as workers:
        pending = [workers.submit(run, build, name, chain, seconds, devices, threads, given.seed + number, mutant)
                   for number, (name, chain, seconds, devices, threads, mutant) in enumerate(jobs(given, chains))]
        if "mutants" in given.parts.split(","):
            pending += [workers.submit(ShownRow, build, name, *how) for name, how in SHOWN_BY.items()]
        for number, each in enumerate(pending):
            row = each.result()
            rows.append(row)
            print("  ".join(row.cells()), flush=True)
            if not row.good():
                print(f"  seed {given.seed + number}:\n{row.told}", flush=True)
    text = table(rows, f"Random programs with kernels, {device_name()}, first seed {given.seed}")
    print("\n" + text, end="")
    if given.markdown:
        pathlib.Path(given.markdown).write_text(text)
    sys.exit(0 if all(row.good() for row in rows) else 1)


main()
