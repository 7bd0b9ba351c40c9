"""What is wanted of the cliffs and of real programs, against what was measured: one table, computed from a result document.

Called by bench.py, which prints it after these groups, and by performance.py, which puts it on the page of figures. A row without
its records is left out; nothing here measures anything. `native` and `best peer` are the same figure of theirs in the same run.
"""
import tables

PAIRS = ("malloc", "async")
CALL = {"malloc": "cudaMalloc", "async": "cudaMallocAsync"}
HEAD = ("work", "figure", "wanted", "gpumem", "native", "best peer", "met")


def ours(chain, pair):
    return f"gpumem {chain}: {CALL[pair]}"


class Records:
    """One group's records, by case, figure and variant."""

    def __init__(self, document, group):
        self.records = tables.by_group(document).get(group, [])

    def cases(self):
        return tables.unique(record["case"] for record in self.records)

    def value(self, case, metric, variant):
        return next((record["value"] for record in self.records
                     if (record["case"], record["metric"], record["variant"]) == (case, metric, variant)), None)

    def best_peer(self, case, metric, higher=False):
        found = [(record["value"], record["variant"]) for record in self.records
                 if (record["case"], record["metric"], record["role"]) == (case, metric, "peer") and record["value"]]
        if not found:
            return ""
        value, name = (max if higher else min)(found)
        return f"{tables.number(value)} ({name})"


def row(work, figure, bound, is_most, value, native="", peer=""):
    met = value <= bound if is_most else value >= bound
    shown = lambda it: it if isinstance(it, str) else tables.number(it)
    return (work, figure, f"{'at most' if is_most else 'at least'} {tables.number(bound)}", f"{value:.3g}", shown(native), peer, "yes" if met else "no")


def threads(found):
    case = lambda many: f"{many} threads, mixed, 32 held"
    for pair in PAIRS:
        rate = {many: found.value(case(many), "throughput", ours("default", pair)) for many in (1, 4, 16)}
        if None in rate.values():
            continue
        native = {many: found.value(case(many), "throughput", CALL[pair]) or 0 for many in rate}
        peer = {many: found.best_peer(case(many), "throughput", higher=True) for many in rate}
        work = f"threads of mixed sizes, 32 held, {CALL[pair]}"
        yield row(work, "M pairs/s, 16 threads", 20, False, rate[16], native[16], peer[16])
        yield row(work, "M pairs/s, one thread", 4, False, rate[1], native[1], peer[1])
        for many, bound in ((16, 6), (4, 3)):
            yield row(work, f"{many} threads, times one", bound, False, rate[many] / rate[1], native[many] / native[1] if native[1] else "")


def footprint(found):
    case, use, time = "8 threads x 6 streams", "highest use of the device", "operation"
    for chain, pair, bound in (("default", "malloc", 1.5), ("compact", "malloc", 1.1), ("compact_vmm", "malloc", 1.1),
                               ("default", "async", 1.5), ("compact_vmm", "async", 1.1), ("arena", "async", 2)):
        own = [found.value(case, metric, ours(chain, pair)) for metric in (use, time)]
        native = [found.value(case, metric, CALL[pair]) for metric in (use, time)]
        if None in own or None in native:
            continue
        work = f"random programs, {chain}, {CALL[pair]}"
        yield row(work, "highest use, times native's", bound, True, own[0] / native[0], f"{tables.number(native[0])} MiB")
        yield row(work, "operations, times native's", 1.9, False, native[1] / own[1], f"{tables.number(native[1])} us each",
                  found.best_peer(case, time))


def budget(found):
    for case in found.cases():
        for metric, unit, bound in (("request, longest", "us", 2), ("whole", "ms", 1)):
            own, native = (found.value(case, metric, variant) for variant in (ours("default", "malloc"), CALL["malloc"]))
            if own is not None and native is not None:
                yield row(f"a budget filled, thinned, filled: {case}", f"{metric}, times native's", bound, True, own / native,
                          f"{tables.number(native)} {unit}", found.best_peer(case, metric))


