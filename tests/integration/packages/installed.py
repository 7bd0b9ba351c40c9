"""What `cmake --install` puts into a folder, and what the wheel holds: it runs from there, and says all that there is.

installed.py BUILD [test...]; see harness.main. Needs neither root nor network; scripts/package.sh --check tries the packages
in clean roots.
"""
import csv
import io
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import zipfile

HERE = pathlib.Path(__file__).resolve()
ROOT = HERE.parents[3]
sys.path.insert(0, str(HERE.parent.parent))
import harness

VERBS = ("run", "check", "report", "export")


def install(build, folder):
    done = subprocess.run(["cmake", "--install", str(build.folder), "--prefix", folder], capture_output=True, text=True, timeout=60)
    harness.equal(done.returncode, 0, f"cmake --install: {done.stdout}{done.stderr}")
    return pathlib.Path(folder)


def options(build, *verb):
    """All that the help names: the oracle of manual and completions."""
    text = subprocess.run([build.tool, *verb, "--help"], capture_output=True, text=True, timeout=20, check=True).stdout
    found = set()
    for line in text.splitlines():
        listed = re.match(r"  (-\S+)", line)
        if listed:
            found.update(word.split(" ")[0] for word in listed.group(1).split(","))
    assert {"-h", "--help"} <= found, text
    return found


