"""The pages of docs as their reader follows them: every file that a page shows is written, every command run, every output compared.

pages.py BUILD [test...]; see harness.main. On the simulated CUDA stand-ins take the place of what is not here: frameworks, launchers,
containers (stand_ins). With GPUMEM_PAGES_ON_A_GPU set, none does: then a page needs what it names, and outputs are not compared.
"""
import dataclasses
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
sys.path.insert(0, str(HERE.parent / "python"))
import harness
import limits_of_tests

ROOT = HERE.parents[2]
DOCS = ROOT / "docs"
ON_A_GPU = "GPUMEM_PAGES_ON_A_GPU" in os.environ
# Where libcudart is, for Python programs on a GPU.
CUDA = ":".join([*filter(None, [os.environ.get("LD_LIBRARY_PATH")]), "/usr/local/cuda/lib64"])
# What the stand-ins cannot do: these blocks, by their first line, are for a machine with a GPU, a cluster or a container's image.
NOT_HERE = {
    "start.md": {"scripts/setup.sh": "it is built already"},
    "deploy.md": {"FROM docker.io/library/debian:12-slim": "no image can be built here"},
}
WARNS = "GPUMEM_STATE_DIR=/proc/nowhere"  # what a block that may warn has
# What a page calls so, and which program of the build it is.
PROGRAMS = {"solver": "runtime_loop.static", "any_cuda_program": "runtime_loop.shared"}
LIBRARIES = {"libc10_cuda.so": "holding_first", "xla_cuda_plugin.so": "holding_second", "librmm.so": "holding_first"}
WRITTEN = ("toml", "python", "yaml", "dockerfile")


@dataclasses.dataclass
class Block:
    words: list
    text: str
    line: int


def blocks_of(page):
    found, begin = [], None
    for number, line in enumerate(page.read_text().splitlines(), 1):
        if line.startswith("```"):
            if begin is None:
                begin, words, text = number, line[3:].split(), []
            else:
                found.append(Block(words, "".join(f"{each}\n" for each in text), begin))
                begin = None
        elif begin is not None:
            text.append(line)
    assert begin is None, f"{page}:{begin}: a block without an end"
    return found


class Reader:
    """A user with a fresh folder, who has installed gpumem; or in a clone, with a build and nothing installed."""

    def __init__(self, build, folder, clone=False):
        self.build, self.folder = build, pathlib.Path(folder)
        (self.folder / "bin").mkdir()
        (self.folder / "libraries").mkdir()
        (self.folder / "work").mkdir()
        if clone:
            for name in ("config", "docs", "shim"):
                (self.folder / "work" / name).symlink_to(ROOT / name)
            (self.folder / "work" / "build").symlink_to(build.folder)
        else:
            self._command("gpumem", build.tool)
        if not ON_A_GPU:                        # that of a virtual environment finds its modules by its own place
            self._command("python3", sys.executable)
        try:
            script = f'#!/bin/sh\nexec {limits_of_tests.python_with_pytest()} -m pytest -p gpumem.pytest_plugin -p no:cacheprovider "$@"\n'
            self._script("pytest", script)
        except harness.Skipped:
            self._script("pytest", "#!/bin/sh\nexit 77\n")
        for name, program in PROGRAMS.items():
            (self.folder / "work" / name).symlink_to(build.program(program))
        for name, library in {} if ON_A_GPU else LIBRARIES.items():
            shutil.copy(build.folder / "programs" / "lib" / f"lib{library}.so", self.folder / "libraries" / name)
        path = [str(self.folder / "bin")] + ([] if ON_A_GPU else [str(HERE / "stand_ins" / "bin")]) + [os.environ["PATH"]]
        modules = [str(ROOT / "shim" / "python"), *filter(None, [os.environ.get("PYTHONPATH")])]
        if not ON_A_GPU:
            modules.insert(0, str(HERE / "stand_ins" / "site-packages"))
        self.env = build.environment({
            "PATH": ":".join(path), "PYTHONPATH": ":".join(modules), "PYTHONDONTWRITEBYTECODE": "1", "HOME": str(self.folder),
            "STAND_IN_LIBRARIES": str(self.folder / "libraries"), "GPUMEM_STATE_DIR": str(self.folder / "state"), "COLUMNS": "96",
            "XDG_RUNTIME_DIR": None})
        if ON_A_GPU:
            self.env["LD_LIBRARY_PATH"] = CUDA

    def _command(self, name, path):
        (self.folder / "bin" / name).symlink_to(path)

    def _script(self, name, text):
        (self.folder / "bin" / name).write_text(text)
        (self.folder / "bin" / name).chmod(0o755)

    def here(self, text):
        """What is installed there is in the build here."""
        text = text.replace("/usr/lib/gpumem/libgpumem.so", str(self.build.library))
        return text.replace("/usr/share/gpumem/examples", str(ROOT / "config" / "examples"))

    def write(self, name, text):
        (self.folder / "work" / name).write_text(self.here(text))

    def run(self, text):
        """What a block exports holds in the next one."""
        kept = self.folder / "exported"
        script = f"{kept.read_text() if kept.exists() else ''}\n{self.here(text)}\nexport -p > {kept}"
        done = subprocess.run(["bash", "-euo", "pipefail", "-c", script], cwd=self.folder / "work", env=self.env,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=100)
        return done.returncode, done.stdout


