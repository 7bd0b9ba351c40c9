"""Files that no one wrote in good faith, given to the program `gpumem` and, where it reads them, to a program under us.

Each is answered within seconds, with an error that has the value, the limit and the remedy; nothing crashes or waits for ever.
"""
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import harness

PATIENCE = 30  # seconds; each took 25 or more, or for ever, before it was bounded


def tool(build, *arguments, env=None, **more):
    begin = time.monotonic()
    try:
        done = subprocess.run([build.tool, *arguments], env=build.environment(env), capture_output=True, text=True,
                              errors="replace", timeout=PATIENCE, **more)
    except subprocess.TimeoutExpired:
        raise AssertionError(f"gpumem {arguments}: no answer within {PATIENCE} s") from None
    assert done.returncode in (0, 1, 2), f"gpumem {arguments}: code {done.returncode} {done.stderr[:500]}"
    return done, time.monotonic() - begin


def refused(build, path, *words, verb="report"):
    done, _ = tool(build, verb, path)
    harness.equal(done.returncode, 2, f"{verb} of {path}")
    for word in words:
        assert word in done.stderr, f"{path}: {word!r} is not in {done.stderr[:500]}"


def test_reports_that_are_none(build):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "deep.json").write_text('{"schema":2,"x":' + "[" * 300_000 + "]" * 300_000 + "}")
        refused(build, folder / "deep.json", "deeper than 32")
        (folder / "cut.json").write_text('{"schema":2,"x":')
        refused(build, folder / "cut.json", "cut short")
        with open(folder / "long.json", "w") as out:
            out.write("{")
            out.truncate(1 << 40)
        refused(build, folder / "long.json", "1.00 TiB", "64.00 MiB")
        os.mkfifo(folder / "fifo")
        refused(build, folder / "fifo", "not a file")
        for device in ("/dev/zero", "/dev/tty", str(folder)):
            refused(build, device)


def large_configurations():
    """Below the limit of 256 KiB each, and the worst for one step of the reader."""
    binning = '[resource.{0}]\ntype = "binning"\nbins = [ {{ max = 1, to = "{1}" }}, {{ max = 2, to = "{2}" }} ]\n'
    names = [f"s{i}" for i in range(4500)]
    route = "[route]\ndevice = "
    yield "chain", route + "[" + '"statistics", ' * 15_000 + '"cuda"]\n'
    yield "names", route + "[" + ", ".join(f'"{n}"' for n in names) + ', "cuda"]\n' + "".join(
        f'[resource.{n}]\ntype = "statistics"\n' for n in names)
    yield "rules", "[[rule]]\n" * 28_000
    yield "keys", "[resource.pool]\n" + "".join(f"k{i} = 1\n" for i in range(24_000))
    yield "devices", route + '["pool", "cuda"]\n' + "".join(f"[device.{i}]\npool.growth = 1\n" for i in range(1024))
    yield "bins", route + '["binning", "cuda"]\n[resource.binning]\nbins = [' + ", ".join(
        f"{{ max = {i + 1} }}" for i in range(12_000)) + "]\n"
    yield "chains", route + '["fallback"]\n[resource.fallback]\nchains = [' + '["cuda"], ' * 20_000 + "]\n"
    yield "a tree of bins", route + '["b0", "cuda"]\n' + "".join(
        binning.format(f"{side}{i}", f"b{i + 1}", f"c{i + 1}") for i in range(30) for side in "bc"
    ) + '[resource.b30]\ntype = "pool"\n[resource.c30]\ntype = "pool"\n'
    yield "a tree of fallbacks", route + '["f0"]\n' + "".join(
        f'[resource.f{i}]\ntype = "fallback"\nchains = [["f{i + 1}"], ["f{i + 1}"]]\n' for i in range(30)
    ) + '[resource.f30]\ntype = "cuda"\n'
    yield "bins in bins", route + '["b0", "cuda"]\n' + "".join(
        f'[resource.b{i}]\ntype = "binning"\nbins = [ {{ max = 1, to = "b{i + 1}" }} ]\n' for i in range(3500)
    ) + '[resource.b3500]\ntype = "pool"\n'


