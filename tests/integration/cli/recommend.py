"""`gpumem check --recommend`: what it says of whole programs' reports, pages and recordings, and that what it says helps."""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import harness

EXAMPLES = pathlib.Path(__file__).resolve().parents[3] / "config" / "examples"
TAKES_TOO_MUCH = """
import ctypes
cuda = ctypes.CDLL("libcudart.so.13")
blocks = [ctypes.c_void_p() for _ in range(12)]
print([cuda.cudaMalloc(ctypes.byref(block), ctypes.c_size_t(100 << 20)) for block in blocks])
"""
SMALL_BESIDE_LARGE = """
import ctypes, random
cuda = ctypes.CDLL("libcudart.so.13")
random.seed(1)
def take(size):
    block = ctypes.c_void_p()
    assert cuda.cudaMalloc(ctypes.byref(block), ctypes.c_size_t(size)) == 0
    return block
small = []
for _ in range(60):
    large = [take(random.randint(1, 60) << 20) for _ in range(12)]
    small += [take(random.randint(256, 100 << 10)) for _ in range(40)]
    for block in large: cuda.cudaFree(block)
    while len(small) > 600: cuda.cudaFree(small.pop(random.randrange(len(small))))
"""


def recommend(build, *arguments, code=0):
    done = subprocess.run([build.tool, "check", "--recommend", *arguments], env=build.environment(), capture_output=True, text=True,
                          errors="replace", timeout=60)
    harness.equal(done.returncode, code, f"{arguments}: {done.stdout}{done.stderr[:500]}")
    return done


def verdicts(text):
    return dict(re.findall(r"^  (\S[^?]+\?) +(yes|no) ", text, re.M))


def first(text):
    return re.search(r"^first: gpumem run -c (\S+) -- (.*)$", text, re.M).groups()


def run(build, folder, program, config=None, **env):
    folder = pathlib.Path(folder)
    for old in folder.glob("out.*"):
        old.unlink()
    env.update({"GPUMEM_JSON": str(folder / "out.json"), "GPUMEM_RECORD": str(folder / "out.gpumem")})
    if config:
        env["GPUMEM_CONFIG"] = str(config)
    done = build.run([sys.executable, "-c", program], preload=True, env=env)
    harness.equal(done.code, 0, done.stderr)
    return done, json.loads((folder / "out.json").read_text())


def test_a_refusal_by_the_device(build):
    """That the program then finishes is for a GPU to show: managed memory of the simulated driver is no larger than the device."""
    with tempfile.TemporaryDirectory() as folder:
        done, _ = run(build, folder, TAKES_TOO_MUCH, GPUMEM_SIMULATED_MEMORY=str(1 << 30))
        harness.equal(done.stdout, f"{[0] * 10 + [2] * 2}\n", "the program")
        for file, more in (("out.json", []), ("out.gpumem", ["--device-memory", "1 GiB"])):
            said = recommend(build, f"{folder}/{file}", *more).stdout
            harness.equal(verdicts(said)["larger than memory?"], "yes", said)
            assert "2 requests refused, the largest of 100.00 MiB while 1,000.00 MiB were held of 1.00 GiB" in " ".join(said.split()), said
            # The program has an argument that would need quotes.
            harness.equal(first(said), (str(EXAMPLES / "rmm" / "failure_callback.toml"), "PROGRAM"), said)


def test_what_it_recommends_lets_a_program_finish(build):
    with tempfile.TemporaryDirectory() as folder:
        limited = pathlib.Path(folder) / "limited.toml"
        limited.write_text('version = 1\n[route]\ndevice = ["limiting", "pool", "cuda"]\n[resource.limiting]\nallocation_limit = "1 GiB"\n')
        done, _ = run(build, folder, TAKES_TOO_MUCH, limited)
        harness.equal(done.stdout, f"{[0] * 10 + [2] * 2}\n", "under a limit")
        config, _ = first(recommend(build, f"{folder}/out.json").stdout)
        harness.equal(pathlib.Path(config), EXAMPLES / "spill.toml", "the example")
        done, _ = run(build, folder, TAKES_TOO_MUCH, config)
        harness.equal(done.stdout, f"{[0] * 12}\n", "with it")


