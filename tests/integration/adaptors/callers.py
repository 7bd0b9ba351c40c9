"""`tracking`, `guard` and `statistics` in whole programs: what the report says, by call site, with file and line."""
import json
import os
import pathlib
import re
import signal
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import harness

CONFIG = """version = 1
[route]
device = {chain}
managed = {managed}
[resource.tracking]
capture_stacks = {stacks}
[resource.statistics]
callsites = true
"""


def run(build, program, argument, chain, stacks=False, managed=("managed",), **how):
    """Runs tests/programs/leaks; (outcome, the document, the text that `gpumem report` makes of it with lines)."""
    with tempfile.TemporaryDirectory() as folder:
        config = pathlib.Path(folder, "chain.toml")
        config.write_text(CONFIG.format(chain=json.dumps(chain), managed=json.dumps(managed), stacks=str(stacks).lower()))
        env = {"GPUMEM_CONFIG": str(config)}
        if build.simulated:  # the stand-in runtime notes this program's calls, so it must be called
            env["CUDA_INJECTION64_PATH"] = "watched"
        ran = build.run([build.program(program), argument], preload=True, env=env, **how)
        if argument != "writes":  # what a driver says to a write behind a block of its own is up to it
            plain = build.run([build.program(program), argument])
            harness.equal((ran.code, ran.stdout), (plain.code, plain.stdout), "exit code and output")
        harness.equal((ran.code, ran.stdout), (0, f"done: {argument}\n"), "exit code and output")
        document = ran.reports[0]
        harness.equal(harness.ledger_faults(document), [], "the ledger")
        saved = pathlib.Path(folder, "saved.json")
        saved.write_text(json.dumps(document))
        shown = build.run([str(build.tool), "report", str(saved)])
        harness.equal(shown.code, 0, f"`gpumem report`: {shown.stderr}")
        return ran, document, shown.stdout


def section(text, title):
    """The lines of one section, from its title to the empty line."""
    found = re.search(rf"^{title}.*?(?=^\n|^$)", text, re.MULTILINE | re.DOTALL)
    assert found, f"no section {title} in:\n{text}"
    return found.group(0)


def same_as_file(text, name):
    path = HERE / "expected" / name
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(text)
    assert path.exists(), f"{path} is missing: UPDATE_GOLDEN=1 writes it"
    faults = harness.first_difference(name, path.read_text(), text)
    assert not faults, "\n".join(faults + [text])


def without_addresses(text):
    text = re.sub(r"0x[0-9a-f]+", "0xADDRESS", text)
    return re.sub(r"^  \d+:\d\d\.\d+", "  TIME", text, flags=re.MULTILINE)


def needs_addr2line():
    harness.require_tool("addr2line")


def test_37_leaks_at_3_call_sites(build):
    needs_addr2line()
    _, document, text = run(build, "leaks.shared", "leaks", ["tracking", "pool", "cuda"])
    leaks = section(text, "LEAKS")
    same_as_file(leaks, "leaks.txt")
    live = sum(s["allocations"] - s["frees"] for s in document["call_sites"])
    harness.equal(live, 37, "live blocks of all call sites")
    harness.equal(live, document["devices"][0]["live_blocks"], "the same by the device's counters")
    assert any("LEAKS" in f.get("see", "") for f in document["findings"]), "no finding points to the leaks"


def test_37_leaks_by_figures(build):
    _, document, _ = run(build, "leaks.shared", "leaks", ["tracking", "pool", "cuda"])
    live = [(s["allocations"] - s["frees"], s["allocated_bytes"] - s["freed_bytes"]) for s in document["call_sites"]]
    harness.equal([row for row in live if row[0]], [(7, 7 << 20), (10, 10 * (64 << 10)), (20, 20000)], "live by call site")


def test_37_leaks_through_a_static_runtime(build):
    needs_addr2line()
    _, _, text = run(build, "leaks.static", "leaks", ["tracking", "pool", "cuda"], stacks=True)
    leaks = section(text, "LEAKS")
    for row in ("20 +[0-9.]+ KiB  leaks.cpp:[0-9]+ .*take_small", "10 +[0-9.]+ KiB  leaks.cpp:[0-9]+ .*take_medium",
                "7 +7.00 MiB  leaks.cpp:[0-9]+ .*take_large", "from leaks.cpp:[0-9]+ .*leak"):
        assert re.search(row, leaks), f"{row!r} is not in:\n{leaks}"
    assert "37 blocks" in leaks and "3 call sites" in leaks, leaks


def test_a_static_runtime_without_stacks_is_said(build):
    _, document, text = run(build, "leaks.static", "leaks", ["tracking", "pool", "cuda"])
    assert document["intercept"]["cudart"] == "static", document["intercept"]
    assert "capture_stacks = true" in section(text, "LEAKS"), text


def test_the_report_of_the_process_names_functions(build):
    _, document, _ = run(build, "leaks.shared", "leaks", ["tracking", "pool", "cuda"])
    names = {s["frames"][0].get("symbol") for s in document["call_sites"] if s["allocations"] > s["frees"]}
    assert all(name and "take_" in name for name in names), names
    assert all("file" not in s["frames"][0] for s in document["call_sites"]), "a line without addr2line?"


