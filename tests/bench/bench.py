"""Runs the workloads over all allocators that this machine allows and prints one table of ratios; scripts/bench.sh.

bench.py [--build FOLDER] [--out FOLDER] [--group NAME,...] [--program TEXT,...] [--before LIBRARY] [--seconds N] [--simulated]. One process a variant, everything
in one run, so that ratios compare like with like. Each group and each process has its own time limit; what was printed
until then counts. Writes FOLDER/<device>.json and .md. Exits 77 without a GPU, 1 when a program failed.
"""
import argparse
import collections
import datetime
import json
import pathlib
import re
import statistics
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT / "tests" / "integration"))
import harness
import performance
import real_programs
import tables
import versions
import wanted
from groups import CLIFFS, GROUPS, beside


NAMES = [*(group.name for group in GROUPS), "real_programs"]


class Results:
    """What was measured: one record for each variant, case and metric; and what could not be, with the reason."""

    def __init__(self):
        self.records, self.notes, self.failed = [], [], False

    def note(self, group, variant, reason):
        self.notes.append({"group": group, "variant": variant, "reason": reason})
        print(f"  {variant}: {reason}", flush=True)

    def add(self, group, variant, lines):
        """`lines` of all repeats of one variant; the median of each figure counts."""
        figures = collections.defaultdict(list)
        for line in lines:
            figures[line["case"], line["metric"], line["unit"]].append(line["value"])
        for (case, metric, unit), values in figures.items():
            self.records.append({"group": group.name, "variant": variant.name, "role": variant.role, "pair": variant.pair,
                                 "case": case, "metric": metric, "unit": unit, "value": statistics.median(values),
                                 "higher_is_better": group.higher_is_better})


def result_lines(stdout):
    found = []
    for line in stdout.splitlines():
        try:
            if line.startswith("{"):
                found.append(json.loads(line))
        except ValueError:
            pass                              # the last line of a process that was stopped
    return found


def environment(build, variant):
    env = {"GPUMEM_REPORT": "none", "GPUMEM_JSON": "none"} if variant.preload else {}
    if build.simulated:
        env["GPUMEM_SIMULATED_MEMORY"] = str(64 << 30)
    if variant.library:
        env["LD_PRELOAD"] = build.program(variant.library)
    if variant.config:
        own = HERE / "configs" / f"{variant.config}.toml"
        env["GPUMEM_CONFIG"] = str(own if own.exists() else ROOT / "config" / "examples" / own.name)
    return env


def run_once(build, group, variant, results, extra, left):
    """The lines of one process, and whether it ended well; where it did not a note says why, and it is not repeated."""
    try:
        program = build.program(f"bench.{variant.link}")
    except AssertionError:
        what = "no RMM: give its wheels' folder as GPUMEM_RMM" if variant.link == "rmm" else "not built"
        results.note(group.name, variant.name, what)
        return [], False
    command = [program, group.workload, variant.allocator, *group.fewer.get(variant.name, group.arguments), *extra]
    limit = min(group.limit, max(left, 2))
    outcome = build.run(command, preload=variant.preload, env=environment(build, variant), timeout=limit)
    lines = result_lines(outcome.stdout)
    if isinstance(outcome.code, str):
        results.note(group.name, variant.name, f"stopped after {limit:.0f} s, {len(lines)} figures until then")
    elif outcome.code != 0:
        refused = re.search(r"error\[\w+\]: .*", outcome.stderr)
        reason = refused.group(0) if refused else outcome.stderr.strip()[-200:]
        results.note(group.name, variant.name, f"exit code {outcome.code}: {reason}")
        results.failed |= not refused and "no allocator" not in reason
    return lines, outcome.code == 0


def run_group(build, group, results, extra, deadline):
    """The repeats go round all variants: the machine's own ups and downs, of some seconds each, meet every variant."""
    print(f"## {group.name}", flush=True)
    end = min(time.monotonic() + group.seconds, deadline)
    lines, ended_badly = {variant: [] for variant in group.variants}, set()
    for repeat in range(group.repeats):
        for variant in group.variants:
            if variant in ended_badly:
                continue
            begin = time.monotonic()
            if begin > end:
                results.note(group.name, variant.name, f"repeat {repeat + 1} not started: the group's time was up")
                continue
            seed = [f"seed={repeat + 1}"] if group.seeds else []
            for own in group.processes:
                found, ended_well = run_once(build, group, variant, results, [*seed, *own, *extra], end + 5 - time.monotonic())
                lines[variant] += found
                if not ended_well:
                    ended_badly.add(variant)
                    break
            print(f"  {variant.name}: {time.monotonic() - begin:.1f} s", flush=True)
    for variant, found in lines.items():
        results.add(group, variant, found)


