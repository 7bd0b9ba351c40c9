"""Who holds memory: libraries that take known sizes, against what the report says of each.

holders.py BUILD [test...]; see harness.main. The program is tests/programs/library_holders.cpp.
"""
import pathlib
import re
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import harness

MIB = 1 << 20
CHAINS = (None, '[route]\ndevice = ["cuda"]\n', '[route]\ndevice = "passthrough"\n', '[route]\ndevice = ["arena", "cuda"]\n',
          '[route]\ndevice = ["statistics", "binning", "pool", "cuda"]\n[resource.binning]\nbins = [ { max = "1 MiB" } ]\n')


def libraries(build, config, *arguments):
    """By file name: (now, highest, when all held most); and the whole run."""
    with tempfile.TemporaryDirectory(prefix="gpumem-holders.") as folder:
        env = {}
        if config is not None:
            (pathlib.Path(folder) / "chain.toml").write_text("version = 1\n" + config)
            env["GPUMEM_CONFIG"] = str(pathlib.Path(folder) / "chain.toml")
        files = [build.program(f"lib/libholding_{name}.so") for name in ("first", "second")]
        done = build.run([build.program("library_holders"), *files, *arguments], preload=True, env=env, cwd=folder)
    harness.equal((done.code, done.stdout), (0, "done\n"), done.stderr)
    report = done.reports[0]
    harness.equal(harness.ledger_faults(report, done.known[report["process"]["pid"]], noted=False), [], config)
    rows = {pathlib.Path(row.get("path", "")).name: (row["routed_bytes"] + row["observed_bytes"], row["highest_bytes"], row["at_highest_bytes"])
            for row in report["devices"][0]["libraries"]}
    return rows, done


def test_each_has_what_it_took(build):
    for config in CHAINS:
        rows, _ = libraries(build, config)
        # A free by another library is its own no more; the program's row is its file's.
        harness.equal(rows["libholding_first.so"][0], 64 * MIB, f"the first, now, under {config}")
        harness.equal(rows["libholding_second.so"][0], 48 * MIB, f"the second, now, under {config}")
        harness.equal(rows["library_holders"][0], 5 * MIB, f"the program, now, under {config}")
        for name, truth in (("libholding_first.so", 96), ("libholding_second.so", 48), ("library_holders", 5)):
            for figure, what in zip(rows[name][1:], ("highest", "when all held most")):
                # Within 1 %, or 8 MiB, of the moment.
                assert truth * MIB - 8 * MIB <= figure <= truth * MIB, f"{name}, {what}: {figure:,} under {config}"


def test_the_text_says_it(build):
    _, done = libraries(build, None)
    text = done.texts[0]
    assert "WHO device 0" in text, text
    lines = [line.split() for line in text.splitlines() if "libholding_first.so" in line]
    harness.equal(lines and lines[0][1:3], ["64.00", "MiB"], text)
    together = next(line.split() for line in text.splitlines() if line.startswith("  together"))
    harness.equal(together[1:3], ["117.00", "MiB"], "all of them")


def test_a_refusal_names_who_holds_most(build):
    for config in CHAINS:
        _, done = libraries(build, config, "full")
        failure = done.reports[0]["failures"][0] if config != CHAINS[2] else None
        if failure is None:  # nothing of ours refused it
            continue
        names = [pathlib.Path(holder.get("path", "")).name for holder in failure["libraries"]]
        harness.equal(names, ["libholding_first.so", "libholding_second.so"], config)
        harness.equal(failure["libraries"][1]["held_bytes"], 64 * MIB, config)
        harness.equal(sum(holder["held_bytes"] for holder in failure["libraries"]), failure["held_bytes"], config)
        assert re.search(r"; \d+ % \([\d.]+ GiB\) is held by libholding_first.so", failure["remedy"]), failure["remedy"]
        assert "held by     libholding_first.so" in done.texts[0], done.texts[0]


def test_a_program_alone_is_not_told(build):
    done = build.run([build.program("ledger_stories"), "resets"], preload=True)
    assert "WHO" not in done.texts[0], done.texts[0]


def test_unloaded_libraries_keep_their_names(build):
    # Where one lay the other lies next.
    rows, _ = libraries(build, None, "again")
    first, second = rows["libholding_first.so"][0], rows["libholding_second.so"][0]
    harness.equal((first, second), (100 * MIB, 100 * MIB), "each took as much")


harness.main(globals())
