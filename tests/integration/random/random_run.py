"""One run of the random program: its chains, its environment, what it printed. Used by random_programs.py, mutants.py and
soak.py; runs nothing by itself.
"""
import json
import pathlib
import re
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import harness

CONFIGS = {
    "pool": 'version = 1\n[route]\ndevice = ["pool", "cuda"]\n',
    "small_pool": 'version = 1\n[route]\ndevice = ["pool", "cuda"]\n[resource.pool]\nmaximum_pool_size = "6 GiB"\n'
                  'release_threshold = "64 MiB"\n',
    "binning": 'version = 1\n[route]\ndevice = ["binning", "pool", "cuda"]\n[resource.binning]\n'
               'bins = [ { max = "1 KiB" }, { max = "64 KiB" }, { max = "1 MiB" } ]\n',
    "pool_over_cuda_async": 'version = 1\n[route]\ndevice = ["pool", "cuda_async"]\n',
    "pool_over_vmm": 'version = 1\n[route]\ndevice = ["pool", "vmm"]\n[resource.pool]\nmaximum_pool_size = "6 GiB"\n'
                     'release_threshold = "64 MiB"\n',
    "compact": 'version = 1\n[route]\ndevice = ["pool", "cuda"]\n[resource.pool]\nsparing_beyond = "0 B"\n',
    "compact_vmm": 'version = 1\n[route]\ndevice = ["pool", "vmm"]\n[resource.pool]\nsparing_beyond = "0 B"\n',
    "vmm": 'version = 1\n[route]\ndevice = ["vmm"]\n',
    "pool_over_system": 'version = 1\n[route]\ndevice = ["pool", "system"]\n',
    "aligned": 'version = 1\n[route]\ndevice = ["aligned", "pool", "cuda"]\n[resource.aligned]\nalignment = "64 KiB"\n',
    "arena": 'version = 1\n[route]\ndevice = ["arena", "cuda"]\n',
    # Memory goes back all the time.
    "returning": 'version = 1\n[route]\ndevice = ["pool", "cuda"]\nmanaged = ["managed_pool", "managed"]\n'
                 'host = ["managed_pool", "pinned_host"]\n[resource.pool]\nrelease_after = "1 ms"\nearned_from = "256 KiB"\n'
                 '[resource.managed_pool]\ntype = "pool"\nrelease_after = "1 ms"\nearned_from = "64 KiB"\n',
    "returning_arena": 'version = 1\n[route]\ndevice = ["arena", "cuda"]\n[resource.arena]\nrelease_after = "1 ms"\n'
                       'earned_from = "256 KiB"\n',
    "small_arena": 'version = 1\n[route]\ndevice = ["arena", "cuda"]\n[resource.arena]\narena_size = "6 GiB"\n'
                   'per = "thread"\n',
    "limited": 'version = 1\n[route]\ndevice = ["limiting", "pool", "cuda"]\n[resource.limiting]\n'
               'allocation_limit = "5 GiB"\nreport_as_total = true\n',
    "spilling": 'version = 1\n[route]\ndevice = ["fallback"]\nmanaged = ["managed"]\n[resource.fallback]\n'
                'chains = [["limiting", "pool", "cuda"], ["managed_pool", "managed"]]\n'
                '[resource.limiting]\nallocation_limit = "300 MiB"\n[resource.managed_pool]\ntype = "pool"\n',
    "pool_over_spilling": 'version = 1\n[route]\ndevice = ["pool", "fallback"]\nmanaged = ["managed"]\n'
                          '[resource.fallback]\nchains = [["limiting", "cuda"], ["managed"]]\n[resource.limiting]\nallocation_limit = "300 MiB"\n',
    # Each that looks on, twice: what one of them writes, takes or notes is not the program's.
    "watched": 'version = 1\n[route]\ndevice = ["guard", "tracking", "statistics", "limiting", "logging", "lower_guard", "lower_tracking", '
               '"lower_statistics", "lower_limiting", "lower_logging", "pool", "cuda"]\n[resource.guard]\nredzone = "700 B"\nfill_on_alloc = false\n'
               'fill_on_free = false\n[resource.lower_guard]\ntype = "guard"\nfill_on_alloc = false\n[resource.lower_tracking]\ntype = "tracking"\n'
               '[resource.lower_statistics]\ntype = "statistics"\n[resource.limiting]\nallocation_limit = "6 GiB"\n'
               '[resource.lower_limiting]\ntype = "limiting"\nallocation_limit = "6 GiB"\n[resource.logging]\nfile = "/dev/null"\n'
               '[resource.lower_logging]\ntype = "logging"\nfile = "/dev/null"\n',
    "cuda": 'version = 1\n[route]\ndevice = ["cuda"]\nhost = ["pinned_host"]\n',
    "cuda_async": 'version = 1\n[route]\ndevice = ["cuda_async"]\n',
    "synchronize": 'version = 1\n[route]\ndevice = ["pool", "cuda"]\n[behavior]\nfree = "synchronize"\n',
    "one_stream": 'version = 1\n[route]\ndevice = ["pool", "cuda"]\n[behavior]\nfree = "one_stream"\n',
    "program_pools": 'version = 1\n[route]\ndevice = ["pool", "cuda"]\npools = true\n',
    "managed_and_host": 'version = 1\n[route]\ndevice = ["pool", "cuda"]\n'
                        'managed = ["prefetch", "managed_pool", "managed"]\nhost = ["host_pool", "pinned_host"]\n'
                        '[resource.managed]\nread_mostly = true\n[resource.managed_pool]\ntype = "pool"\n'
                        '[resource.host_pool]\ntype = "pool"\n',
}
# Their requests may wait for the device: plain memory out of the driver's pool is there once its stream has come so far, and
# managed memory can go back by no other call than one that waits.
REQUESTS_WAIT = ("cuda_async", "pool_over_cuda_async", "spilling", "pool_over_spilling")
CALLS_WAIT = ("watched",)  # frees as well: a guard looks at a block when its work is done
OTHER_MEMORY = ("pool_over_system", "spilling", "pool_over_spilling")  # in which a block may lie that was asked for as the device's
NEEDS = {"pool_over_system": {"GPUMEM_SIMULATED_PAGEABLE": "1"}}  # of the device
SMALL_DEVICE = {"GPUMEM_SIMULATED_MEMORY": str(5 << 30)}
# One in some hundred requests is refused natively: each chain gives back what others keep, all the time. With --crowded.
CROWDED_DEVICE = {"GPUMEM_SIMULATED_MEMORY": str(640 << 20), "GPUMEM_SIMULATED_DEVICES": "1"}
# Around each call of the simulated driver, with libgpumem_mutant.so everywhere: what needs a window of some nanoseconds happens in minutes (core/base/threads/interleave.hpp).
INTERLEAVED = {"TEST_INTERLEAVE": "1"}
WRONG_FIGURES = 90  # a run that was clean, but for its report
FIGURES = re.compile(r"allocations (\d+) operations (\d+) faults (\d+) hazards (\d+)")


