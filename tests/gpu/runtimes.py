"""The CUDA runtimes that are out there, plain against preloaded: one program (every_runtime) that opens a libcudart by its
path, and the same program linked with each static one.

What travels lies in <build>/others (scripts/others.sh): cudart/<version>/libcudart.so.*, and every_runtime.static.<version>
beside the program in gpu/. A runtime older or newer than the driver must do as it does plain, refusals included. Used by run.py.
"""
import pathlib

import harness

CONFIGS = ("", "binning")


def version_of(path):
    return [int(part) for part in path.split(".")]


def found(build):
    """(version, link, command) of each runtime, oldest first."""
    program = build.folder / "gpu" / "every_runtime"
    shared = [(path.parent.name, "shared", [str(program), str(path)])
              for path in (build.folder / "others" / "cudart").glob("*/libcudart.so.*")]
    prefix = "every_runtime.static."
    static = [(path.name[len(prefix):], "static", [str(path)]) for path in (build.folder / "gpu").glob(prefix + "*")]
    return sorted(shared + static, key=lambda row: (version_of(row[0]), row[1]))


def all_differences(plain, loaded):
    """Every line that is not the same; a transcript has as many lines either way, or the rest says little."""
    pairs = zip(plain.stdout.splitlines(), loaded.stdout.splitlines())
    lines = [f"plain {left!r}, preloaded {right!r}" for left, right in pairs if left != right]
    return lines or harness.differences(plain, loaded)


def compare(build, table, version, link, command, config_file):
    plain = build.run(command, timeout=60)
    faults, asked = [], 0
    if plain.code != 0 or not plain.stdout:
        faults.append(f"the plain run ended with {plain.code}: {plain.stderr[-200:]!r}")
    seconds = 0
    for config in CONFIGS:
        loaded = build.run(command, preload=True, timeout=60, env={"GPUMEM_CONFIG": config_file(config)} if config else {})
        faults += [f"{config or 'default'}: {line}" for line in all_differences(plain, loaded)]
        seconds = max(seconds, loaded.seconds)
        counts = harness.report_counts(loaded.reports[0]) if loaded.reports else {}
        asked = counts.get("cuMemAlloc", 0) + counts.get("cuMemAllocAsync", 0)
        if asked < 1000:
            faults.append(f"{config or 'default'}: only {asked} allocations were seen")
    told = next((line for line in plain.stdout.splitlines() if line.startswith("version ")), "")
    table.add(f"runtime {version}, {link}", "FAIL" if faults else "PASS", f"{plain.seconds:.2f} s", f"{seconds:.2f} s",
              f"{len(plain.stdout.splitlines())} lines, {asked} allocations; {told}", faults[:12])


def jobs(build, table, config_file, _rounds):
    rows = found(build)
    if not rows:
        return [("runtimes", lambda: table.add("runtimes", "SKIP", note="none gathered (scripts/others.sh)"))]
    return [(f"runtime {version}, {link}",
             lambda row=(version, link, command): compare(build, table, *row, config_file))
            for version, link, command in rows]
