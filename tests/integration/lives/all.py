"""Every comparison of a program in the second and in the third life of its contexts; by hand, as it takes a quarter of an hour.

all.py BUILD [--lives 1,2] [--only PATTERN] [--chains A,B] [--jobs N] [--handles-again]: the comparisons that ctest has (integration.programs), as they are and, with --chains,
each program and its arguments that has no chain of its own under those of programs/configs. Prints what differs, but for what does in the
first life as well.
"""
import argparse
import concurrent.futures
import json
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
# Not in a later life: a child of fork may not use CUDA once its parent did; a context of before main; of one_stream the first
# context is to be the only one; a limit that is less than the earlier lives take.
NOT_LATER = re.compile(r"forks\.\w+\.(before|daemon)|early_program|one_stream|handles_again\.driver\.arrays")
CONFIGS = HERE.parent / "programs" / "configs"


def comparisons(build, pattern):
    """Names, and commands: Python, its option, compare.py, build folder, the rest."""
    listed = subprocess.run(["ctest", "--test-dir", build, "--show-only=json-v1", "-R", "^integration.programs"], check=True, capture_output=True)
    for test in json.loads(listed.stdout)["tests"]:
        command = test.get("command", [])
        if len(command) > 3 and command[2].endswith("programs/compare.py") and re.search(pattern, test["name"]) and not NOT_LATER.search(test["name"]):
            yield test["name"], command


def run(job):
    name, command = job
    def compared(how):
        try:
            done = subprocess.run(how, capture_output=True, text=True, timeout=400)
            return done.returncode, done.stdout + done.stderr
        except subprocess.TimeoutExpired:
            return -1, "timeout"

    code, said = compared(command)
    if code != 0 and compared([*command[:4], *command[6:]])[0] != 0:  # without --lives N
        return name, command, 0, "differs in the first life as well"
    return name, command, code, said


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--lives", default="1,2")
    parser.add_argument("--only", default="")
    parser.add_argument("--chains", default="")
    parser.add_argument("--handles-again", action="store_true", help="the next context gets the handle of the one that ended last")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    jobs = []
    for name, command in comparisons(options.build, options.only):
        for lives in options.lives.split(","):
            again = ["--simulated", "HANDLES_AGAIN=1"] if options.handles_again else []
            after = [*command[:4], "--lives", lives, *again, *command[4:]]
            jobs.append((f"{name} after {lives}", after))
            for chain in options.chains.split(",") if options.chains and "--config" not in command else ():
                jobs.append((f"{name} after {lives} over {chain}", [*after[:6], "--config", str(CONFIGS / f"{chain}.toml"), *after[6:]]))
    failed = as_in_the_first = 0
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for name, command, code, said in pool.map(run, jobs):
            as_in_the_first += said.startswith("differs in")
            if code != 0:
                failed += 1
                print(f"FAILED {name}: {' '.join(command[1:])}\n{said}", flush=True)
    print(f"{len(jobs)} comparisons, {failed} differ, and {as_in_the_first} as in the first life")
    sys.exit(1 if failed else 0)


main()
