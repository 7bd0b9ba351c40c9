"""What a report and the command line once said wrongly, each as the person met it: a small program, and what must be told."""
import pathlib
import re
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import harness

MIB, TIB = 1 << 20, 1 << 40
START = """
import ctypes, sys, time
runtime = ctypes.CDLL("libcudart.so.13")
def take(size, name="cudaMalloc", *more):
    p = ctypes.c_void_p()
    return getattr(runtime, name)(ctypes.byref(p), ctypes.c_size_t(size), *more), p
def free(p, name="cudaFree"): return getattr(runtime, name)(p)
"""


def told(build, script, chain=None, code=0):
    """The JSON report, the text report and stderr of a script under a chain."""
    with tempfile.TemporaryDirectory() as name:
        env = {}
        if chain is not None:
            path = pathlib.Path(name) / "chain.toml"
            path.write_text("version = 1\n[route]\n" + chain)
            env["GPUMEM_CONFIG"] = str(path)
        run = build.run([sys.executable, "-c", START + script], preload=True, env=env)
        harness.equal(run.code, code, f"exit code, {run.stderr}")
        (report,), (text,) = run.reports, run.texts
        harness.equal(harness.ledger_faults(report), [], "the ledger")
        return report, text, run.stderr


def node(report, name):
    (found,) = [n for chain in report["chains"] for n in chain["nodes"] if n["name"] == name]
    return found


def test_a_chain_that_could_not_be_built_is_a_finding(build):
    report, text, stderr = told(build, f"assert take({MIB})[0] == 0\n",
                                'device = ["pool", "cuda"]\n[resource.pool]\ninitial_pool_size = "64 GiB"\n')
    harness.equal(report["config"]["unbuilt_chains"], 1, "unbuilt_chains")
    (finding,) = [f for f in report["findings"] if "could not be built" in f["text"]]
    harness.equal((finding["level"], finding["see"]), ("!!", "gpumem check"), "the finding")
    assert "device 0" in finding["text"] and "64.00 GiB" in finding["text"], finding
    assert "!! 1 chain could not be built" in text and "could not be built" in stderr, text + stderr
    harness.equal(told(build, f"take({MIB})\n")[0]["config"]["unbuilt_chains"], 0, "unbuilt_chains of a good one")


def test_devices_that_share_a_row_are_a_finding(build):
    """A report has rows for 16 devices; chains have their own for each."""
    each = f"for device in range(N): assert runtime.cudaSetDevice(device) == 0 and take({MIB})[0] == 0\n"
    for count, wanted in ((16, []), (20, ["devices 15 to 19 are counted together, as device 15, and share its limits"])):
        run = build.run([sys.executable, "-c", START + each.replace("N", str(count))], preload=True, env={"GPUMEM_SIMULATED_DEVICES": str(count)})
        harness.equal(run.code, 0, f"exit code, {run.stderr}")
        harness.equal([f["text"] for f in run.reports[0]["findings"] if "counted together" in f["text"]], wanted, f"{count} devices")
        harness.equal("devices 15 to 19 are counted together" in run.texts[0], count == 20, f"the text of {count} devices")


def test_parts_of_chains_that_share_a_row_are_a_finding(build):
    """A report has rows for 96 parts of chains, in the order in which they are made."""
    chain = ('device = ["guard", "tracking", "statistics", "limiting", "pool", "cuda"]\nmanaged = ["managed_pool", "managed"]\n'
             '[resource.limiting]\nallocation_limit = "1 GiB"\n[resource.managed_pool]\ntype = "pool"\n')
    each = f"""
for device in range(N):
    assert runtime.cudaSetDevice(device) == 0
    kept = [take({MIB}), take({MIB}, "cudaMallocManaged", 1)]
    for code, block in kept: assert code == 0 and free(block) == 0
"""
    with tempfile.TemporaryDirectory() as name:
        path = pathlib.Path(name) / "chain.toml"
        path.write_text("version = 1\n[route]\n" + chain)
        for count, wanted in ((10, []), (16, ['more parts of chains than rows: the figures of "cuda" of device 10 are also those of later parts'])):
            run = build.run([sys.executable, "-c", START + each.replace("N", str(count))], preload=True,
                            env={"GPUMEM_SIMULATED_DEVICES": str(count), "GPUMEM_CONFIG": str(path)})
            harness.equal(run.code, 0, f"exit code, {run.stderr}")
            harness.equal([f["text"] for f in run.reports[0]["findings"] if "parts of chains" in f["text"]], wanted, f"{count} devices")