def options_of(config):
    """What the program is to know of its chain."""
    waits = ("--calls-wait",) if config in CALLS_WAIT else ("--requests-wait",) if config in REQUESTS_WAIT else ()
    return (*waits, "--other-memory") if config in OTHER_MEMORY else waits


def figures_that_disagree(folder):
    """Of the reports in `folder`: with one another, and with what the simulated driver of the process knew at its end. The program
    writes nothing behind its blocks: nobody says that it did."""
    faults = []
    for path in folder.glob("figures.*.json"):
        truth = folder / path.name.replace("figures", "simulated")
        known = json.loads(truth.read_text()) if truth.exists() else None
        report = json.loads(path.read_text())
        faults += harness.ledger_faults(report, known, peaks=False)
        faults += [f"{misuse['kind']} at {misuse['address']:#x}" for misuse in report["misuses"] if "damaged_bytes" in misuse]
    return faults


def run(build, seed, operations, config, library="libgpumem.so", threads=4, env=None, timeout=120,
        program="random_program", options=()):
    """`config` names the chain; None: a plain run. `options`: more of the program's arguments. The outcome has `figures`, as FIGURES, and `report`, if one was written."""
    with tempfile.TemporaryDirectory(prefix="gpumem-random.") as folder:
        path = pathlib.Path(folder) / "chain.toml"
        extra = {"GPUMEM_SIMULATED_STRICT": None, "GPUMEM_SIMULATED_DEVICES": "3", **NEEDS.get(config, {})}
        extra.update(env or {})
        if config is not None:
            path.write_text(CONFIGS[config])
            extra.update(LD_PRELOAD=build.preload(library), GPUMEM_CONFIG=str(path),
                         GPUMEM_STATE_DIR=folder, GPUMEM_REPORT=str(pathlib.Path(folder) / "report.%p"),
                         GPUMEM_SIMULATED_LEDGER=str(pathlib.Path(folder) / "simulated.%p.json"))
            extra.setdefault("GPUMEM_JSON", str(pathlib.Path(folder) / "figures.%p.json"))
        command = [build.program(program), str(seed), str(operations), str(threads), *options_of(config), *options]
        outcome = build.run(command, env=extra, timeout=timeout)
        outcome.report = any(pathlib.Path(folder).glob("report.*"))
        faults = figures_that_disagree(pathlib.Path(folder))
        if outcome.code == 0 and faults:
            outcome.code, outcome.stderr = WRONG_FIGURES, "\n".join([outcome.stderr, *faults])
        found = FIGURES.search(outcome.stdout)
        outcome.figures = [int(figure) for figure in found.groups()] if found else [0, 0, 0, 0]
        return outcome