def plain(line):
    """A line without what differs from run to run: moments, numbers of processes and threads, addresses, checksums, host."""
    line = re.sub(r"\b\d+:\d\d(\.\d+)?\b", "TIME", line)
    line = re.sub(r"\b(pid|thread) \d+", r"\1 N", line)
    line = re.sub(r"0x[0-9a-f]+", "ADDRESS", line)
    line = re.sub(r"sha256 [0-9a-f]+", "sha256 N", line)
    line = re.sub(r"=+", "=", line)
    line = re.sub(r"host +\S+", "host N", line)
    return " ".join(line.split())


def missing_lines(wanted, output):
    """Lines that a page shows of an output, in their order; `...` stands for any, alone for any number of lines."""
    lines, at, faults = [plain(line) for line in output.splitlines()], 0, []
    for line in wanted.splitlines():
        if not line.strip() or line.strip() == "...":
            continue
        pattern = ".*".join(re.escape(part.strip()) for part in plain(line).split("..."))
        found = next((i for i in range(at, len(lines)) if re.fullmatch(pattern, lines[i])), None)
        if found is None:
            faults.append(line)
        else:
            at = found + 1
    return faults


def follow(build, name):
    page = DOCS / name
    blocks, output, ran = blocks_of(page), None, 0
    left_out = dict(NOT_HERE.get(name, {}))
    with tempfile.TemporaryDirectory(prefix="gpumem-page.") as folder:
        reader = Reader(build, folder, clone=name == "start.md")
        for block in blocks:
            where = f"docs/{name}:{block.line}"
            if left_out.pop(block.text.partition("\n")[0], None):
                continue
            kind = block.words[0] if block.words else ""
            if kind == "sh":
                code, output = reader.run(block.text)
                failed = "fails" in block.words[1:]
                if code == 77 and ON_A_GPU:     # no pytest there
                    continue
                assert code != 77, f"{where}: a command has nothing to run with"
                assert (code != 0) == failed, f"{where}: exit code {code}\n{block.text}{output}"
                assert "gpumem: warning" not in output or WARNS in block.text, f"{where}: a warning\n{block.text}{output}"
                ran += 1
            elif kind in WRITTEN and len(block.words) == 2:
                reader.write(block.words[1], block.text)
                if kind == "toml":
                    code, said = reader.run(f"gpumem check {block.words[1]}")
                    assert code == 0, f"{where}: {said}"
            elif kind == "text" and output is not None:
                absent = [] if ON_A_GPU else missing_lines(block.text, output)
                assert not absent, f"{where}: not in the output:\n" + "\n".join(absent) + f"\nthe output:\n{output}"
            else:
                raise AssertionError(f"{where}: a block that no test looks at: {block.words}")
    assert not left_out, f"{name}: blocks that are not there any more: {left_out}"
    return ran


def test_start(build):
    assert follow(build, "start.md") > 5


def test_pytorch(build):
    assert follow(build, "pytorch.md") > 5


def test_jax(build):
    assert follow(build, "jax.md") > 2


def test_rapids(build):
    assert follow(build, "rapids.md") > 2


def test_hpc(build):
    assert follow(build, "hpc.md") > 4


def test_deploy(build):
    assert follow(build, "deploy.md") > 4