def version():
    return re.search(r"^project\(gpumem VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text(), re.M).group(1)


def test_a_program_from_there(build):
    with tempfile.TemporaryDirectory() as folder:
        tree = install(build, folder)
        program = build.program("runtime_loop.static")
        plain = build.run([program, "50"])
        env = {**os.environ, "LD_LIBRARY_PATH": str(build.simulated), "GPUMEM_STATE_DIR": f"{folder}/state"}
        for variable in ("GPUMEM_CONFIG", "GPUMEM_REPORT", "GPUMEM_JSON", "LD_PRELOAD"):
            env.pop(variable, None)
        library = str(tree / "lib" / "gpumem" / "libgpumem.so")
        for command, more in (([program, "50"], {"LD_PRELOAD": library}), ([str(tree / "bin" / "gpumem"), "run", "-q", program, "50"], {})):
            done = subprocess.run(command, env={**env, **more}, capture_output=True, text=True, timeout=60)
            harness.equal((done.returncode, done.stdout), (0, plain.stdout), f"{command[0]}: {done.stderr}")
            assert "50 of 50 allocations routed" in done.stderr, done.stderr
        said = subprocess.run([tree / "bin" / "gpumem", "-V"], capture_output=True, text=True, timeout=20, check=True).stdout
        harness.equal(said.splitlines(), [f"gpumem {version()}", f"library {os.path.realpath(library)}"], "gpumem -V")


def test_a_new_version_beside_processes_that_run_the_old_one(build):
    """The old file stays as it is for who has mapped it, down to code that was never read: a new one is put in its place."""
    with tempfile.TemporaryDirectory() as folder:
        tree = install(build, f"{folder}/tree")
        library = tree / "lib" / "gpumem" / "libgpumem.so"
        env = {**os.environ, "LD_LIBRARY_PATH": str(build.simulated), "LD_PRELOAD": str(library), "GPUMEM_STATE_DIR": f"{folder}/state",
               "GPUMEM_REPORT": "stderr"}
        running = subprocess.Popen([build.program("runtime_loop.static"), "20000"], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   text=True)
        try:
            while running.poll() is None and not list(pathlib.Path(folder, "state").glob("*")):  # a page: it made its first call
                time.sleep(0.01)
            running.send_signal(signal.SIGSTOP)
            old = library.stat()
            os.utime(library, (1, 1))  # or cmake takes it for what it would put there
            install(build, tree)
            assert library.stat().st_ino != old.st_ino, "the file that a process runs was written into"
            new = subprocess.run([build.program("runtime_loop.static"), "50"], env=env, capture_output=True, text=True, timeout=60)
            assert new.returncode == 0 and "50 of 50 allocations routed" in new.stderr, new.stderr
            harness.equal(running.poll(), None, "the end of the process before the new version came")
            running.send_signal(signal.SIGCONT)
            _, said = running.communicate(timeout=60)
            harness.equal(running.returncode, 0, said)
            assert "20,000 of 20,000 allocations routed" in said, said
        finally:
            running.kill()
            running.wait()


CONSUMER = """cmake_minimum_required(VERSION 3.25)
project(consumer LANGUAGES C)
find_package(gpumem CONFIG REQUIRED)
add_executable(asks asks.c)
target_link_libraries(asks PRIVATE gpumem::gpumem)
"""
ASKS = """#include <gpumem/gpumem.h>
#include <stdio.h>
int main(void) { printf("loaded %d\\n", gpumem_is_loaded()); return 0; }
"""


def test_a_program_that_asks_is_built_against_it(build):
    with tempfile.TemporaryDirectory() as folder:
        tree = install(build, f"{folder}/tree")
        harness.equal(sorted(path.name for path in (tree / "include" / "gpumem").iterdir()), ["gpumem.h", "memory_resource.hpp"], "headers")
        source = pathlib.Path(folder)
        (source / "CMakeLists.txt").write_text(CONSUMER)
        (source / "asks.c").write_text(ASKS)
        for command in (["cmake", "-S", folder, "-B", f"{folder}/build", f"-DCMAKE_PREFIX_PATH={tree}", "-DCMAKE_POSITION_INDEPENDENT_CODE=ON"],
                        ["cmake", "--build", f"{folder}/build"]):
            done = subprocess.run(command, capture_output=True, text=True, timeout=60)
            harness.equal(done.returncode, 0, f"{command}: {done.stdout}{done.stderr}")
        flags = [line.partition(":")[2].split() for line in (tree / "lib" / "pkgconfig" / "gpumem.pc").read_text().splitlines()
                 if line.startswith("Cflags:")][0]
        prefix = str(tree / "lib" / "pkgconfig" / ".." / "..")
        flags = [flag.replace("${prefix}", prefix) for flag in flags]
        subprocess.run(["cc", "-fPIE", "-pie", *flags, f"{folder}/asks.c", "-o", f"{folder}/by_flags"], check=True, timeout=60)
        for program in (f"{folder}/build/asks", f"{folder}/by_flags"):
            for preload, said in (("", "loaded 0\n"), (str(tree / "lib" / "gpumem" / "libgpumem.so"), "loaded 1\n")):
                env = {key: value for key, value in os.environ.items() if key != "LD_PRELOAD"} | ({"LD_PRELOAD": preload} if preload else {})
                done = subprocess.run([program], env=env, capture_output=True, text=True, timeout=20)
                harness.equal((done.returncode, done.stdout), (0, said), f"{program}, {preload}")


def test_examples_are_good(build):
    with tempfile.TemporaryDirectory() as folder:
        tree = install(build, folder)
        examples = sorted((tree / "share" / "gpumem" / "examples").rglob("*.toml"))
        harness.equal(len(examples), len(list((ROOT / "config" / "examples").rglob("*.toml"))), "examples")
        done = subprocess.run([tree / "bin" / "gpumem", "check", examples[0]], capture_output=True, text=True, timeout=20)
        harness.equal(done.returncode, 0, done.stdout + done.stderr)


def test_the_schema_of_the_report_is_there(build):
    with tempfile.TemporaryDirectory() as folder:
        there = install(build, folder) / "share" / "gpumem" / "report.schema.json"
        harness.equal(there.read_bytes(), (ROOT / "core" / "report" / "report.schema.json").read_bytes(), "the installed schema")


def test_man_pages_name_every_option(build):
    pages = build.folder / "documents"
    for verb in [(), *((verb,) for verb in VERBS)]:
        text = (pages / f"{'-'.join(('gpumem',) + verb)}.1").read_text().replace("\\-", "-")
        named = {word for line in re.findall(r"^\.B (-.*)$", text, re.M) for word in re.split("[ ,]+", line) if word[0] == "-"}
        harness.equal(named, options(build, *verb), f"options in the page of {verb or 'gpumem'}")
    text = (pages / "gpumem.1").read_text()
    for name in re.findall(r'^GPUMEM_VARIABLE\("(\w+)"', (ROOT / "config" / "schema" / "schema.def").read_text(), re.M):
        assert f".B {name}\n" in text, f"{name} is not in gpumem(1)"
    for verb in VERBS:
        assert f".B {verb}\n" in text, f"{verb} is not in gpumem(1)"


def test_man_pages_are_good_roff(build):
    if shutil.which("groff") is None:
        raise harness.Skipped("no groff")
    for page in sorted((build.folder / "documents").glob("*.1")):
        done = subprocess.run(["groff", "-man", "-Tascii", "-ww", "-z", page], capture_output=True, text=True, timeout=30)
        harness.equal((done.returncode, done.stderr), (0, ""), page.name)


def completed(build, *words):
    script = ('source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _gpumem; '
              '[ ${#COMPREPLY[@]} = 0 ] || printf "%s\\n" "${COMPREPLY[@]}"')
    done = subprocess.run(["bash", "--norc", "-c", script, "bash", build.folder / "documents" / "gpumem.bash", "gpumem", *words],
                          capture_output=True, text=True, timeout=20, cwd=ROOT / "config")
    harness.equal((done.returncode, done.stderr), (0, ""), f"completion of {words}")
    return set(done.stdout.split())


def test_bash_completes_every_option(build):
    harness.equal(completed(build, ""), {*VERBS, "help", *options(build)}, "first word")
    harness.equal(completed(build, "help", ""), set(VERBS), "help")
    for verb in VERBS:
        harness.equal(completed(build, verb, "-"), options(build, verb), verb)
    assert "examples" in completed(build, "run", "-c", "ex"), "a file after -c"
    assert "examples" in completed(build, "check", "ex"), "a file of check"
    harness.equal(completed(build, "report", "--pid", ""), set(), "nothing is offered for a pid")
    assert "env" in completed(build, "run", "en"), "a program of run"
    assert "env" in completed(build, "check", "--", "en"), "a program of check"


def test_zsh_and_fish_name_every_option(build):
    zsh = (build.folder / "documents" / "_gpumem").read_text()
    fish = (build.folder / "documents" / "gpumem.fish").read_text()
    for verb in VERBS:
        part = re.search(rf"^  {verb}\)\n(.*?);;", zsh, re.M | re.S).group(1)
        harness.equal(set(re.findall(r"'(-{1,2}[\w-]+)\[", part)), options(build, verb), f"zsh, {verb}")
        lines = [line for line in fish.splitlines() if f"seen_subcommand_from {verb};" in line]
        named = {"-" + n for line in lines for n in re.findall(r" -s (\w)", line)}
        named |= {"--" + n for line in lines for n in re.findall(r" -l ([\w-]+)", line)}
        harness.equal(named, options(build, verb), f"fish, {verb}")
    for shell, file in (("zsh", "_gpumem"), ("fish", "gpumem.fish"), ("bash", "gpumem.bash")):
        if shutil.which(shell):
            done = subprocess.run([shell, "-n", build.folder / "documents" / file], capture_output=True, text=True, timeout=20)
            harness.equal((done.returncode, done.stderr), (0, ""), f"{shell} -n {file}")


def test_changes_of_this_version(build):
    versions = re.findall(r"^## ([\d.]+)", (ROOT / "CHANGELOG.md").read_text(), re.M)
    harness.equal(versions[:1], [version()], "the newest version in CHANGELOG.md")


# The folder that its headers are included from, and what it is called where its notice stands.
COMPILED_IN = {"CLI": "CLI11", "fmt": "fmt", "nlohmann": "nlohmann/json", "spdlog": "spdlog", "toml++": "toml++"}


def test_notices_of_what_is_compiled_in(build):
    """Each library of headers that the product includes has its own notice and the text of its licence."""
    included = set()
    for folder in ("core", "config", "shim"):
        for file in (ROOT / folder).rglob("*.[ch]pp"):
            if "include" in file.parts:
                continue    # for programs: what it includes is theirs
            included |= set(re.findall(r"^#include <([\w+]+)/", file.read_text(), re.M))
    harness.equal(included - {"sys", "linux"}, set(COMPILED_IN), "folders of headers that core, config and shim include")
    with tempfile.TemporaryDirectory() as folder:
        tree = install(build, folder)
        documents = tree / "share" / "doc" / "gpumem"
        stanzas = (documents / "copyright").read_text().split("\n\n")
        assert "Apache License" in (documents / "LICENSE").read_text()
    texts = {stanza.splitlines()[0]: stanza for stanza in stanzas if stanza.startswith("License:") and len(stanza.splitlines()) > 2}
    for name in COMPILED_IN.values():
        (notice,) = [stanza for stanza in stanzas if stanza.rstrip().endswith(f"\nComment: {name}")]
        assert "lib/gpumem/libgpumem.so" in notice or name == "CLI11", notice
        assert re.search(r"^Copyright: \d{4}", notice, re.M), notice
        licence = re.search(r"^License: .*$", notice, re.M).group(0)
        assert "AS IS" in texts[licence], f"{name}: no text of {licence}"


def wheel(tree, out):
    subprocess.run([sys.executable, ROOT / "scripts" / "package" / "wheel.py", tree, version(), "x86_64", out], check=True, timeout=60,
                   env={**os.environ, "SOURCE_DATE_EPOCH": "1700000000"})
    (file,) = pathlib.Path(out).glob("*.whl")
    return file


def test_the_wheel(build):
    with tempfile.TemporaryDirectory() as folder:
        tree = install(build, f"{folder}/tree")
        file = wheel(tree, folder)
        content = file.read_bytes()
        with zipfile.ZipFile(file) as archive:
            names = set(archive.namelist())
            listed = {row[0]: row[2] for row in csv.reader(io.StringIO(archive.read(f"gpumem-{version()}.dist-info/RECORD").decode()))}
            harness.equal(set(listed), names, "files in RECORD")
            for name in names - {f"gpumem-{version()}.dist-info/RECORD"}:
                harness.equal(int(listed[name]), archive.getinfo(name).file_size, name)
            assert {f"gpumem-{version()}.dist-info/licenses/{name}" for name in ("LICENSE", "copyright")} <= names, names
            assert {"gpumem/include/gpumem/gpumem.h", "gpumem/include/gpumem/memory_resource.hpp"} <= names, names
            assert archive.getinfo("gpumem/bin/gpumem").external_attr >> 16 & 0o111 == 0o111, "the program is executable"
            assert "gpumem/report.schema.json" in names, names
            archive.extractall(f"{folder}/site")
        os.chmod(f"{folder}/site/gpumem/bin/gpumem", 0o755)
        done = subprocess.run([sys.executable, "-m", "gpumem", "-V"], capture_output=True, text=True, timeout=20,
                              env={**os.environ, "PYTHONPATH": f"{folder}/site"})
        wanted = os.path.realpath(f"{folder}/site/gpumem/lib/gpumem/libgpumem.so")
        harness.equal((done.returncode, done.stdout), (0, f"gpumem {version()}\nlibrary {wanted}\n"), done.stderr)
        file.unlink()
        harness.equal(wheel(tree, folder).read_bytes() == content, True, "the same wheel again")


if __name__ == "__main__":
    harness.main(globals())
