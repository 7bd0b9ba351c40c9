"""The random program over one chain, in a sanitizer build or one for another processor: random_chain.py BUILD CHAIN [SEED...].

Fails on what the sanitizer says, and on all that random_programs.py fails on. The refusals of exports, which the library
says as it should, are the only words allowed.
"""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import harness
from random_run import run

OPERATIONS = 5_000
EMULATED = 1_500  # an operation takes several times as long there
REFUSED = "gpumem: warning: cuIpcGetMemHandle of a block of gpumem gave 1: "


def main():
    build = harness.Build(sys.argv[1])
    assert build.sanitized or build.emulator, f"{build.folder} is a plain build"
    for seed in sys.argv[3:] or ("1",):
        outcome = run(build, seed, EMULATED if build.emulator else OPERATIONS, sys.argv[2])
        words = [line for line in outcome.stderr.splitlines() if not line.startswith(REFUSED)]
        if outcome.code != 0 or words or not outcome.report:
            print(f"seed {seed}: code {outcome.code}, report {outcome.report}\n{outcome.stdout}{outcome.stderr}")
            sys.exit(1)
        print(f"seed {seed}: {outcome.figures[0]} allocations")


main()
