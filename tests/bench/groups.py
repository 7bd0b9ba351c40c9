"""What run.py measures: variants (who allocates) and groups (workload, variants, time limits). Data only.

A variant is one process: a program of the build, an allocator of its command line, gpumem preloaded or not. `role` says
what it is in a ratio: "ours" is divided by "native" of the same `pair`, by the best "peer", and by the same of the version
"before" where one is named; "least" is in no ratio.
"""
import dataclasses


@dataclasses.dataclass(frozen=True)
class Variant:
    name: str
    link: str
    allocator: str
    role: str
    preload: bool = False
    config: str = ""
    pair: str = "malloc"         # which native pair it stands for
    library: str = ""            # preloaded instead of gpumem: a name in the folder of the programs, or a path


@dataclasses.dataclass(frozen=True)
class Group:
    name: str
    workload: str
    variants: tuple
    arguments: tuple = ()
    limit: int = 20              # seconds for one process; what it printed until then counts
    seconds: int = 60            # for the group: no process is started after it
    repeats: int = 1             # processes a variant, in turn with the others'; the median counts
    processes: tuple = ((),)     # arguments of processes of their own, for what must not inherit what another case left
    fewer: dict = dataclasses.field(default_factory=dict)   # variant name -> its own arguments
    seeds: bool = False          # each repeat has its own, the same for all variants
    higher_is_better: bool = False
    kernels: bool = False


MALLOC = Variant("cudaMalloc", "static", "malloc", "native")
MALLOC_SHARED = Variant("cudaMalloc, shared cudart", "shared", "malloc", "native", pair="malloc, shared")
ASYNC = Variant("cudaMallocAsync", "static", "async", "native", pair="async")
ASYNC_SHARED = Variant("cudaMallocAsync, shared cudart", "shared", "async", "native", pair="async, shared")
CUDART_ALONE = Variant("cudart alone", "static", "malloc", "least", library="answers_at_once.so")
READY = Variant("no allocation", "static", "ready", "least")
PEERS = (
    Variant("RMM pool", "rmm", "rmm-pool", "peer"),
    Variant("RMM arena", "rmm", "rmm-arena", "peer"),
    Variant("RMM binning", "rmm", "rmm-binning", "peer"),
    Variant("RMM cuda_async", "rmm", "rmm-cuda_async", "peer"),
    Variant("cub caching", "static", "cub", "peer"),
)


def ours(allocator, config="", link="static"):
    name = "gpumem " + (config or "default") + ("" if link == "static" else f", {link} cudart")
    call = {"malloc": "cudaMalloc", "async": "cudaMallocAsync"}[allocator]
    pair = allocator if link == "static" else f"{allocator}, {link}"
    return Variant(f"{name}: {call}", link, allocator, "ours", preload=True, config=config, pair=pair)


DEFAULTS = (ours("malloc"), ours("async"))
CHAINS = (*DEFAULTS, *(ours(call, chain) for chain in ("pool", "binning", "arena") for call in ("malloc", "async")))
SPARING = (ours("malloc", "compact"), ours("malloc", "compact_vmm"), ours("async", "compact_vmm"), ours("async", "arena"))
BOUNDED = (ours("malloc", "bounded"), ours("malloc", "sparing"))
WITHOUT_BINNING = tuple(peer for peer in PEERS if peer.allocator != "rmm-binning")

GROUPS = [
    Group("pairs", "pairs", (MALLOC, ASYNC, CUDART_ALONE, *DEFAULTS, MALLOC_SHARED, ASYNC_SHARED, ours("malloc", link="shared"),
                             ours("async", link="shared"), *PEERS), repeats=5, seconds=120),
    # One thread after sixteen others finds their blocks and is faster than in a program that has one: a process for each number.
    Group("threads", "threads", (MALLOC, ASYNC, *DEFAULTS, ours("async", "arena"), *PEERS), limit=15, repeats=3, seconds=210,
          processes=tuple((f"from={many}", f"threads={many}") for many in (1, 2, 4, 8, 16)), higher_is_better=True),
    Group("producer_consumer", "producer_consumer", (MALLOC, ASYNC, *DEFAULTS, *WITHOUT_BINNING), limit=15,
          higher_is_better=True),
    Group("random_allocations", "random_allocations", (ASYNC, *CHAINS, *PEERS, MALLOC), ("seconds=0.1",), limit=15,
          seconds=420, repeats=5, fewer={"cudaMalloc": ("seconds=0.1", "largest=1000")}),
    # The first round of a process is one measurement, on whatever the machine does then: here of nine processes each.
    Group("first_rounds", "random_allocations", (*(ours(call, chain) for chain in ("pool", "binning") for call in ("malloc", "async")), *PEERS[:3]),
          ("seconds=0.001", "largest=1000"), repeats=9, seconds=150),
    Group("holes", "holes", (ASYNC, *DEFAULTS, ours("async", "arena"), *WITHOUT_BINNING, MALLOC), limit=15, seconds=110,
          fewer={"cudaMalloc": ("largest=10000",)}),
    Group("multi_stream", "multi_stream", (MALLOC, ASYNC, *DEFAULTS, *PEERS), higher_is_better=True, kernels=True),
    Group("concurrency", "concurrency", (MALLOC, ASYNC, *DEFAULTS, *PEERS), repeats=3, seconds=90),
    Group("growth", "growth", (MALLOC, ASYNC, *DEFAULTS), repeats=3),
    Group("captures", "captures", (MALLOC, ASYNC, *DEFAULTS), repeats=9),
    Group("footprint", "footprint", (MALLOC, ASYNC, READY, *DEFAULTS, *SPARING, *WITHOUT_BINNING), repeats=5, seconds=120,
          seeds=True, kernels=True),
    Group("budget", "budget", (MALLOC, ASYNC, *DEFAULTS, *BOUNDED, *WITHOUT_BINNING), repeats=5, seconds=90, kernels=True),
    *[Group(f"drift_{kind}", "drift", (MALLOC, ASYNC, *DEFAULTS, ours("malloc", "compact"), *WITHOUT_BINNING), (f"only={kind}",), kernels=True)
      for kind in ("step", "half", "caches", "batches")],
    Group("refused", "refused", (MALLOC, ASYNC, *DEFAULTS, ours("malloc", "arena"), ours("async", "arena"), *WITHOUT_BINNING), limit=30,
          seconds=120),
    Group("first_call", "first_call", (MALLOC, ASYNC, *DEFAULTS), repeats=9),
    Group("driver_calls", "driver_calls", (MALLOC,)),
    Group("lookups", "lookups", (MALLOC, ASYNC, *DEFAULTS), repeats=3),
    Group("calls", "calls", (MALLOC, ours("malloc")), repeats=3),
    Group("pinned", "pinned", (MALLOC, ours("malloc"), ours("malloc", "pinned"))),
]

# Where gpumem was slower than itself, than a peer or than nothing, or larger: shown first on the page of figures.
CLIFFS = ("footprint", "drift_step", "drift_half", "drift_caches", "drift_batches", "budget", "refused", "threads", "captures", "lookups", "concurrency", "first_call")


def beside(group, library):
    """The group with each variant of ours also over `library`, an older build of gpumem, in turn with this one."""
    variants = []
    for variant in group.variants:
        variants.append(variant)
        if variant.role == "ours":
            variants.append(dataclasses.replace(variant, name=variant.name.replace("gpumem", "before", 1), role="before", library=library))
    return dataclasses.replace(group, variants=tuple(variants))