def test_what_is_refused_was_not_handed_out(build):
    refused = f"for i in range(3): assert take({408 * MIB})[0] == 2\n"
    chains = {"pool": 'device = ["pool", "cuda"]\n[resource.pool]\nmaximum_pool_size = "100 MiB"\n',
              "fixed_size": 'device = ["fixed_size", "cuda"]\n[resource.fixed_size]\nblock_size = "1 MiB"\n',
              "arena": 'device = ["arena", "cuda"]\n[resource.arena]\narena_size = "100 MiB"\n',
              "limiting": 'device = ["limiting", "pool", "cuda"]\n[resource.limiting]\nallocation_limit = "100 MiB"\n'}
    for name, chain in chains.items():
        report, _, _ = told(build, refused, chain)
        part = node(report, name)
        harness.equal((part["requests"], part["failed"], part["hits"], part["handed_out_bytes"], part["now_bytes"]),
                      (3, 3, 0, 0, 0), f"{name}: requests, failed, hits, bytes")
        harness.equal(report["devices"][0]["now"]["requested_bytes"], 0, "requested")


def test_hits_are_what_asked_nothing_upstream(build):
    script = f"blocks = [take({MIB}) for i in range(100)]\nfor code, p in blocks: assert code == 0 and free(p) == 0\n"
    report, _, _ = told(build, script)
    pool = node(report, "pool")
    harness.equal((pool["requests"], pool["hits"] + pool["upstream"]), (100, 100), "requests, hits and upstream")
    harness.equal(node(report, "cuda")["requests"], pool["upstream"], "what the driver was asked for")


def test_remedies_that_could_help(build):
    """32 TiB of a device of 8 GiB are not had by any option; a block of a pool has no block_size."""
    report, text, _ = told(build, f"assert take({32 * TIB})[0] == 2\n")
    (failure,) = report["failures"]
    assert "the device has 8.00 GiB in all" in failure["remedy"] and "block_size" not in text, failure
    report, text, _ = told(build, f"assert take({32 * TIB}, 'cudaMallocAsync', None)[0] == 2\n")
    assert "the device has 8.00 GiB in all" in report["failures"][0]["remedy"], report["failures"]
    report, _, _ = told(build, f"code, p = take({MIB}); free(ctypes.c_void_p(p.value + 512)); free(ctypes.c_void_p(4096))\n",
                        'device = ["tracking", "pool", "cuda"]\n')
    assert all("remedy" not in f for f in report["failures"]) and len(report["misuses"]) == 2, report["failures"]


def test_bytes_of_frees_are_not_half_told(build):
    script = (f"free(take({MIB})[1])\np = take({MIB}, 'cudaMallocManaged', 1)[1]; free(p)\n"
              f"p = take({MIB}, 'cudaMallocHost')[1]; free(p, 'cudaFreeHost')\n")
    report, text, _ = told(build, script)
    for hook in report["intercept"]["hooks"]:
        if hook["kind"] == "free":
            harness.equal(hook.get("requested_bytes"), None, f"bytes of {hook['symbol']}")
            (line,) = [line for line in text.splitlines() if line.startswith(f"  {hook['symbol']} ")]
            harness.equal(line.split()[3], "-", line)
        elif hook["kind"] == "allocate":
            harness.equal(hook["requested_bytes"], MIB, f"bytes of {hook['symbol']}")


def test_a_live_process_has_not_ended(build):
    with tempfile.TemporaryDirectory() as name:
        env = {"GPUMEM_STATE_DIR": name}
        process = subprocess.Popen([sys.executable, "-c", START + f"take({MIB})\nprint('ready', flush=True)\ntime.sleep(60)\n"],
                                   env=build.environment({**env, "LD_PRELOAD": build.preload(), "GPUMEM_REPORT": "none"}),
                                   stdout=subprocess.PIPE, text=True)
        try:
            harness.equal(process.stdout.readline(), "ready\n", "the program")
            done = subprocess.run([build.tool, "report", "--pid", str(process.pid)], env=build.environment(env),
                                  capture_output=True, text=True, timeout=60)
            harness.equal((done.returncode, done.stderr), (0, ""), "report --pid")
            assert "still allocated" not in done.stdout and "running, for" in done.stdout, done.stdout
            assert not re.search(r"\b1 B from before", done.stdout), done.stdout
        finally:
            process.kill()
            process.wait()


