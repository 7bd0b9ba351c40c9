"""The group real_programs: time, peak device memory and fragmentation of programs as people run them. Called by bench.py.

Each program runs with its own allocator, with the driver's, bare, and bare under gpumem. "native" in the ratios is what the
program does by itself; the others without gpumem are its peers. One process after the other for the memory; as a step varies
by a third from process to process, whoever allocates, programs that can take turns do so for the time (in_turns.py).
"""
import collections
import re
import sys
import pathlib
from types import SimpleNamespace

import device_memory
import harness
import in_turns

HERE = pathlib.Path(__file__).resolve().parent
GPU = HERE.parent / "gpu"
EXAMPLES = HERE.parent.parent / "config" / "examples"
TIME = re.compile(r"^time: (.*?) ([\d.]+) (ns|us|ms)$", re.MULTILINE)
BARE = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
# By the names of old and new versions.
BACKEND = {"PYTORCH_ALLOC_CONF": "backend:cudaMallocAsync", "PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"}
TORCH = (("PyTorch's own", "native", False, {}),
         ("bare", "peer", False, BARE),
         ("backend:cudaMallocAsync", "peer", False, BACKEND),
         ("gpumem under bare", "ours", True, BARE),
         ("gpumem under cudaMallocAsync", "ours", True, BACKEND),
         *((f"gpumem {chain} under bare", "ours", True, {**BARE, "GPUMEM_CONFIG": str(EXAMPLES / f"{chain}.toml")})
           for chain in ("compact",)))
# What is told costs: all under gpumem, PyTorch's cache off.
TOLD = (("gpumem, no samples", "native", True, {**BARE, "GPUMEM_CONFIG": str(HERE / "configs" / "no_samples.toml")}),
        ("gpumem", "ours", True, BARE),
        ("recorded on tmpfs", "ours", True, {**BARE, "GPUMEM_RECORD": "/dev/shm/gpumem-told.%p"}),
        ("recorded on a disk", "ours", True, {**BARE, "GPUMEM_RECORD": "/var/tmp/gpumem-told.%p"}),
        ("recorded, the disk stalls", "ours", True, {**BARE, "GPUMEM_RECORD": "/var/tmp/gpumem-stalls.%p"}))
PLATFORM = {"XLA_PYTHON_CLIENT_ALLOCATOR": "platform", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}

# name, file, processes of its own for the memory, variants (name, role, gpumem, environment[, another file])
PROGRAMS = (
    ("thrust sort", "thrust_sort.static", 3,
     (("cudaMalloc", "native", False, {}), ("gpumem", "ours", True, {}),
      ("gpumem one_stream", "ours", True, {"GPUMEM_CONFIG": str(EXAMPLES / "one_stream.toml")}))),
    ("PyTorch training", GPU / "torch_train.py", 1, TORCH),
    ("transformer inference", HERE / "programs" / "transformer.py", 1, TORCH),
    ("CuPy loop", GPU / "cupy_loop.py", 1,
     (("CuPy's own pool", "native", False, {}, HERE / "programs" / "cupy_own_pool.py"), ("bare", "peer", False, {}),
      ("gpumem under bare", "ours", True, {}))),
    ("JAX training", HERE / "programs" / "jax_train.py", 1,
     (("JAX's own, no preallocation", "native", False, {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}),
      ("platform", "peer", False, PLATFORM), ("gpumem under platform", "ours", True, PLATFORM))),
    ("told, PyTorch training", GPU / "torch_train.py", 0, TOLD),
    ("told, transformer inference", HERE / "programs" / "transformer.py", 0, TOLD),
    ("told, 1 GiB a millisecond", HERE / "programs" / "large_requests.py", 0, TOLD),
)

NAMES = [name for name, *_ in PROGRAMS]

# steps a turn, turns, sets of processes, processors (JAX launches from threads of its own, beside its caller)
TURNS = {"PyTorch training": (5, 100, 3, 1), "transformer inference": (2, 25, 3, 1), "CuPy loop": (100, 25, 9, 1),
         "told, PyTorch training": (5, 120, 1, 1), "told, transformer inference": (2, 25, 1, 1), "told, 1 GiB a millisecond": (30, 60, 1, 1),
         "JAX training": (40, 25, 3, 4)}