STRATEGIES = DOCS / "strategies"
NAMES = ("plain", "pool", "fixed_size", "binning", "arena", "cuda_async", "managed_prefetch", "limiting")
EVENT = re.compile(r"^\d+,[\d:.]+,(allocate|free),0x[0-9a-f]+,(\d+),\w+,\d+,device,.*$", re.M)


def transcript(build, command, name):
    env = {"GPUMEM_CONFIG": str(STRATEGIES / f"{name}.toml"), **({"LD_LIBRARY_PATH": CUDA} if ON_A_GPU else {})}
    done = build.run([*command, name], preload=True, env=env)
    harness.equal(done.code, 0, f"{name}: {done.stderr}")
    said = re.sub(r"^Thread,Time,.*\n", "", done.stderr, flags=re.M)
    said = EVENT.sub(lambda found: f"    driver: {found[1]} {int(found[2]):,} bytes", said)
    return said, done.reports[0]


def strategy_part(text, name):
    """What the page says of one strategy: its section."""
    return re.search(rf"^## [^\n]*`{name}`[^\n]*\n(.*?)(?=^## |\Z)", text, re.M | re.S).group(1)


def function_of(source, name, begin, end):
    return re.search(rf"^{begin.format(name)}\n.*?{end}", source, re.M | re.S).group(0)


def strategies_of(build):
    """Of each strategy both programs' words, and the driver's calls below the call that caused them."""
    python = [shutil.which("python3") if ON_A_GPU else sys.executable, str(STRATEGIES / "strategies.py")]
    for name in NAMES:
        both = []
        for command in ([build.program("strategies.shared")], [build.program("strategies.static")], python):
            said, report = transcript(build, command, name)
            both.append(said)
            assert harness.ledger_faults(report) == [], harness.ledger_faults(report)
        harness.equal(both[1:], both[:1] * 2, f"{name}: static cudart and Python against shared cudart")
        yield name, both[0]


def test_strategies(build):
    """The page shows the chains, the functions and the output as they are; UPDATE_GOLDEN=1 writes the outputs."""
    page = DOCS / "strategies.md"
    with tempfile.TemporaryDirectory(prefix="gpumem-page.") as folder:
        reader = Reader(build, folder)
        commands = [block.text for block in blocks_of(page) if block.words == ["sh"]]
        assert commands, "no command"
        for command in commands:
            code, output = reader.run(f"cd {ROOT}\n{command}")
            assert code == 0 and len(EVENT.findall(output)) > 1, f"{command}{output}"
    sources = {"cpp": (STRATEGIES / "strategies.cpp").read_text(), "python": (STRATEGIES / "strategies.py").read_text()}
    for name, said in strategies_of(build):
        text = page.read_text()
        part = strategy_part(text, name)
        shown = {kind: re.findall(rf"```{kind}\n(.*?)```", part, re.S) for kind in ("toml", "cpp", "python", "text")}
        harness.equal(shown["toml"], [(STRATEGIES / f"{name}.toml").read_text()], f"{name}: the chain")
        harness.equal(shown["cpp"], [function_of(sources["cpp"], name, r"void {}\(\) \{{", r"^\}\n")], f"{name}: in C++")
        harness.equal(shown["python"], [function_of(sources["python"], name, r"def {}\(\):", r"\n(?=\n\n)")], f"{name}: in Python")
        if os.environ.get("UPDATE_GOLDEN"):
            page.write_text(text.replace(part, re.sub(r"```text\n.*?```", lambda _: f"```text\n{said}```", part, flags=re.S)))
        else:
            harness.equal(shown["text"], [said], f"{name}: the output")


def test_every_variable_is_one(build):
    """Of those that the pages for users of a program name."""
    known = set(re.findall(r'^GPUMEM_VARIABLE\("(\w+)"', (ROOT / "config" / "schema" / "schema.def").read_text(), re.M))
    for name in ("start", "pytorch", "jax", "rapids", "hpc", "deploy", "strategies", "debugging", "recording", "rmm"):
        named = set(re.findall(r"\bGPUMEM_[A-Z_]+\b", (DOCS / f"{name}.md").read_text()))
        assert named <= known, f"docs/{name}.md: {named - known}"


if __name__ == "__main__":
    harness.main(globals())
