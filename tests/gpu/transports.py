"""Memory of gpumem's through transports of others: UCX's cuda_ipc, and Open MPI's smcuda, which keep registrations and mappings over
many lives of an address. Each version and chain: rounds of allocate, stamp, send, verify, free, and not one wrong word.

What travels lies in <build>/others (scripts/others.sh): ucx/<version> with its libraries, openmpi/. A chain that may not export
must still deliver, as they then copy through the host; one that may export has to have done so, or the row proves nothing. Used by run.py.
"""
import os
import re

# Chains that end with cuda may export; the others may not.
EXPORTING = ("", "binning", "arena", "direct", "compact", "small_pool")
OTHERS = ("pool_over_vmm", "pool_over_cuda_async", "compact_vmm")
TOLD = re.compile(r"(?:exporter|importer): exported (\d+) refused (\d+) opened (\d+)")


class Transport:
    """One library: how a program is started with it. `sees`: the program itself sees the calls that it makes of the driver."""

    def __init__(self, name, command, env, sees):
        self.name, self.command, self.env, self.sees = name, command, env, sees


def ucx(build, version, scheme):
    folder = build.folder / "others" / "ucx" / version
    env = {"LD_LIBRARY_PATH": f"{folder}:" + os.environ.get("LD_LIBRARY_PATH", ""), "UCX_MODULE_DIR": str(folder / "ucx"),
           "UCX_TLS": "cuda_ipc,cuda_copy,sm,self", "UCX_RNDV_SCHEME": scheme, "UCX_WARN_UNUSED_ENV_VARS": "n",
           # Without it UCX copies through the host wherever it finds no NVLink, as in a virtual machine with one GPU.
           "UCX_CUDA_IPC_ENABLE_GET_ZCOPY": "y"}
    return Transport(f"UCX {version} {scheme.split('_')[0]}", [build.program("ucx_rounds")], env, True)


def open_mpi(build):
    folder = build.folder / "others" / "openmpi"
    env = {"LD_LIBRARY_PATH": f"{folder}/lib:" + os.environ.get("LD_LIBRARY_PATH", ""), "OPAL_PREFIX": str(folder)}
    options = ["--allow-run-as-root", "--oversubscribe", "-n", "2"]
    for name, value in (("btl", "smcuda,self"), ("pml", "ob1"), ("plm_rsh_agent", "false")):
        options += ["--mca", name, value]
    return Transport("Open MPI", [str(folder / "bin" / "mpirun"), *options, build.program("mpi_rounds")], env, False)


def calls_of(outcome, names):
    """Successful calls in the reports of all processes."""
    hooks = [hook for report in outcome.reports for hook in report["intercept"]["hooks"]]
    return sum(hook["calls"] - hook.get("failed", 0) for hook in hooks if hook["symbol"] in names)


def read(outcome):
    """Wrong words (None: it did not end), microseconds a round; handles exported, refused, opened."""
    wrong = re.search(r"(\d+) rounds, (\d+) wrong", outcome.stdout)
    time = re.search(r"a round (\d+) us", outcome.stdout)
    told = [sum(int(row[i]) for row in TOLD.findall(outcome.stderr)) for i in range(3)]
    return int(wrong[2]) if wrong and outcome.code == 0 else None, int(time[1]) if time else 0, told


def errors(outcome):
    return [line for line in outcome.stderr.splitlines() if " ERROR " in line or "rror" in line]


def last_words(outcome):
    lines = [line for line in outcome.stderr.splitlines() if not TOLD.match(line)]
    return [f"exit code {outcome.code}", *lines[-4:]]


def compare(build, table, transport, arguments, configs, config_file):
    command = [*transport.command, *arguments]
    name = f"{transport.name} {' '.join(arguments)}"
    plain = build.run(command, env=transport.env, timeout=150)
    wrong, native, (exported, refused, opened) = read(plain)
    faults = [] if wrong == 0 else [f"plain: {wrong} wrong", *last_words(plain)]
    table.add(f"{name}, plain", "FAIL" if faults else "PASS", f"{native} us", "", f"exported {exported}, opened {opened}; {native} us a round", faults)
    if faults:
        return
    used = opened > 0 or not transport.sees
    for config in configs:
        env = dict(transport.env, **({"GPUMEM_CONFIG": config_file(config)} if config else {}))
        loaded = build.run(command, preload=True, env=env, timeout=150)
        wrong, own, (exported, refused, opened) = read(loaded)
        if not transport.sees:
            exported = calls_of(loaded, ("cuIpcGetMemHandle",))
            opened = calls_of(loaded, ("cuIpcOpenMemHandle", "cuIpcOpenMemHandle_v2"))
        faults = [] if wrong == 0 else [f"{wrong} wrong", *last_words(loaded)]
        if used and config in EXPORTING and "async" not in arguments and not opened:
            faults.append("memory was not exported, as it is plain")
        if errors(loaded) and not errors(plain):
            faults += errors(loaded)[:2]
        if not loaded.reports:
            faults.append("no report was written")
        table.add(f"{name}, {config or 'default'}", "FAIL" if faults else "PASS", f"{native} us", f"{own} us",
                  f"{wrong} wrong; exported {exported}, refused {refused}, opened {opened}; {native} and {own} us a round", faults)


def jobs(build, table, config_file, rounds):
    """Of each version the many rounds over what may export, fewer over the rest."""
    folder = build.folder / "others"
    versions = sorted(path.name for path in (folder / "ucx").glob("*"))
    many, some = str(rounds * 100), str(rounds * 10)
    plans = []
    if (folder / "openmpi").is_dir():
        plans += [(open_mpi(build), (many, "same"), EXPORTING[:3]), (open_mpi(build), (some, "mixed"), (*EXPORTING, *OTHERS))]
    for version in reversed(versions):
        newest = version == versions[-1]
        get, put = ucx(build, version, "get_zcopy"), ucx(build, version, "put_zcopy")
        plans += [(get, (many, "same"), EXPORTING if newest else EXPORTING[:1]), (get, (some, "mixed"), (*EXPORTING, *OTHERS)),
                  (put, (some, "mixed"), ("", "binning")), (get, (some, "mixed", "async"), ("", "pool_over_cuda_async")),
                  (get, (some, "mixed", "plain-importer"), ("",))]
    if not plans:
        return [("transports", lambda: table.add("transports", "SKIP", note="none gathered (scripts/others.sh)"))]
    return [(f"{transport.name} {' '.join(arguments)}",
             lambda row=(transport, arguments, configs): compare(build, table, *row, config_file))
            for transport, arguments, configs in plans]
