"""What run.py runs on a real GPU: one line a case. A case is a program of the build or a Python file of this folder.

`configs` names files of tests/integration/programs/configs, of configs/ here or of config/examples, besides the default; `env` goes to the
plain and the preloaded run alike. Groups and cases run in this order, the ones that prove safety first.
"""
import dataclasses
import pathlib

LINKS = ("static", "shared")


@dataclasses.dataclass
class Case:
    program: str
    arguments: tuple = ()
    links: tuple = LINKS
    configs: tuple = ()
    env: dict = dataclasses.field(default_factory=dict)
    label: str = ""
    counts: bool = True          # the program prints what it asked for itself
    expected: str = ""           # file that the plain stdout must equal
    code: int | None = 0         # of the plain run; None: whatever it is
    timeout: int = 60            # seconds, for each of its runs

    def name(self):
        return " ".join([self.program, *self.arguments]) + (f" ({self.label})" if self.label else "")


def python(file, *arguments, **more):
    return Case(file, arguments, links=("",), counts=False, **more)


SPARING = ("compact", "compact_vmm")
POOLS = ("arena", "binning", "pool_over_cuda_async", "pool_over_vmm", "small_pool", "synchronize")
TWO_CHAINS = ("binning", "pool_over_cuda_async")
FOREIGN = (*TWO_CHAINS, "direct", "direct_cuda_async", "pool_over_vmm")
CACHE_OFF = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
TORCH = {
    "own cache": {},
    "cache off": CACHE_OFF,
    "cudaMallocAsync": {"PYTORCH_ALLOC_CONF": "backend:cudaMallocAsync",
                        "PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"},
}
EXPANDABLE = {"PYTORCH_ALLOC_CONF": "expandable_segments:True", "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}
JAX = {name: {"XLA_PYTHON_CLIENT_ALLOCATOR": name} for name in ("default", "platform", "cuda_async")}
STREAM_MODES = (("many", "10000"), ("defaults",), ("wake",))
PROGRAM_CONFIGS = pathlib.Path(__file__).resolve().parents[1] / "integration" / "programs" / "configs"
EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "config" / "examples"
# What RMM's documentation shows, but for what writes a log into the current folder, and what has a case of its own.
RMM_EXAMPLES = tuple(f"rmm/{path.stem}" for path in sorted((EXAMPLES / "rmm").glob("*.toml"))
                     if "\nfile = " not in path.read_text() and path.stem != "system_headroom")
QUIET_TORCH = {"TORCH_CPP_LOG_LEVEL": "ERROR"}

GROUPS = {
    "safety": [
        Case("reuse_hazard", ("1000",), configs=(*POOLS, *SPARING)),
        Case("other_memory_hazard", ("200",), configs=("managed_pool", "managed_prefetch")),
        Case("threads_streams", ("16", "200"), configs=(*POOLS, *SPARING)),
        Case("thread_mix", ("24", "300"), configs=TWO_CHAINS, counts=False),
        Case("reuse", ("50",)),
    ],
    "memory": [
        Case("host_memory", ("200",), configs=("host_pool",), counts=False),
        *[Case("faulted_kernel", (told_by, "reset"), configs=("arena", "direct_vmm", "pool_over_vmm"), counts=False)
          for told_by in ("stream", "query", "event", "event_query", "copy", "launch")],
        *[Case("faulted_kernel", (how, "reset"), configs=("arena", "direct_vmm", "every_pool", "pool_over_vmm", "pool_over_cuda_async"), counts=False,
               env={"CUDA_VISIBLE_DEVICES": "0"}, expected=f"faulted.{how}.txt") for how in ("device", "told")],
        Case("told_of_addresses", configs=("every_pool", "direct_vmm", "pool_over_cuda_async", "pool_over_vmm"), counts=False),
        *[Case("told_of_addresses", (mode,), configs=("direct_vmm", "pool_over_cuda_async", "pool_over_vmm"), counts=False)
          for mode in ("access", "freed")],
        *[Case("memory_returns", (mode,), counts=False) for mode in ("back", "earned")],
        Case("memory_returns", ("partners", "20000"), counts=False),
        *[Case("room_for_others", (what,), configs=("pool_over_vmm",) if what == "context" else (), counts=False)
          for what in ("context", "primary", "module", "library", "local", "heap", "stack", "graph", "upload", "streams", "events", "register", "map")],
        *[Case("room_for_others", (what,), label="eager", env={"CUDA_MODULE_LOADING": "EAGER"}, counts=False)
          for what in ("module", "library")],
        *[Case("blocked_stream", (mode,), links=("shared",), counts=False, timeout=120) for mode in ("refused", "served", "freed")],
        Case("freed_before_work", links=("static",), configs=("binning", "pool_over_vmm"), counts=False),
        # Their rules are CUDA's documents' and no GPU was asked yet: work of the legacy stream is before a free on a blocking one,
        # and a wait for an event is work of its stream.
        *[Case("implicit_order", (how,), links=("static",), configs=("binning", "pool_over_vmm"), counts=False,
               expected=f"implicit_order{'.event' if how == 'event' else ''}.txt") for how in ("blocking", "legacy", "event")],
        # What the driver does: nothing of the pools may answer.
        Case("freed_in_order", links=("static",), counts=False, expected="freed_in_order.txt",
             env={"GPUMEM_CONFIG": str(PROGRAM_CONFIGS / "passthrough.toml")}),
        Case("freed_beside_many_streams", links=("static",), counts=False, expected="freed_beside_many_streams.txt",
             env={"GPUMEM_CONFIG": str(PROGRAM_CONFIGS / "passthrough.toml")}),
        Case("waiting_calls", ("calls",), links=("static",), configs=("binning", "direct", "small_pool"), counts=False,
             expected="waiting_calls.txt"),
        Case("waiting_calls", ("without-exports",), links=("static",), configs=("pool_over_cuda_async", "pool_over_vmm"),
             counts=False),
        Case("waiting_calls", ("frees",), links=("static",), counts=False, expected="waiting_calls.frees.txt",
             env={"GPUMEM_CONFIG": str(PROGRAM_CONFIGS / "passthrough.toml")}),
        Case("pools_that_end", links=("static",), configs=("direct_cuda_async", "pool_over_cuda_async"), counts=False),
        Case("exported_freed_in_order", links=("static",), counts=False, expected="exported_freed_in_order.txt",
             env={"GPUMEM_CONFIG": str(PROGRAM_CONFIGS / "passthrough.toml")}),
        Case("freed_on_foreign_streams", ("contexts",), configs=FOREIGN, counts=False,
             expected="freed_on_foreign_streams.contexts.txt"),
        Case("fragmentation", ("10", "32"), configs=("bounded_vmm", *SPARING), counts=False),
        Case("fragmentation", ("6", "95%"), configs=SPARING, counts=False),
        Case("system_memory", ("200",), configs=("rmm/system_headroom", "pool_over_system")),
    ],
    "examples": [
        Case("every_kind", ("8",), links=("shared",), configs=RMM_EXAMPLES),
    ],
    "captures": [
        Case("graph_capture", ("1000",), configs=POOLS),
        Case("capture_matrix", ("1000",), configs=TWO_CHAINS, counts=False),
        Case("captures", ("200",)),
        *[Case("capture_cells", (mode,)) for mode in ("matrix", "replay", "owned")],
        Case("capture_cells", ("window",), counts=False),
        Case("capture_rules", ("forbidden",), counts=False, expected="capture_rules.txt"),
        *[Case("capture_rules", (mode,), counts=False) for mode in ("joined", "destroyed", "threads")],
        Case("captured_contexts", links=("driver",)),
        Case("captured_contexts", ("twice",), links=("driver",), configs=("direct_cuda_async", "pool_over_vmm"), counts=False),
        Case("capture_forms", links=("driver",), configs=TWO_CHAINS),
    ],
    "debugging": [
        Case("reuse_hazard", ("50",), links=("shared",), configs=("debugging",)),
        Case("threads_streams", ("8", "20"), links=("shared",), configs=("debugging",)),
        Case("captures", ("20",), links=("shared",), configs=("debugging",)),
    ],
    "streams": [
        *[Case(program, mode, configs=("pool_over_cuda_async",) if mode[0] == "many" else ())
          for program in ("stream_life", "stream_life_per_thread") for mode in STREAM_MODES],
        Case("stream_life", ("inside",), counts=False, timeout=20),
        *[Case("host_function_calls", (way,), links=("driver",), counts=False, configs=("every_pool",), timeout=20)
          for way in ("host_function", "callback")],
        # Asked of no GPU yet: whether natively memory freed and had again in stream order is safe where a kernel begins early.
        *[Case("dependent_launch", (how,), links=("static",), configs=("binning",), counts=False) for how in ("async", "plain")],
        Case("async_streams"),
        # Not "threads": without the library, too, a thread that ends with work on its own stream hangs in the
        # driver now and then (580.159, main thread in pthread_join).
        *[Case("stream_kinds", (kind,)) for kind in ("handles", "legacy")],
        Case("stream_kinds", ("signals",), counts=False),
    ],
    "programs": [
        Case("runtime_loop", ("400",), configs=("direct", "passthrough", "one_stream")),
        Case("driver_linked", links=("driver",)),
        Case("driver_dlopen", ("dlsym",), links=("driver",)),
        Case("driver_dlopen", ("entry",), links=("driver",)),
        Case("threads", ("16", "100")),
        Case("bad_frees", counts=False, expected="bad_frees.txt"),
        Case("block_facts", counts=False, configs=("binning",)),
        Case("memory_info"),
        Case("memory_totals"),
        Case("alignment", configs=("aligned", *POOLS)),
        Case("cross_frees"),
        Case("no_context", links=("driver",), counts=False, configs=("every_pool",)),
        *[Case("dead_context", (how,), links=("driver",), counts=False, configs=("arena", "pool_over_vmm", "pool_over_cuda_async"),
               expected="dead_context.txt") for how in ("released", "reset", "destroyed")],
        # Not over vmm: SYNC_MEMOPS of mapped memory is refused (docs/transparency.md).
        Case("dead_context", ("faulted",), links=("driver",), counts=False, configs=("arena", "every_pool", "pool_over_cuda_async"),
             expected="dead_context.faulted.txt"),
        Case("dead_context", ("frees",), links=("driver",), counts=False, configs=("arena", "pool_over_vmm", "pool_over_cuda_async")),
        Case("virtual_memory", ("unmaps",), links=("driver",), counts=False, expected="virtual_memory_unmaps.txt"),
        # Not "thread": see "threads" of the group streams. Nor "attach_0", at which a driver crashes (580.159).
        *[Case("asked_rules", (mode,), links=("driver",), counts=False, configs=("arena", "every_pool", "pool_over_vmm"), expected=f"asked_rules.{mode}.txt")
          for mode in ("registered", "managed", "managed_beyond", "managed_captured", "managed_small", "captured_oddly", "attach_3", "attach_8", "pools", "pool_in_use", "pool_ended", "graphs", "virtual", "events", "end",
                       "end_host", "end_pool")],
        *[Case("asked_rules", (mode,), links=("driver",), counts=False, configs=("program_pools",), expected=f"asked_rules.{mode}.txt")
          for mode in ("pools", "pool_in_use", "pool_ended")],
        Case("asked_rules", ("virtual_beyond",), links=("driver",), counts=False, configs=("arena", "pool_over_vmm")),
        Case("lost_context", counts=False),
        *[Case(name, counts=False) for name in ("attributes", "default_pool", "pitched", "unknown_pointers", "out_of_memory")],
        Case("pool_attributes", counts=False, configs=("program_pools",)),
        *[Case("default_pool", (mode,), counts=False, configs=("program_pools",)) for mode in ("late", "between", "refused", "together", "captured", "crowded")],
        Case("asked_pool", links=("driver",), configs=("binning", "pool_over_vmm"), counts=False),
        Case("settings", configs=("every_pool",), counts=False),
        *[Case("first_call", (call,), links=("static",), counts=False)
          for call in ("free0", "malloc0", "malloc", "async", "info", "reset", "bad_free", "too_big", "host", "cu_alloc",
                       "cu_free")],
        Case("thrust_sort", counts=False),
    ],
    "life": [
        Case("reset", configs=("pool_over_cuda_async",)),
        *[Case("context_life", (mode,), configs=TWO_CHAINS) for mode in ("primary", "several", "green")],
        *[Case(program, links=("driver",)) for program in ("contexts", "green_contexts")],
        *[Case("racing_contexts", mode, links=("driver",), configs=("pool_over_vmm",))
          for mode in (("retain", "20"), ("look",), ("free", "5000"), ("own", "10"))],
        # "ends" with few rounds: natively threads that allocate keep one out that makes contexts (10 rounds: not done after 60 s).
        *[Case("ending_beside_others", mode, links=("driver",), counts=False, configs=("pool_over_vmm", "small_pool"))
          for mode in (("ends", "2"), ("keeps", "2"), ("look", "10"))],
        Case("handles_again", ("arrays", "30"), links=("driver",), counts=False),
        Case("virtual_memory", ("refused",), links=("driver",), counts=False),
        Case("handles_again", ("trims", "10"), links=("driver",), counts=False),
        Case("handles_again", ("events", "10"), links=("driver",), counts=False),
        Case("handles_again", ("settings", "5"), links=("driver",), counts=False, configs=("every_pool",)),
        Case("crowded_device", ("made", "3"), links=("driver",), counts=False, configs=("pool_over_vmm", "pool_over_cuda_async")),
        *[Case("forks", (mode,)) for mode in ("before", "after", "vfork", "spawn", "daemon", "posix_spawn")],
        Case("exec_forms"),
        # Not "main": natively the driver's own threads go on then, and the process with them (580.159).
        *[Case("exits", (way,), code=None)
          for way in ("return", "exit", "_exit", "quick_exit", "exec", "thread", "static", "together", "_together", "quick_together", "closed", "handlers")],
    ],
    "ipc": [
        Case("ipc_pair"),
        Case("ipc_pair", ("plain-importer",)),
        Case("ipc_exported", ("1000",), configs=("binning",)),
        *[Case("asked_rules", (mode,), links=("driver",), counts=False, configs=("arena", "binning"), expected=f"asked_rules.{mode}.txt")
          for mode in ("ipc", "ipc_freed", "ipc_ended")],
        Case("rdma_ranges"),
        *[python("torch_sharing.py", method, label=label, env=env)
          for method in ("spawn", "forkserver") for label, env in (("own cache", {}), ("cache off", CACHE_OFF))],
    ],
    "python": [
        *[python("torch_train.py", env=env, label=label) for label, env in TORCH.items()],
        *[python("torch_processes.py", way) for way in ("fork", "fork-after", "spawn", "forkserver")],
        python("torch_profiled.py"),
        python("torch_memory_stats.py", label="cudaMallocAsync", env=TORCH["cudaMallocAsync"]),
        *[python("torch_capture.py", label=label, env=TORCH[label]) for label in ("own cache", "cache off")],
        python("cupy_loop.py"),
        python("jax_step.py"),
    ],
    "features": [
        *[python("torch_features.py", env={**QUIET_TORCH, **env}, label=label, configs=("pool_over_vmm",) if label == "cache off" else (), timeout=120)
          for label, env in TORCH.items()],
        python("torch_features.py", label="expandable", env={**QUIET_TORCH, **EXPANDABLE}, timeout=120),
        python("torch_features.py", "compiled", env=QUIET_TORCH, timeout=240),
        python("cupy_features.py", configs=("arena", "pool_over_vmm")),
        *[python("jax_features.py", label=label, env=env, timeout=120) for label, env in JAX.items()],
    ],
    "speed": [
        Case("alloc_pairs", counts=False),
    ],
}

# Under compute-sanitizer (sanitizer.py): small, since it makes every access slow.
SANITIZED = [
    ("reuse_hazard.shared", "20"),
    ("capture_matrix.shared", "3"),
    ("stream_life.shared", "many", "50"),
    ("thread_mix.shared", "4", "20"),
    ("runtime_loop.static", "50"),
    ("bad_frees.shared",),
]

# Runs only where it is asked for, with two devices.
TWO_GPUS = [
    Case("peer_pair", configs=(*TWO_CHAINS, "pool_over_vmm")),
    Case("peers", configs=(*TWO_CHAINS, "pool_over_vmm")),
    Case("stream_kinds", ("devices",), configs=TWO_CHAINS),
    Case("default_pool", ("shared",), counts=False),
    Case("faulted_kernel", ("told", "reset"), label="two devices", counts=False, configs=TWO_CHAINS),
    # Not "peers": natively it ends with code 719 in cuCtxCreate (580.159, two H200).
    *[Case("handles_again", mode, links=("driver",), counts=False, configs=("pool_over_cuda_async",))
      for mode in (("green", "30"), ("pool",))],
    # No GPU was asked yet. Without access memory of cuda_async and vmm differs (docs/transparency.md, I5).
    Case("asked_rules", ("peers",), links=("driver",), counts=False, configs=("pool_over_cuda_async", "pool_over_vmm")),
    Case("asked_rules", ("without_access",), links=("driver",), counts=False),
    Case("freed_beside_another_device", links=("static",), counts=False, expected="freed_beside_another_device.txt",
         env={"GPUMEM_CONFIG": str(PROGRAM_CONFIGS / "passthrough.toml")}),
    Case("freed_on_foreign_streams", ("devices",), configs=FOREIGN, counts=False,
         expected="freed_on_foreign_streams.devices.txt"),
    *[python("nccl_allreduce.py", label=f"cumem {cumem}", configs=(), timeout=150,
             env={"NCCL_CUMEM_ENABLE": cumem, "NCCL_NVLS_ENABLE": "0", **QUIET_TORCH}) for cumem in ("0", "1")],
]

# As clients of CUDA's multi-process service (mps.py); the second ones with a bound of the service's, which leaves them 4 GiB.
MPS = [Case(program, arguments, links=("static",), counts=counts)
       for program, arguments, counts in (("reuse_hazard", ("300",), True), ("threads_streams", ("8", "50"), True), ("memory_info", (), True),
                                          ("out_of_memory", (), False), ("ipc_pair", (), True), ("memory_returns", ("back",), False),
                                          ("forks", ("after",), True))]
MPS_BOUNDED = [case for case in MPS if case.program in ("memory_info", "out_of_memory", "reuse_hazard")]

# Rows of the groups runtimes, tools and transports, which need what scripts/others.sh gathers.
OTHERS = {*(f"runtime {version}" for version in ("11.8.89", "12.0.146", "12.4.127", "12.9.79", "13.0.96", "13.5.37")),
          "memcheck none", "memcheck overrun (direct)", "racecheck race", "initcheck uninitialised", "synccheck barrier",
          "cuda-gdb", "ncu", "nsys", "checkpoint idle 100, default", "checkpoint working 100, default",
          "limits of two clients under MPS", "UCX 1.22.0 get 10000 same, default", "UCX 1.15.0.post2 get 10000 same, default", "Open MPI 10000 same, default"}


def names():
    """Of all cases, as the rows of the table begin."""
    cases = [case for group in [*GROUPS.values(), TWO_GPUS] for case in group]
    clients = {f"{case.name()} (MPS)" for case in MPS} | {f"{case.name()} (MPS, 4 GiB)" for case in MPS_BOUNDED}
    return clients | {case.name() for case in cases} | {f"memcheck {program}" for program, *_ in [("overrun.shared",), *SANITIZED]} | OTHERS