def test_what_it_recommends_takes_less_memory(build):
    with tempfile.TemporaryDirectory() as folder:
        small_device = {"GPUMEM_SIMULATED_MEMORY": str(2 << 30)}
        reserved = {}
        for config in (None, "small_blocks.toml", "compact_vmm.toml"):
            _, report = run(build, folder, SMALL_BESIDE_LARGE, config and EXAMPLES / config, **small_device)
            peak = report["devices"][0]["at_peak"]
            reserved[config] = peak.get("reserved_bytes", peak.get("reserved"))
            if config is None:
                by_report, by_recording = (recommend(build, f"{folder}/{file}").stdout for file in ("out.json", "out.gpumem"))
        for said in (by_report, by_recording):
            harness.equal({question for question, verdict in verdicts(said).items() if verdict == "yes"},
                          {"many small blocks?", "much of it idle?"}, said)
            harness.equal(first(said)[0], str(EXAMPLES / "small_blocks.toml"), said)
        assert reserved["compact_vmm.toml"] < reserved["small_blocks.toml"] < reserved[None], reserved


def test_a_state_page(build):
    """Of a process that was killed."""
    with tempfile.TemporaryDirectory() as folder:
        state = pathlib.Path(folder) / "state"
        state.mkdir(mode=0o700)
        program = TAKES_TOO_MUCH + "import os; os.kill(os.getpid(), 9)"
        build.run([sys.executable, "-c", program], preload=True, env={"GPUMEM_STATE_DIR": str(state), "GPUMEM_SIMULATED_MEMORY": str(1 << 30)})
        pages = [page for page in state.iterdir() if page.is_file()]
        assert len(pages) == 1, pages
        harness.equal(verdicts(recommend(build, str(pages[0])).stdout)["larger than memory?"], "yes", "a page")


def test_files_that_say_nothing(build):
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        _, report = run(build, folder, TAKES_TOO_MUCH)
        recording = (folder / "out.gpumem").read_bytes()
        (folder / "cut.gpumem").write_bytes(recording[:len(recording) - 60])
        assert "at byte" in recommend(build, folder / "cut.gpumem", code=1).stderr
        (folder / "head.gpumem").write_bytes(recording[:100])
        (folder / "later.json").write_text(json.dumps({**report, "schema": 999}))
        (folder / "cut.json").write_text(json.dumps(report)[:-9])
        (folder / "deep.json").write_text('{"schema":1,"devices":' + "[" * 300_000 + "]" * 300_000 + "}")
        (folder / "empty").write_text("")
        with open(folder / "long.json", "w") as out:
            out.write("{")
            out.truncate(1 << 40)
        os.mkfifo(folder / "fifo")
        for name, words in {"head.gpumem": "", "later.json": "with schema", "cut.json": "cut short", "deep.json": "deeper than 32",
                            "long.json": "the limit of 64.00 MiB", "empty": "a JSON report, a state page or a recording", "fifo": "not a file",
                            "absent": "No such file", ".": ""}.items():
            said = recommend(build, folder / name, code=2).stderr
            assert words in said and said, f"{name}: {said}"
        (folder / "lies.json").write_text(json.dumps({"schema": report["schema"], "devices": [{"total": -3, "at_peak": "much"}]}))
        assert "yes" not in verdicts(recommend(build, folder / "lies.json").stdout).values()


TAKES_AND_GIVES = """
import ctypes, resource, sys
cuda = ctypes.CDLL("libcudart.so.13")
block = ctypes.c_void_p()
for turn in range(200_000):
    assert cuda.cudaMalloc(ctypes.byref(block), ctypes.c_size_t(1 << 20)) == 0
    assert cuda.cudaFree(block) == 0
    if turn == 100 and MOST: resource.setrlimit(resource.RLIMIT_FSIZE, (MOST, MOST))
"""


def test_a_part_of_a_recording_is_said_to_be_one(build):
    """Limited, its oldest events are gone; ended by a file that may not grow, its last ones. Whole, nothing is said."""
    ways = {"whole": ("", 0, ""), "limited": ('max_size = "1 MiB"\n', 0, r": its oldest [\d,]+ events are gone"),
            "ended": ("", 300 << 10, r": it ended before its process: .")}
    for name, (limit, most, words) in ways.items():
        with tempfile.TemporaryDirectory() as folder:
            config = pathlib.Path(folder, "recorded.toml")
            config.write_text(f'version = 1\n[recording]\nfile = "{folder}/out.gpumem"\n{limit}')
            run(build, folder, TAKES_AND_GIVES.replace("MOST", str(most)), config)
            said = recommend(build, f"{folder}/out.gpumem")
            exported = subprocess.run([build.tool, "export", "--format", "rmm-csv", f"{folder}/out.gpumem"], env=build.environment(),
                                      capture_output=True, text=True, timeout=60)
            harness.equal(exported.returncode, 0, exported.stderr)
            for stderr in (said.stderr, exported.stderr):
                assert re.search(words, stderr) if words else not stderr, f"{name}: {stderr}"
            of_a_part = "nothing was refused, in the part that is recorded" in " ".join(said.stdout.split())
            harness.equal(of_a_part, name != "whole", f"{name}: {said.stdout}")