def test_wrong_frees(build):
    needs_addr2line()
    _, document, text = run(build, "leaks.shared", "frees", ["tracking", "pool", "cuda"])
    harness.equal([m["kind"] for m in document["misuses"]], ["double free", "interior free", "foreign free"], "misuses")
    same_as_file(without_addresses(section(text, "MISUSE")), "wrong_frees.txt")


def test_frees_as_other_memory(build):
    ran, document, text = run(build, "leaks.shared", "crossed", ["tracking", "pool", "cuda"])
    harness.equal([(m["kind"], m["offset_bytes"], m["block_bytes"]) for m in document["misuses"]], [("interior free", 0, 1000)], "misuses")
    for where in (text, ran.stderr):
        harness.equal(len(re.findall("was freed .*by a function for other memory", where)), 1, where)


def test_wrong_frees_without_a_pool(build):
    _, document, _ = run(build, "leaks.shared", "frees", ["tracking", "cuda"])
    harness.equal([m["kind"] for m in document["misuses"]], ["double free", "interior free", "foreign free"], "misuses")


def test_wrong_frees_where_every_chain_tracks(build):
    _, document, _ = run(build, "leaks.shared", "frees beside other chains", ["tracking", "pool", "cuda"], managed=["tracking", "managed"])
    harness.equal([m["kind"] for m in document["misuses"]], ["double free", "interior free", "foreign free"], "misuses")
    assert all("allocated_at" in m for m in document["misuses"][:2]), document["misuses"]


def test_damaged_zones_are_shown(build):
    needs_addr2line()
    _, _, text = run(build, "leaks.shared", "writes", ["guard", "pool", "cuda"])
    same_as_file(without_addresses(section(text, "MISUSE")), "damaged_zones.txt")


def test_damaged_zones(build):
    ran, document, _ = run(build, "leaks.shared", "writes", ["guard", "pool", "cuda"])
    harness.equal([(m["block_bytes"], m["offset_bytes"], m["damaged_bytes"]) for m in document["misuses"]],
                  [(3000, 3004, 3), (1 << 20, 1 << 20, 1)], "block, offset and bytes of each damage")
    harness.equal(len([line for line in ran.stderr.splitlines() if "was written to behind its end" in line]), 2,
                  f"lines on stderr in {ran.stderr!r}")


def test_guard_leaves_programs_alone(build):
    """Under `guard` what a program reads is what it wrote: kernels, streams, threads, captures."""
    for name, *arguments in (["runtime_loop.shared"], ["async_streams.static"], ["threads.shared"], ["captures.shared"],
                             ["reuse.shared", "10"]):
        with tempfile.TemporaryDirectory() as folder:
            config = pathlib.Path(folder, "chain.toml")
            config.write_text('version = 1\n[route]\ndevice = ["guard", "tracking", "statistics", "pool", "statistics2", "cuda"]\n'
                              '[resource.statistics2]\ntype = "statistics"\n')
            command = [build.program(name), *arguments]
            plain = build.run(command)
            ran = build.run(command, preload=True, env={"GPUMEM_CONFIG": str(config)})
            harness.equal(harness.differences(plain, ran), [], name)
            harness.equal(ran.reports[0]["misuses"], [], f"misuses of {name}")
            harness.equal(harness.count_faults(ran), [], f"counts of {name}")


def test_statistics_agree_with_the_program(build):
    ran, document, text = run(build, "leaks.shared", "leaks", ["statistics", "pool", "cuda"])
    node = document["chains"][0]["nodes"][0]
    figures = node["statistics"]
    harness.equal([figures[f"{when}_blocks"] for when in ("now", "highest", "total")], [37, 38, 100], "blocks")
    handed = 20 * 1024 + 10 * (64 << 10) + 7 * (1 << 20)
    harness.equal(figures["now_bytes"], handed, "bytes now")
    harness.equal([(s["up_to_bytes"], s["requests"]) for s in figures["sizes"]], [(1024, 40), (65536, 30), (1 << 20, 30)], "sizes")
    sites = [(s["allocations"], s["allocated_bytes"]) for s in document["call_sites"]]
    harness.equal(sites, [(30, 30 << 20), (30, 30 * (64 << 10)), (40, 40000)], "call sites, most bytes first")
    assert re.search(r"highest +[0-9.]+ MiB in 38 blocks", text), text


def test_leaks_are_known_after_kill_9(build):
    with tempfile.TemporaryDirectory() as folder:
        config = pathlib.Path(folder, "chain.toml")
        config.write_text(CONFIG.format(chain='["tracking", "pool", "cuda"]', managed='["managed"]', stacks="false"))
        ran = build.run([build.program("exits.shared"), "kill"], tool=["-q"], env={"GPUMEM_CONFIG": str(config)})
        harness.equal(ran.code, 128 + signal.SIGKILL, "exit code")
        document, = ran.reports
        live = sum(s["allocations"] - s["frees"] for s in document["call_sites"])
        harness.equal(live, 5, "live blocks of all call sites")


if __name__ == "__main__":
    harness.main(globals())