def test_large_configurations_are_refused_at_once(build):
    with tempfile.TemporaryDirectory() as name:
        path = pathlib.Path(name) / "large.toml"
        for what, text in large_configurations():
            path.write_text("version = 1\n" + text)
            assert path.stat().st_size <= 256 * 1024, what
            done, seconds = tool(build, "check", path, "--device-memory", "8 GiB")
            assert done.returncode == 2 and "error[E" in done.stderr, f"{what}: {done.returncode} {done.stderr[:300]}"
            assert len(done.stderr) < 100_000, f"{what}: {len(done.stderr)} bytes of errors"
            print(f"{what}: {seconds:.2f} s")
        begin = time.monotonic()
        run = build.run([build.program("runtime_loop.shared"), "1"], preload=True, env={"GPUMEM_CONFIG": str(path)})
        harness.equal(run.code, 78, "a program with it")
        assert time.monotonic() - begin < PATIENCE


def test_pipes(build):
    """A person may pipe a configuration to check; a program never waits for one."""
    with tempfile.TemporaryDirectory() as name:
        fifo = pathlib.Path(name) / "fifo"
        os.mkfifo(fifo)
        run = build.run([build.program("runtime_loop.shared"), "1"], preload=True, env={"GPUMEM_CONFIG": str(fifo)},
                        timeout=PATIENCE)
        assert run.code == 78 and "not a regular file" in run.stderr, f"{run.code} {run.stderr}"
        refused(build, fifo, "nothing came out of this pipe for 10 s", verb="check")
        good, _ = tool(build, "check", "-", input="version = 1\n")
        assert good.returncode == 0 and good.stdout.startswith("standard input: good"), good.stdout + good.stderr
        bad, _ = tool(build, "check", "-", input='version = 1\n[route]\ndevice = ["pol"]\n')
        assert bad.returncode == 2 and "standard input:3:11: error[E301]" in bad.stderr, bad.stderr
        script = f"{build.tool} check <(echo version = 1; sleep 1; echo '[route]')"
        done = subprocess.run(["bash", "-c", script], env=build.environment(), capture_output=True, text=True)
        harness.equal(done.returncode, 0, f"a process substitution: {done.stderr}")
        long, _ = tool(build, "check", "-", input="#" * 300_000)
        assert long.returncode == 2 and "the limit of 256 KiB" in long.stderr, long.stderr


def sparse_elf(path, size=1 << 40, tables=4000):
    """An ELF file of `size` bytes that is nearly all hole, with symbol tables over all of it."""
    head = b"\x7fELF" + bytes([2, 1, 1, 0]) + bytes(8) + struct.pack(
        "<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, 64 + 56, 0, 64, 56, 1, 64, tables, 0)
    segment = struct.pack("<IIQQQQQQ", 1, 5, 0, 0, 0, size, size, 4096)
    section = struct.pack("<IIQQQQIIQQ", 0, 2, 0, 0, 1 << 20, size - (1 << 20), 0, 0, 8, 24)
    path.unlink(missing_ok=True)
    with open(path, "wb") as out:
        out.write(head + segment + section * tables)
        out.truncate(size)
    path.chmod(0o755)


def test_a_sparse_file_in_the_place_of_a_program(build):
    """The report names functions out of files that may have been exchanged since; check looks into any file."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        program = folder / "program"
        program.write_bytes(pathlib.Path(build.program("runtime_loop.shared")).read_bytes())
        program.chmod(0o755)
        (folder / "state").mkdir(mode=0o700)
        (folder / "t.toml").write_text('version = 1\n[route]\ndevice = ["tracking", "pool", "cuda"]\n')
        surroundings = {"GPUMEM_STATE_DIR": str(folder / "state"), "GPUMEM_CONFIG": str(folder / "t.toml")}
        process = subprocess.Popen([program, "2000000"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                   env=build.environment({**surroundings, "LD_PRELOAD": build.preload()}))
        time.sleep(1)
        process.kill()
        process.wait()
        (page,) = (folder / "state").iterdir()
        before, _ = tool(build, "report", page)
        assert before.returncode == 0 and "CHAIN" in before.stdout, before.stderr
        sparse_elf(program)
        after, _ = tool(build, "report", page)
        harness.equal(after.returncode, 0, "the report")
        for loader_needs in (False, True):
            if loader_needs:
                with open(program, "r+b") as file:  # with an interpreter, so that check looks further
                    file.seek(64)
                    file.write(struct.pack("<IIQQQQQQ", 3, 4, 1 << 19, 0, 0, 30, 30, 1))
                    file.seek(1 << 19)
                    file.write(b"/lib64/ld-linux-x86-64.so.2\0")
            tool(build, "check", "--", program)


if __name__ == "__main__":
    harness.main(globals())