def test_a_command_that_is_too_long_for_the_report(build):
    """What is left of a word that was cut is no word, and the report says how much it lacks."""
    with tempfile.TemporaryDirectory() as folder:
        json_file = pathlib.Path(folder, "out.json")
        program = [sys.executable, "-c", TAKES_TOO_MUCH]
        before = sum(len(word) + 1 for word in program)
        for more, kept in (([], 0), (["a" * (4095 - before - 1)], 1), (["a" * (4095 - before)], 0), (["b", "c" * 5000, "d"], 1),
                           (["a" * (4095 - before - 1), ""], 1)):
            json_file.unlink(missing_ok=True)
            done = build.run([*program, *more], preload=True, env={"GPUMEM_JSON": str(json_file), "GPUMEM_SIMULATED_MEMORY": str(1 << 30)})
            harness.equal(done.code, 0, done.stderr)
            report = harness.read_json(json_file.read_text())
            harness.equal(report["process"]["argv"], program + more[:kept], "the words")
            harness.equal(report["truncated"]["argv_bytes"], sum(len(word) + 1 for word in more[kept:]), "what it lacks")
            harness.equal(first(recommend(build, json_file).stdout)[1], "PROGRAM", "the command")


def test_a_refusal_where_no_chain_serves(build):
    """As a first look is done before anything is served."""
    with tempfile.TemporaryDirectory() as folder:
        config = pathlib.Path(folder, "look.toml")
        config.write_text('version = 1\n[route]\ndevice = "passthrough"\n')
        done, report = run(build, folder, TAKES_TOO_MUCH, config, GPUMEM_SIMULATED_MEMORY=str(1 << 30))
        harness.equal(done.stdout, f"{[0] * 10 + [2] * 2}\n", "the program")
        harness.equal([(f["api"], f["refused_by"], f["requested_bytes"]) for f in report["failures"]], [("cuMemAlloc_v2", "driver", 100 << 20)] * 2,
                      "failures")
        asked = [hook for hook in report["intercept"]["hooks"] if hook["symbol"] == "cuMemAlloc_v2"]
        harness.equal([(h["calls"], h["failed"], h["requested_bytes"]) for h in asked], [(12, 2, 1000 << 20)], "the calls")
        assert any("2 allocations failed" in finding["text"] for finding in report["findings"]), report["findings"]
        said = recommend(build, f"{folder}/out.json").stdout
        assert "2 requests refused, the largest of 100.00 MiB while 1,000.00 MiB were held of 1.00 GiB" in " ".join(said.split()), said
        harness.equal(verdicts(said)["larger than memory?"], "yes", said)


TAKES_TOO_MUCH_OF_THE_HOST = TAKES_TOO_MUCH.replace("cudaMalloc(", "cudaMallocHost(") + """
cuda.cudaMalloc(ctypes.byref(blocks[0]), ctypes.c_size_t(1 << 20))
"""


def test_a_refusal_of_host_memory_is_none_of_the_device(build):
    with tempfile.TemporaryDirectory() as folder:
        config = pathlib.Path(folder, "host.toml")
        config.write_text("""version = 1
[route]
host = ["pinned", "pinned_host"]
[resource.pinned]
type = "pool"
maximum_pool_size = "1 GiB"
""")
        done, report = run(build, folder, TAKES_TOO_MUCH_OF_THE_HOST, config)
        harness.equal(done.stdout, f"{[0] * 10 + [2] * 2}\n", "the program")
        harness.equal([f["refused_by"] for f in report["failures"]], ["maximum"] * 2, "failures")
        for file in ("out.json", "out.gpumem"):
            said = recommend(build, f"{folder}/{file}").stdout
            harness.equal(verdicts(said)["larger than memory?"], "no", said)


def test_misuse(build):
    for words in (["x.json", "chain.toml"], ["x.json", "--strict"], ["x.json", "--", "true"], []):
        recommend(build, *words, code=2)
    assert "is not a size" in recommend(build, "x.json", "--device-memory", "much", code=2).stderr


harness.main(globals())