def refused(found):
    for chain in ("default", "arena"):
        for pair in PAIRS:
            for case in found.cases():
                own, native, peer = (found.value(case, "request", variant) for variant in (ours(chain, pair), CALL[pair], "RMM pool"))
                if None not in (own, native, peer):
                    yield row(f"refused often, {chain}, {CALL[pair]}", "request, times the faster of native and RMM's pool", 1, True,
                              own / min(native, peer), f"{tables.number(native)} us", f"{tables.number(peer)} us (RMM pool)")


def worst(work, found, is_ours):
    """The row that is furthest behind native's, of all cases."""
    ratios = [item for item in tables.ratios(found.records) if item[2] is not None and is_ours(item)]
    if ratios:
        lowest = min(ratios, key=lambda item: item[2])
        yield row(work, f"worst of {len(ratios)}, times native's speed: {lowest[1]}", 1, False, lowest[2])


def captures(found):
    return worst("beside a capture", found, lambda item: True)


def lookups(found):
    return worst("address questions", found, lambda item: True)


def concurrency(found):
    for pair in PAIRS:
        of_case = {case: found.value(case, "against no allocation", ours("default", pair)) for case in found.cases()}
        if not of_case or None in of_case.values():
            continue
        case = max(of_case, key=of_case.get)
        yield row(f"4 streams of kernels, {CALL[pair]}", f"times no allocation, worst of {len(of_case)}: {case.split(', ')[-1]}", 1.05, True, of_case[case],
                  found.value(case, "against no allocation", CALL[pair]), found.best_peer(case, "against no allocation"))


def first_call(found):
    own, native = (found.value("first, 4 KiB", "request", variant) for variant in (ours("default", "malloc"), CALL["malloc"]))
    if own is not None and native is not None:
        yield row("first cudaMalloc of a process", "times native's", 1.3, True, own / native, f"{tables.number(native)} us")


def program(name, variant):
    """A real program with its own cache off, against that cache: time by turns, and the highest use of the device. One that has
    none, thrust, against native."""
    def rows(found):
        times = [record for record in found.records if record["variant"] == variant and record["metric"].startswith("time / that of")]
        again = [record for record in found.records if record["role"] == "again" and record["metric"].startswith("time / that of")]
        for record in times:
            own = f"itself again {again[0]['value']:.3f}" if again else ""
            yield row(name, "time, times its own cache's, by turns", 1.02, True, record["value"], own)
        if not times:
            for metric in tables.unique(record["metric"] for record in found.records if record["metric"].startswith("time, ")):
                case = found.cases()[0]
                own, first = (next((record["value"] for record in found.records if record["metric"] == metric and wanted(record)), None)
                              for wanted in (lambda record: record["variant"] == variant, lambda record: record["role"] == "native"))
                if own and first:
                    yield row(name, "time, times native's", 1.02, True, own / first, tables.number(first), found.best_peer(case, metric))
        peak = [record for record in found.records if record["metric"] == "peak device memory"]
        first = next((record["value"] for record in peak if record["role"] == "native"), None)
        for record in peak:
            if record["variant"] == variant and first:
                yield row(name, "highest use, times its own cache's", 1, True, record["value"] / first, f"{tables.number(first)} MiB")
    return rows


ROWS = (("footprint", footprint), ("budget", budget), ("refused", refused), ("threads", threads), ("captures", captures),
        ("lookups", lookups), ("concurrency", concurrency), ("first_call", first_call),
        *((f"real_programs: {name}", program(name, "gpumem under bare"))
          for name in ("PyTorch training", "transformer inference", "CuPy loop")),
        ("real_programs: thrust sort", program("thrust sort", "gpumem")))


def table(document):
    """All rows that the document has figures for; empty where it has none."""
    rows = [line for group, lines in ROWS for line in lines(Records(document, group))]
    if not rows:
        return ""
    missed = sum(line[-1] == "no" for line in rows)
    return "\n".join([f"{len(rows) - missed} of {len(rows)} met:", "", tables.table(HEAD, rows), ""])
