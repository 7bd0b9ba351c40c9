"""What run.py runs on a real GPU: one line a case. A case is a program of the build or a Python file of this folder.

`configs` names files of tests/integration/programs/configs besides the default; `env` goes to the plain and the
preloaded run alike. Cases run in this order, the ones that prove safety first.
"""
import dataclasses

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
    timeout: int = 60

    def name(self):
        return " ".join([self.program, *self.arguments]) + (f" ({self.label})" if self.label else "")


POOLS = ("binning", "pool_over_cuda_async", "small_pool", "synchronize")
CASES = [
    Case("reuse_hazard", ("1000",), configs=POOLS),
    Case("graph_capture", ("1000",), configs=POOLS),
    Case("threads_streams", ("16", "200"), configs=POOLS),
    Case("reuse", ("50",)),
    Case("runtime_loop", ("400",), configs=("direct", "passthrough")),
    Case("driver_linked", links=("driver",)),
    Case("driver_dlopen", ("dlsym",), links=("driver",)),
    Case("driver_dlopen", ("entry",), links=("driver",)),
    Case("async_streams"),
    Case("captures", ("200",)),
    Case("threads", ("16", "100")),
    Case("bad_frees", counts=False, expected="bad_frees.txt"),
    Case("memory_info"),
    Case("ipc_pair"),
    Case("ipc_pair", ("plain-importer",)),
    Case("reset", configs=("pool_over_cuda_async",)),
    *[Case("forks", (mode,)) for mode in ("before", "after", "vfork", "spawn")],
    *[Case("exits", (way,)) for way in ("return", "exit", "_exit", "quick_exit", "exec", "thread", "static", "closed")],
    Case("thrust_sort", counts=False),
    Case("alloc_pairs", counts=False),
]

TORCH = {
    "own cache": {},
    "cache off": {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"},
    "cudaMallocAsync": {"PYTORCH_ALLOC_CONF": "backend:cudaMallocAsync",
                        "PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"},
}
PYTHON_CASES = [
    *[Case("torch_train.py", env=env, label=label, links=("",), counts=False) for label, env in TORCH.items()],
    Case("cupy_loop.py", links=("",), counts=False),
    Case("jax_step.py", links=("",), counts=False),
]