def test_reports_of_live_processes_are_as_the_schema_has_them(build):
    """By the Python module, by gpumem report --pid, and of one that ended, with lines of code."""
    module = str(pathlib.Path(__file__).resolve().parents[3] / "shim" / "python")
    script = (START + f"sys.path.insert(0, {module!r})\nimport gpumem, json\ntake({MIB})\n"
              "print(json.dumps(gpumem.get_report()), flush=True)\ntime.sleep(60)\n")
    with tempfile.TemporaryDirectory() as name:
        env = {"GPUMEM_STATE_DIR": name, "LD_PRELOAD": build.preload(), "GPUMEM_REPORT": "none", "GPUMEM_JSON": f"{name}/r.json"}
        process = subprocess.Popen([sys.executable, "-c", script], env=build.environment(env), stdout=subprocess.PIPE, text=True)
        try:
            asked = harness.read_json(process.stdout.readline())
            harness.equal((asked["schema"], asked["devices"][0]["now"]["requested_bytes"]), (2, MIB), "what it said of itself")
            harness.equal((asked["end"]["kind"], asked["end"]["written_by"]), ("running", "gpumem_get_report"), "by itself")
            assert asked["end"]["duration_ns"] > 0, asked["end"]
            assert not any("still allocated" in finding["text"] for finding in asked["findings"]), asked["findings"]
            done = subprocess.run([build.tool, "report", "--pid", str(process.pid), "--json"],
                                  env=build.environment({"GPUMEM_STATE_DIR": name}), capture_output=True, text=True, timeout=60)
            harness.equal(harness.read_json(done.stdout)["end"]["kind"], "running", "from outside")
        finally:
            process.kill()
            process.wait()


def test_nothing_is_always_null(build):
    """A field that no process ever fills says nothing."""
    report, text, _ = told(build, f"take({MIB})\n")
    assert None not in report["self"].values(), report["self"]
    assert "unknown_frees" not in report["intercept"], report["intercept"]
    assert not re.search(r"\b1 B from before", text), text


def test_overhead_is_explained(build):
    text = subprocess.run([build.tool, "report", "--explain", "overhead"], env=build.environment(), capture_output=True,
                          text=True, timeout=60)
    assert text.returncode == 0 and "It means something where" in " ".join(text.stdout.split()), text.stdout + text.stderr
    older = subprocess.run([build.tool, "report", "--explain", "fragmentation"], env=build.environment(), capture_output=True,
                           text=True, timeout=60)
    assert older.returncode == 0 and "overhead" in older.stdout and "10 %" not in older.stdout, older.stdout + older.stderr
    assert " % overhead" in told(build, f"take({MIB})\n")[1], "the text report"


def test_what_the_driver_rounds_is_no_memory_that_nobody_asked_for(build):
    """Blocks of a chain straight over cuda take whole pages of 2 MiB, also of the driver's count when they are gone."""
    blocks = "blocks = [take(1_100_000)[1] for _ in range(1500)]\n"
    for script in (blocks, blocks + "for block in blocks: free(block)\n"):
        report, text, _ = told(build, script, 'device = ["tracking", "cuda"]\n')
        assert not any("came into use" in finding["text"] for finding in report["findings"]), report["findings"]
        assert report["devices"][0]["unseen_since_bytes"] > 1 << 30, report["devices"][0]
        assert "since then: code of kernels, the driver's rounding, other" in text, text


def test_a_small_program_fits_one_screen(build):
    files = [build.program(f"lib/libholding_{name}.so") for name in ("first", "second")]
    for command in ([build.program("runtime_loop.static"), "50"], [build.program("library_holders"), *files],
                    [sys.executable, "-c", START + f"take({MIB})\n"]):
        done = build.run(command, preload=True)
        lines = done.texts[0].splitlines()
        most = 40 if "library_holders" not in command[0] else 44  # leaves blocks, and has libraries
        assert 20 < len(lines) <= most and max(map(len, lines)) <= 96, f"{len(lines)} lines:\n{done.texts[0]}"


def test_words_of_the_state_folder(build):
    """Where it is stands where one looks for it."""
    house = pathlib.Path(__file__).resolve().parents[3]
    for document in ("README.md", "config/REFERENCE.md"):
        text = (house / document).read_text()
        assert "XDG_RUNTIME_DIR/gpumem" in text and "/tmp/gpumem-UID" in text, document
    first = [line for line in (house / "README.md").read_text().splitlines() if line.startswith("LD_PRELOAD=")]
    assert first and all("/libgpumem.so" in line for line in first), f"without a path the loader ignores it: {first}"


if __name__ == "__main__":
    harness.main(globals())
