"""Random programs with new seeds under every chain until the time is over; what scripts/soak.sh and the short test run.

soak.py BUILD SECONDS [FIRST_SEED]. Prints what was run, and stops with the seed and the command of the first failure.
"""
import collections
import pathlib
import random
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import harness
from random_run import CONFIGS, CROWDED_DEVICE, INTERLEAVED, SMALL_DEVICE, run

OPERATIONS = 50_000
ENVIRONMENTS = (({}, ()), (SMALL_DEVICE, ()), (CROWDED_DEVICE, ("--crowded",)), ({"GPUMEM_SIMULATED_DEVICES": "1"}, ()),
                ({"GPUMEM_SIMULATED_DEVICES": "4"}, ()))
THREADS = (2, 4, 8)
RARE_STEPS = 17  # of the program, one of which comes often
# Each with the library as it is, and with one whose threads come between one another everywhere.
LIBRARIES = (("libgpumem.so", {}), ("libgpumem_mutant.so", INTERLEAVED))


def fail(outcome, command, figures):
    print(f"FAILED: {command}\ncode {outcome.code}\n{outcome.stdout[-3000:]}{outcome.stderr[-3000:]}")
    print(f"before it: {figures}")
    sys.exit(1)


def main():
    build = harness.Build(sys.argv[1])
    seconds = float(sys.argv[2])
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else random.SystemRandom().randrange(1 << 24)
    first = seed
    begin = time.monotonic()
    total = collections.Counter()
    by_config = collections.Counter()
    while time.monotonic() - begin < seconds:
        # Each chain, then each of the others: all combinations come in turn, whatever the first seed.
        turn = seed - first
        rounds, at = divmod(turn, len(CONFIGS))
        config = list(CONFIGS)[at]
        rounds, at = divmod(rounds, len(LIBRARIES))
        library, interleaved = LIBRARIES[at]
        rounds, at = divmod(rounds, len(ENVIRONMENTS))
        env, options = ENVIRONMENTS[at]
        env = {**env, **interleaved}
        rounds, at = divmod(rounds, len(THREADS))
        threads = THREADS[at]
        # Every second time all chains, each with another step than the time before.
        times, at = divmod(turn, len(CONFIGS))
        if times % 2 == 1:
            options = (*options, "--often", str((at + times // 2) % RARE_STEPS))
        outcome = run(build, seed, OPERATIONS, config, library, threads, env, timeout=120, options=options)
        allocations, operations, faults, hazards = outcome.figures
        total.update(runs=1, allocations=allocations, operations=operations, faults=faults, hazards=hazards)
        if outcome.code != 0 or operations < OPERATIONS or not outcome.report:
            extra = " ".join(f"{key}={value}" for key, value in env.items())
            command = " ".join(("random_program", str(seed), str(OPERATIONS), str(threads), *options))
            fail(outcome, f"{extra} {command} under {config}, {library}", dict(total))
        by_config[config] += operations
        seed += 1
    print(f"soak: {time.monotonic() - begin:.0f} s, seeds {first} to {seed - 1}, {total['runs']} runs of {OPERATIONS} operations")
    print(f"operations {total['operations']:,}  allocations {total['allocations']:,}  faults {total['faults']}  "
          f"hazards {total['hazards']}")
    for config, operations in by_config.items():
        print(f"  {config:<22} {operations:>14,} operations")
    if total["runs"] == 0:
        print("nothing was run: the time was too short")
        sys.exit(1)


main()
