"""docs/examples on the simulated CUDA, each with gpumem and without it, and gpumem/memory_resource.hpp with each version of CCCL.

interfaces.py BUILD [test...]; see harness.main. What scripts/cccl.sh has fetched into BUILD/cccl is compiled with; what is not there
is skipped. Programs that need nvcc or a GPU (sort.cu, rmm_beside.py) are run by tests/gpu/interfaces.py.
"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import harness

ROOT = HERE.parents[2]
EXAMPLES = ROOT / "docs" / "examples"
RESOURCE = ROOT / "tests" / "programs" / "memory_resource.cpp"
CHAINS = {"GPUMEM_CONFIG": str(EXAMPLES / "chains.toml")}
GATHER = "run scripts/cccl.sh"
PEBIBYTE = "gpumem: out of device memory\n"


def cuda_headers(build):
    return pathlib.Path(re.search(r"^GPUMEM_CUDA_HEADERS:\w+=(.*)$", (build.folder / "CMakeCache.txt").read_text(), re.M).group(1))


def compiled(build, folder, source, name, options=(), standard="c++20"):
    """A program of this source, which finds its libraries by itself."""
    made = pathlib.Path(folder) / name
    language = "c" if standard.startswith("c1") else "c++"
    compiler = ["gcc" if language == "c" else "g++", f"-std={standard}", "-O0", "-Wall", "-Wextra", "-Werror", "-fPIE", "-x", language]
    ccache = [shutil.which("ccache")] if shutil.which("ccache") else []
    flags = [option for option in options if not option.startswith(("-l", "-L"))]
    libraries = [option for option in options if option.startswith(("-l", "-L"))]
    include = ["-I", ROOT / "shim" / "include", "-isystem", cuda_headers(build)]
    for command in ([*ccache, *compiler, *flags, *include, "-c", source, "-o", made.with_suffix(".o")],
                    ["g++", "-pie", made.with_suffix(".o"), "-o", made, *libraries, build.simulated / "libcudart.so.13",
                     f"-Wl,-rpath-link,{build.simulated}"]):
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        harness.equal(done.returncode, 0, f"{source.name}, {name}: {done.stderr[:3000]}")
    return str(made)


def versions(build):
    """{version: folder of its headers}, of what is there, the toolkit's own first."""
    found = {}
    for file in [cuda_headers(build) / "cccl" / "cuda" / "std" / "__cccl" / "version.h",
                 *sorted((build.folder / "cccl").glob("*==*/**/cuda/std/__cccl/version.h"))]:
        if file.exists():
            number = int(re.search(r"define CCCL_VERSION (\d+)", file.read_text()).group(1))
            found.setdefault(f"{number // 1000000}.{number // 1000 % 1000}", file.parents[3])
    return found


def rmms(build):
    """(name, options to compile with, folders of libraries) of each RMM that is there."""
    for folder in sorted((build.folder / "cccl").glob("librmm-*/librmm")):
        wheel = next(folder.parent.glob("librmm_*.dist-info")) / "METADATA"
        wanted = re.search(r"^Requires-Dist: rapids-logger==([\d.]+)\*", wheel.read_text(), re.M).group(1)
        logger = next((build.folder / "cccl").glob(f"rapids-logger=={wanted}*/rapids_logger"), None)
        if logger is not None:
            include = [folder / "include" / "rapids", folder / "include", logger / "include"]
            libraries = [folder / "lib64", logger / "lib64"]
            yield (folder.parent.name, [*(f"-isystem{path}" for path in include), *(f"-L{path}" for path in libraries), "-lrmm", "-lrapids_logger"],
                   libraries)


def chain_served(outcome, requests):
    """That the rule of the name took so many requests, all calls of the interface were served, and the ledger adds up."""
    report, = outcome.reports
    rules = [node for chain in report["chains"] if chain["route"] == "rules" for node in chain["nodes"]]
    harness.equal([rule["requests"] for rule in rules], [requests], "requests by the name")
    counted = [hook for hook in report["intercept"]["hooks"] if hook["symbol"].startswith("gpumem_")]
    assert counted and all(hook["served"] == hook["calls"] for hook in counted), counted
    harness.equal(harness.ledger_faults(report, outcome.known.get(report["process"]["pid"]), noted=False), [], "ledger")


def ran(outcome, said, what):
    harness.equal((outcome.code, outcome.stdout), (0, said), f"{what}: {outcome.stderr}")


def test_a_c_program(build):
    with tempfile.TemporaryDirectory() as folder:
        asks = compiled(build, folder, EXAMPLES / "asks.c", "asks", standard="c11")
        ran(build.run([asks]), "the round is done\n", "without the library")
        loaded = build.run([asks], preload=True, env=CHAINS)
        ran(loaded, "the round needed 48 MiB\n", "preloaded")
        chain_served(loaded, 1)
        ran(build.run([asks], preload=True, env={"GPUMEM_DISABLE": "1"}), "the round is done\n", "disabled")
        without = build.run([asks], preload=True)
        ran(without, "the round needed 48 MiB\n", "without a rule of the name")
        assert 'asks for the chain "scratch", and no rule has this name' in without.stderr, without.stderr