def group_of(name):
    """What is measured of a program, and what is noted of it, is a group of its own."""
    return f"real_programs: {name}"


def figures(outcome, peak):
    """(metric, unit, value) of one run; what gpumem reports of itself is only there for its own runs."""
    found = [(f"time, {what}", unit, float(value)) for what, value, unit in TIME.findall(outcome.stdout)]
    if peak is not None:
        found.append(("peak device memory", "MiB", peak))
    for report in outcome.reports:
        for device in report.get("devices", []):
            reserved, requested = device["at_peak"]["reserved_bytes"], device["at_peak"]["requested_bytes"]
            if reserved and requested:
                found.append(("gpumem's report: reserved at its peak", "MiB", reserved / 2**20))
                found.append(("gpumem's report: reserved / requested then", "times", reserved / requested))
    return found


def command_of(build, path, variant):
    """(command, preload, environment)"""
    _, _, preload, env, *other = variant
    file = other[0] if other else path
    return [sys.executable, str(file)] if isinstance(file, pathlib.Path) else [build.program(file)], preload, env


def run_once(build, name, path, variant, results, timeout):
    """Figures of one process; None where it failed, harness.SKIP where the program cannot run here."""
    label = variant[0]
    command, preload, env = command_of(build, path, variant)
    with device_memory.Watch() as watch:
        outcome = build.run(command, preload=preload, env=env, timeout=timeout)
    for line in outcome.stderr.splitlines():
        if line.startswith("gpumem: "):
            results.note(group_of(name), label, line)
    if outcome.code == 0:
        return [{"case": name, "metric": metric, "unit": unit, "value": value} for metric, unit, value in figures(outcome, watch.peak)]
    reason = (outcome.stdout + outcome.stderr).strip().splitlines()[-1:] or [""]
    results.note(group_of(name), label, f"exit code {outcome.code}: {reason[0][:160]}")
    results.failed |= outcome.code != harness.SKIP
    return harness.SKIP if outcome.code == harness.SKIP else None


def take_turns(build, name, path, variants, results, time_left):
    """{label: its figures}"""
    commands = {variant[0]: command_of(build, path, variant) for variant in variants}
    found, notes = in_turns.compare(build, commands, *TURNS[name], time_left)
    for note in notes:
        results.note(group_of(name), "all", note)
        results.failed |= "exit code" in note
    return {label: [{"case": name, "metric": metric, "unit": unit, "value": value} for metric, unit, value in values]
            for label, values in found.items()}


def run_program(build, name, path, repeats, variants, results, time_left):
    lines, failed = collections.defaultdict(list), set()
    for repeat in range(repeats):
        if time_left() <= 0:
            results.note(group_of(name), "all", f"repeat {repeat + 1} not started: the time was up")
            break
        for variant in variants:
            if variant[0] in failed:
                continue
            found = run_once(build, name, path, variant, results, timeout=max(5, min(60, time_left())))
            if found == harness.SKIP:
                return
            if found is None:
                failed.add(variant[0])
            # The time of what takes turns is taken then.
            lines[variant[0]] += [line for line in found or [] if name not in TURNS or not line["metric"].startswith("time, ")]
    able = [variant for variant in variants if variant[0] not in failed]
    if name in TURNS and able[:1] == [variants[0]]:
        for label, found in take_turns(build, name, path, able, results, time_left).items():
            lines[label] += found
    (first, *_), *others = variants
    for label, role in ((first, "native"), (in_turns.again(first), "again"), *((label, role) for label, role, *_ in others)):
        before = len(results.records)
        results.add(SimpleNamespace(name=group_of(name), higher_is_better=False),
                    SimpleNamespace(name=label, role=role, pair="program"), lines[label])
        if not lines[label]:
            continue
        medians = (f"{x['metric']} {x['value']:.4g} {x['unit']}" for x in results.records[before:])
        print(f"  {name}, {label}: " + ", ".join(medians), flush=True)


def run_group(build, wanted, results, time_left, save):
    """Those programs whose name has one of the texts `wanted` in it; what is measured of one survives a stop during the next."""
    for program in PROGRAMS:
        if not any(text in program[0] for text in wanted):
            continue
        if time_left() <= 0:
            results.note(group_of(program[0]), "all", "not started: the time was up")
        else:
            run_program(build, *program, results, time_left)
            save()
