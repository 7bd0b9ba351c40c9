"""Random configurations as a user meets them: the program `gpumem check`, the preload library, a whole program.

random_configurations.py BUILD. GPUMEM_TEST_CONFIGURATIONS of them from GPUMEM_TEST_SEED on; fuzz.buildable tries many more
in one process. What check refuses it refuses with a place in the file; under what it accepts every chain is built, and a
program that gets its memory prints what it prints alone.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import harness

SURROUNDINGS = {"GPUMEM_SIMULATED_PAGEABLE": "1"}


def fault(build, seed, plain, folder):
    """What is wrong with this one, and whether its program got all that it asked for."""
    path = folder / f"{seed}.toml"
    writer = build.folder / "tests" / "fuzz" / "config" / "random_configuration"
    path.write_bytes(subprocess.run([writer, str(seed), folder], capture_output=True, check=True).stdout)
    checked = subprocess.run([build.tool, "check", path, "--device-memory", "16 GiB"], env=build.environment(),
                             capture_output=True, text=True, timeout=60)
    if checked.returncode == 2:
        placed = re.search(rf"^{re.escape(str(path))}:[0-9]+:[0-9]+: error\[E[0-9]+\]", checked.stderr, re.M)
        return ("" if placed else f"refused without a place: {checked.stderr}"), False
    if checked.returncode != 0:
        return f"check ended with {checked.returncode}: {checked.stderr}", False
    done = build.run([build.program("every_kind.shared")], preload=True, cwd=folder,
                     env={**SURROUNDINGS, "GPUMEM_CONFIG": str(path)})
    unbuilt = "could not be built" in done.stderr and "such a chain is not built" not in checked.stdout
    if unbuilt or not isinstance(done.code, int) or done.code < 0:
        return f"code {done.code}: {done.stderr}", False
    if done.code == 0 and (done.stdout != plain.stdout or not done.reports):
        return f"differs: {done.stdout}{done.stderr}", False
    return "", done.code == 0


def main():
    build = harness.Build(sys.argv[1])
    first = int(os.environ.get("GPUMEM_TEST_SEED", "1"))
    count = int(os.environ.get("GPUMEM_TEST_CONFIGURATIONS", "30"))
    plain = build.run([build.program("every_kind.shared")], env=SURROUNDINGS)
    served = 0
    with tempfile.TemporaryDirectory(prefix="gpumem-random.") as name:
        for seed in range(first, first + count):
            text, good = fault(build, seed, plain, pathlib.Path(name))
            served += good
            assert not text, f"seed {seed}: {text}"
    print(f"{count} configurations, {served} programs had all of their memory from them")
    assert served > count // 6, "too few programs ran: this tests nothing"


main()
