"""docs/examples on a GPU, each without gpumem and preloaded: RMM's containers, thrust, cuda::buffer, C, Python, and RMM's own pool beside gpumem.

What travels lies in <build>/gpu/interfaces (scripts/cccl.sh --gpu). Without the library CUDA serves; preloaded the rule "scratch" of
docs/examples/chains.toml must have served what was asked by that name. Used by run.py.
"""
import pathlib
import re
import sys

import harness

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "docs" / "examples"
CHAINS = {"GPUMEM_CONFIG": str(EXAMPLES / "chains.toml")}
NUMBERS = r"the same numbers: yes\n"
# What is said without the library, and with it; requests by the name at least.
PROGRAMS = {
    "asks": (r"the round is done\n", r"the round needed 48 MiB\n", 1),
    "buffers": (r"the same numbers: yes, counted by RMM: 8000 bytes\n",) * 2 + (3,),
    "sort": (r"sorted: yes\n",) * 2 + (200,),
    "cuda_buffer": (NUMBERS, NUMBERS, 1),
    "memory_resource": (r"CCCL [\d.]+\ngpumem: out of device memory\n0 wrong\n",) * 2 + (10,),
}
SCRIPTS = {
    "phase.py": (r"done\n", r"forward: at most 320 MiB, left 20 MiB, 2 allocations\nbackward: at most 100 MiB, left 80 MiB, 1 allocations\ndone\n"),
    "rmm_beside.py": (r"RMM handed out 10 MiB\n", r"RMM handed out 10 MiB\ngpumem served \d+ MiB in \d+ blocks: RMM's pool\n"),
}


def served_by_name(outcome):
    if not outcome.reports:
        return 0
    return sum(node["requests"] for chain in outcome.reports[0]["chains"] if chain["route"] == "rules" for node in chain["nodes"])


def check(build, table, name, command, wanted, least, env):
    plain = build.run(command, env=env, timeout=60)
    if re.search(r"ModuleNotFoundError: No module named '(rmm|cuda|numpy)|libcudart.so.13: cannot open", plain.stderr):
        return table.add(name, "SKIP", note=plain.stderr.strip().splitlines()[-1][:80])
    loaded = build.run(command, preload=True, env={**env, **CHAINS}, timeout=60)
    faults = [f"{what}: code {outcome.code}, {outcome.stdout!r}, {outcome.stderr[-500:]!r}"
              for what, outcome, said in (("plain", plain, wanted[0]), ("preloaded", loaded, wanted[1]))
              if outcome.code != 0 or not re.fullmatch(said, outcome.stdout)]
    requests = served_by_name(loaded)
    if requests < least:
        faults.append(f"{requests} requests by the name, wanted {least}")
    for report in loaded.reports:
        faults += harness.ledger_faults(report)
    table.add(name, "FAIL" if faults else "PASS", f"{plain.seconds:.2f} s", f"{loaded.seconds:.2f} s", f"{requests} requests by the name", faults)


def jobs(build, table, _config_file, _rounds):
    folder = build.folder / "gpu" / "interfaces"
    libraries = {"LD_LIBRARY_PATH": f"{folder}:/usr/local/cuda/lib64"}
    rows = []
    for path in sorted(folder.glob("*")):
        kind = path.name.partition(".")[0]
        if kind in PROGRAMS:
            *wanted, least = PROGRAMS[kind]
            rows.append((f"interface {path.name}", [str(path)], wanted, least, libraries))
    for script, wanted in SCRIPTS.items():
        env = {**libraries, "PYTHONPATH": f"{ROOT / 'shim' / 'python'}:{folder / 'python'}", "PYTHONDONTWRITEBYTECODE": "1"}
        rows.append((f"interface {script}", [sys.executable, str(EXAMPLES / script)], wanted, 0, env))
    if not folder.is_dir():
        return [("interfaces", lambda: table.add("interfaces", "SKIP", note="none gathered (scripts/cccl.sh --gpu)"))]
    return [(row[0], lambda row=row: check(build, table, *row)) for row in rows]
