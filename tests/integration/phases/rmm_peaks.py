"""The highest of a phase is what RMM's profiler says for the same sequence of allocations: exactly where the chain has `statistics`,
within 8 MiB or 1 % of the highest where it has not. Random programs in Python, on the simulated CUDA, by gpumem.phase.

rmm_peaks.py BUILD [test...]; see harness.main. The reference is RMM's own algorithm (rmm/statistics.py: push_statistics,
pop_statistics, ProfilerRecords; statistics_resource_adaptor.hpp: counter, add_counters_from_tracked_sub_block).
"""
import json
import pathlib
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import harness

PROGRAM = """
import ctypes, json, random, sys, threading
import gpumem
chance = random.Random(int(sys.argv[1]))
cuda = ctypes.CDLL("libcudart.so.13")

class Counter:                       # rmm::mr::statistics_resource_adaptor::counter
    def __init__(self, at):
        self.value = self.peak = 0
        self.highest = at            # beside it: of the whole process
    def change(self, amount, now):
        self.value += amount
        self.peak = max(self.peak, self.value)
        self.highest = max(self.highest, now)
    def add_from(self, inner):       # add_counters_from_tracked_sub_block
        self.peak = max(self.peak, self.value + inner.peak)
        self.value += inner.value
        self.highest = max(self.highest, inner.highest)

stack, records, now = [Counter(0)], {}, 0
def change(amount):
    global now
    now += amount
    stack[-1].change(amount, now)

def on_a_thread(work):               # a chain is asked by several threads, one after the other
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()

live = []
def allocate(size):
    block = ctypes.c_void_p()
    assert cuda.cudaMalloc(ctypes.byref(block), ctypes.c_size_t(size)) == 0
    live.append((block, size))
    change(size)
def release():
    block, size = live.pop(chance.randrange(len(live)))
    assert cuda.cudaFree(block) == 0
    change(-size)

allocate(3 << 30)                    # the device's own highest is far above all that comes
release()
open_phases = []
for step in range(1500):
    what = chance.random()
    if what < 0.1 and len(open_phases) < 5:
        name = "phase " + chance.choice("abcdef")
        open_phases.append((gpumem.phase(name), name))
        open_phases[-1][0].__enter__()
        stack.append(Counter(now))
    elif what < 0.2 and open_phases:
        phase, name = open_phases.pop()
        phase.__exit__()
        inner = stack.pop()
        stack[-1].add_from(inner)
        peak, highest = records.get(name, (0, 0))
        records[name] = max(peak, inner.peak), max(highest, inner.highest)
    elif what < 0.6 or not live:
        size = chance.randint(1, 1 << chance.randint(10, 26))
        on_a_thread(lambda: allocate(size)) if chance.random() < 0.1 else allocate(size)
    else:
        on_a_thread(release) if chance.random() < 0.1 else release()
while open_phases:
    phase, name = open_phases.pop()
    phase.__exit__()
    inner = stack.pop()
    stack[-1].add_from(inner)
    peak, highest = records.get(name, (0, 0))
    records[name] = max(peak, inner.peak), max(highest, inner.highest)
print(json.dumps(records))
"""


def compare(build, chain, seed, exact):
    with tempfile.TemporaryDirectory(prefix="gpumem-phases.") as folder:
        path = pathlib.Path(folder) / "chain.toml"
        path.write_text(f"version = 1\n[route]\ndevice = {json.dumps(chain)}\n")
        env = {"GPUMEM_CONFIG": str(path), "PYTHONPATH": str(HERE.parents[2] / "shim" / "python"), "PYTHONDONTWRITEBYTECODE": "1"}
        done = build.run([sys.executable, "-c", PROGRAM, str(seed)], preload=True, env=env)
    harness.equal(done.code, 0, done.stderr)
    wanted = json.loads(done.stdout)
    assert len(wanted) > 3, wanted
    found = {one["name"]: one["devices"][0] for one in done.reports[0]["phases"]["names"]}
    harness.equal(sorted(found), sorted(wanted), "phases")
    for name, (peak, highest) in wanted.items():
        bound = 0 if exact else max(8 << 20, highest // 100)
        for what, true in (("added_bytes", peak), ("highest_bytes", highest)):
            said = found[name][what]
            assert true - bound <= said <= true, f"{chain}, seed {seed}, {name}: {what} {said}, RMM's {true}"


def test_exactly_with_statistics(build):
    for seed in range(4):
        for chain in (["statistics", "pool", "cuda"], ["statistics", "arena", "cuda"], ["statistics", "cuda"]):
            compare(build, chain, seed, True)


def test_within_the_bound_without(build):
    for seed in range(4):
        for chain in (["pool", "cuda"], ["arena", "cuda"], ["pool", "vmm"]):
            compare(build, chain, seed, False)


if __name__ == "__main__":
    harness.main(dict(globals()))