def write_files(out, about, results, merge):
    """With `merge` the file keeps what this run did not measure: a group is always of one run, and each record says of which."""
    for record in results.records:
        record["run"] = tables.heading(about)
    document = {**about, "results": list(results.records), "notes": list(results.notes)}
    path = out / re.sub(r"[^a-z0-9]+", "-", about["device"].lower()).strip("-")
    if merge and path.with_suffix(".json").exists():
        before = json.loads(path.with_suffix(".json").read_text())
        measured = {record["group"] for record in results.records}
        told = measured | {note["group"] for note in results.notes}
        for part, replaced in (("results", measured), ("notes", told)):
            document[part] = [item for item in before[part] if item["group"] not in replaced] + document[part]
    out.mkdir(parents=True, exist_ok=True)
    path.with_suffix(".json").write_text(json.dumps(document, indent=1) + "\n")
    path.with_suffix(".md").write_text(tables.markdown(document))
    if out.resolve() == performance.RESULTS:
        performance.refresh()
    return document, path


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default=str(ROOT / "build"))
    parser.add_argument("--out", default=str(performance.RESULTS), help="folder for the JSON and Markdown files")
    parser.add_argument("--group", default="", help="names, separated by commas; all: " + " ".join(NAMES) + "; cliffs: " + " ".join(CLIFFS))
    parser.add_argument("--program", default="", help="parts of the names of the group real_programs' programs; all of them")
    parser.add_argument("--seconds", type=int, default=1800, help="no process is started after this")
    parser.add_argument("--extra", default="", help="arguments for every workload, such as largest=1000")
    parser.add_argument("--before", default="", help="an older libgpumem.so, measured in turn with this one")
    parser.add_argument("--simulated", action="store_true", help="on the simulated CUDA: checks the house, measures nothing")
    options = parser.parse_args()
    names = [name for given in options.group.split(",") if given for name in (CLIFFS if given == "cliffs" else (given,))]
    unknown = set(names) - set(NAMES)
    if unknown:
        parser.error(f"no group {', '.join(sorted(unknown))}; there are: {' '.join(NAMES)}")
    programs = options.program.split(",")
    strange = [text for text in programs if not any(text in name for name in real_programs.NAMES)]
    if strange:
        parser.error(f"no program with {', '.join(strange)} in its name; there are: {', '.join(real_programs.NAMES)}")
    reason = "" if options.simulated else versions.no_device()
    if reason:
        print(f"skipped: no CUDA device here ({reason}); --simulated tries everything out")
        sys.exit(harness.SKIP)

    build = harness.Build(options.build, simulated=options.simulated)
    results, deadline = Results(), time.monotonic() + options.seconds
    about = {"schema": 1, "date": datetime.date.today().isoformat(), **versions.collect(build, options.simulated)}
    if options.before:
        about["versions"]["before"] = versions.digest(pathlib.Path(options.before))
    save = lambda: write_files(pathlib.Path(options.out), about, results, bool(names))
    programs_too = not options.simulated and (not names or "real_programs" in names)
    workloads_end = deadline - (120 if programs_too else 0)
    groups = [beside(group, str(pathlib.Path(options.before).resolve())) for group in GROUPS] if options.before else GROUPS
    for group in groups:
        if names and group.name not in names:
            continue
        if options.simulated and group.kernels:
            results.note(group.name, "all", "has work for the GPU, which the simulated CUDA does not do, or slowly")
            continue
        run_group(build, group, results, options.extra.split(), workloads_end)
        print(tables.group_table([r for r in results.records if r["group"] == group.name]), flush=True)
        save()                                # what is measured survives a stop
    if programs_too:
        print("## real_programs", flush=True)
        real_programs.run_group(build, programs, results, lambda: deadline - time.monotonic(), save)
    elif options.simulated:
        results.note("real_programs", "all", "they need a GPU")
    document, path = save()
    print(tables.ending(document), flush=True)
    print(wanted.table({"results": results.records}), flush=True)
    print(f"bench: {len(results.records)} figures of this run in {path}.json and .md")
    sys.exit(1 if results.failed else 0)


if __name__ == "__main__":
    main()
