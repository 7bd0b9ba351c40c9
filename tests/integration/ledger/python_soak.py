"""Python that begins and ends again and again, with interpreters beside the main one, threads, forks, exec and cancellation: no crash,
no hang, and no frame that is none. The program is python_host.cpp; each libpython from 3.9 on that is found runs it.

python_soak.py BUILD [test...] is the short form (see harness.main); python_soak.py BUILD --seconds N [--seed N] [--only TEXT] soaks each
version (whose name has that text) for N seconds and prints a table.
"""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import harness


# Of the most that a version bears without gpumem.
RESULTS = {2: "ends well", 0: "ends well, without interpreters beside the main one", -1: "ends well, initialized once"}


def libraries():
    """Of each version its libpython, and the folder of its modules."""
    found = {}
    places = [(path, path.parent.parent) for path in sorted(pathlib.Path.home().glob(".pyenv/versions/3.*/lib/libpython3.*.so.1.0"))]
    places += [(path, pathlib.Path("/usr")) for path in sorted(pathlib.Path("/usr/lib").glob("*/libpython3.*.so.1.0"))]
    for path, home in places:
        minor = re.fullmatch(r"libpython3\.(\d+)(d?)\.so\.1\.0", path.name)
        if minor and int(minor.group(1)) >= 9:
            found[f"{home.name if home.name != 'usr' else f'3.{minor.group(1)}, system'}{', debug' if minor.group(2) else ''}"] = (path, home)
    return found


def run(build, library, home, seconds, seed, interpreters, preload):
    """The outcome, and what became of the recording."""
    with tempfile.TemporaryDirectory(prefix="gpumem-soak.") as folder:
        config = pathlib.Path(folder) / "chain.toml"
        config.write_text('version = 1\n[report]\nsample_every = "4 KiB"\n')
        env = {"PYTHONHOME": str(home), "LD_PRELOAD": str(library)}
        if preload:
            env.update({"LD_PRELOAD": f"{build.preload()}:{library}", "GPUMEM_CONFIG": str(config), "GPUMEM_RECORD": f"{folder}/recording.%p.%x"})
        done = build.run([build.program("python_host.shared"), str(seconds), str(seed), str(interpreters)], preload=preload, env=env, cwd=folder,
                         timeout=seconds * 3 + 100)
        recordings = [json.loads(subprocess.run([build.program("recording_ledger"), path], capture_output=True, text=True, check=True).stdout)
                      for path in pathlib.Path(folder).glob("recording.*")]
        return done, recordings


def oldest_newest_and_systems():
    def number(version):
        return [int(part) for part in re.findall(r"\d+", version)]
    names = sorted(libraries(), key=number)
    return {*names[:1], *names[-1:], *(name for name in names if name.endswith("system"))}


def soaked(build, seconds, seed, only="", versions=None):
    """A row for each version."""
    for version, (library, home) in libraries().items():
        if only not in version or (versions is not None and version not in versions):
            continue
        for interpreters in (2, 0, -1):
            plain, _ = run(build, library, home, max(1, seconds / 4), seed, interpreters, False)
            if plain.code == 0:
                break
        if plain.code != 0:
            yield {"version": version, "result": f"Python itself ends with {plain.code}", "frames": 0, "of": "-", "events": 0}
            continue
        done, recordings = run(build, library, home, seconds, seed, interpreters, True)
        harness.equal(done.code, 0, f"{version}, seed {seed}: {done.stdout}{done.stderr[-3000:]}")
        sites = [site for report in done.reports for site in report["samples"]["sites"]]
        files = {frame["file"] for site in sites for frame in site["python"]}
        functions = {frame["function"] for site in sites for frame in site["python"]}
        bad = [file for file in files if file != "<string>" and not file.endswith(".py") and not file.startswith("<frozen")]
        harness.equal(bad, [], f"{version}: files")
        for one in recordings:
            harness.equal((one["faults"], one["contradictions"], one["breaks"], one["state"]), ([], 0, 0, 1), f"{version}: a recording")
        yield {"version": version, "result": RESULTS[interpreters],
               "frames": sum(bool(site["python"]) for site in sites), "of": done.stdout.strip(), "events": sum(one["events"] for one in recordings),
               "functions": functions}


def test_interpreters_come_and_go(build):
    seed = os.environ.get("GPUMEM_TEST_SEED", "1")
    rows = list(soaked(build, 1, int(seed), versions=oldest_newest_and_systems()))  # the others take as long again
    if not rows:
        raise harness.Skipped("no libpython is installed here")
    for row in rows:
        print(f"  {row['version']:16} {row['result']}: {row['of']}, {row['frames']} places in Python, {row['events']:,} events")
        if row["events"]:
            assert {"keep", "work"} <= row["functions"], row


if "--seconds" in sys.argv:
    given = argparse.ArgumentParser()
    given.add_argument("build")
    given.add_argument("--seconds", type=float, default=60)
    given.add_argument("--seed", type=int, default=1)
    given.add_argument("--only", default="")
    wanted = given.parse_args()
    for row in soaked(harness.Build(wanted.build), wanted.seconds, wanted.seed, wanted.only):
        print(f"{row['version']:16} {row['result']:50} {row['of']:50} {row['frames']:5} places {row['events']:12,} events", flush=True)
else:
    harness.main(globals())