def test_a_phase_in_python(build):
    command = [sys.executable, str(EXAMPLES / "phase.py")]
    env = {"PYTHONPATH": str(ROOT / "shim" / "python"), "PYTHONDONTWRITEBYTECODE": "1"}
    ran(build.run(command, env=env), "done\n", "without the library")
    ran(build.run(command, env=env, preload=True),
        "forward: at most 320 MiB, left 20 MiB, 2 allocations\nbackward: at most 100 MiB, left 80 MiB, 1 allocations\ndone\n", "preloaded")


def resource_with(build, version):
    """The resource in a program of this version of CCCL: without the library, preloaded, linked, without a rule of its name."""
    if version not in versions(build):
        raise harness.Skipped(f"CCCL {version} is not there: {GATHER}")
    options = [f"-isystem{versions(build)[version]}"]
    if version < "3.2":
        options.append("-DLIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE")
    said = f"CCCL {version}\n{PEBIBYTE}0 wrong\n"
    with tempfile.TemporaryDirectory() as folder:
        program = compiled(build, folder, RESOURCE, "resource", options, standard="c++17")
        ran(build.run([program]), said, "without the library")
        loaded = build.run([program], preload=True, env=CHAINS)
        ran(loaded, said, "preloaded")
        chain_served(loaded, 10)
        without = build.run([program], preload=True)
        ran(without, said, "without a rule of the name")
        harness.equal(without.stderr.count("no rule has this name"), 1, without.stderr)
        ran(build.run([program], preload=True, env={"GPUMEM_DISABLE": "1"}), said, "disabled")
        linked = pathlib.Path(folder) / "linked"
        subprocess.run(["g++", "-pie", f"{program}.o", "-o", linked, build.library, build.simulated / "libcudart.so.13",
                        f"-Wl,-rpath-link,{build.simulated}", f"-Wl,-rpath,{build.folder}"], check=True, timeout=60)
        ran(build.run([str(linked)], env={**CHAINS, "GPUMEM_REPORT": f"{folder}/report.txt"}), said, "linked")
        text = pathlib.Path(f"{folder}/report.txt").read_text()
        assert re.search(r"gpumem_allocate  .* device", text), text


def test_the_resource_with_cccl_3_0(build):
    resource_with(build, "3.0")


def test_the_resource_with_cccl_3_1(build):
    resource_with(build, "3.1")


def test_the_resource_with_cccl_3_2(build):
    resource_with(build, "3.2")


def test_the_resource_with_cccl_3_4(build):
    resource_with(build, "3.4")


def test_the_resource_with_cccl_3_5(build):
    resource_with(build, "3.5")


def test_stream_0_of_a_program_for_default_streams_by_thread(build):
    found = versions(build)
    if not found:
        raise harness.Skipped(f"no CCCL is there: {GATHER}")
    version = sorted(found)[-1]
    options = [f"-isystem{found[version]}", "-DLIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE", "-DCUDA_API_PER_THREAD_DEFAULT_STREAM"]
    with tempfile.TemporaryDirectory() as folder:
        program = compiled(build, folder, RESOURCE, "per_thread", options)
        ran(build.run([program]), f"CCCL {version}\n{PEBIBYTE}0 wrong\n", "without the library")
        ran(build.run([program], preload=True, env=CHAINS), f"CCCL {version}\n{PEBIBYTE}0 wrong\n", "preloaded")


def test_rmm(build):
    there = list(rmms(build))
    if not there:
        raise harness.Skipped(f"RMM is not there: {GATHER}")
    said = "the same numbers: yes, counted by RMM: 8000 bytes\n"
    for name, options, libraries in there:
        with tempfile.TemporaryDirectory() as folder:
            program = compiled(build, folder, EXAMPLES / "buffers.cpp", "buffers", options)
            path = ":".join(str(each) for each in [build.simulated, *libraries])
            ran(build.run([program], env={"LD_LIBRARY_PATH": path}), said, f"{name} without the library")
            loaded = build.run([program], preload=True, env={**CHAINS, "LD_LIBRARY_PATH": path})
            ran(loaded, said, f"{name} preloaded")
            chain_served(loaded, 3)


def test_cuda_buffer(build):
    """With g++ from 3.4 on: before, it asks for nvcc."""
    there = {version: folder for version, folder in versions(build).items() if version >= "3.4"}
    if not there:
        raise harness.Skipped(f"no CCCL from 3.4 on is there: {GATHER}")
    for version, include in there.items():
        with tempfile.TemporaryDirectory() as folder:
            program = compiled(build, folder, EXAMPLES / "cuda_buffer.cu", "cuda_buffer", [f"-isystem{include}"])
            ran(build.run([program]), "the same numbers: yes\n", f"{version} without the library")
            loaded = build.run([program], preload=True, env=CHAINS)
            ran(loaded, "the same numbers: yes\n", f"{version} preloaded")
            chain_served(loaded, 1)


def test_the_document_shows_what_is_run(build):
    """Each block of code in docs/interfaces.md is a part of a file that a test runs."""
    text = (ROOT / "docs" / "interfaces.md").read_text()
    blocks = re.findall(r"^```(c|cpp|python|toml)\n(.*?)^```", text, re.M | re.S)
    assert {language for language, _ in blocks} == {"c", "cpp", "python", "toml"}, blocks
    files = {path.name: path.read_text() for path in EXAMPLES.iterdir()}
    for language, block in blocks:
        assert any(block.strip("\n") in content for content in files.values()), f"in no file of docs/examples:\n{block}"
    for name in files:
        assert f"examples/{name})" in text, f"{name} is not named"


harness.main(globals())
