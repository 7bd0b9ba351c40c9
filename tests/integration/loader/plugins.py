"""CUDA in plugins that a host opens in every way, other preload libraries, and drivers that come late: plugins.py BUILD
[test...]; see harness.main. Plain and preloaded runs give the same; what passes the library by is named.
"""
import os
import pathlib
import shutil
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import harness

PYTHON = str(pathlib.Path(sys.executable).resolve())
LINKS = ("static", "shared")


def opened(build, way, link, own=False, host="static", env=None, forks=False):
    """Runs of a host that opens the plugin: equal but for a line of gpumem's own on stderr."""
    plugin = build.folder / "programs" / "lib" / f"libplugin_{link}.so"
    assert plugin.exists(), f"{plugin} is not built"
    command = [build.program(f"plugin_host.{host}"), way, str(plugin), *(["own"] if own else []), *(["forks"] if forks else [])]
    plain, loaded = build.run(command, env=env), build.run(command, preload=True, env=env)
    own_lines = [line for line in loaded.stderr.splitlines(True) if line.startswith("gpumem: ")]
    loaded.stderr = "".join(line for line in loaded.stderr.splitlines(True) if line not in own_lines)
    harness.equal(harness.differences(plain, loaded), [], f"{way} {link}")
    harness.equal(plain.code, 0, f"plain run: {plain.stdout}{plain.stderr}")
    return loaded, own_lines


def allocations(run):
    return sum(harness.report_counts(report).get("cuMemAlloc", 0) for report in run.reports)


def test_local_and_global_plugins_are_counted(build):
    for way in ("local", "global"):
        for link in LINKS:
            run, lines = opened(build, way, link)
            harness.equal((allocations(run), lines), (20, []), f"{way} {link}")


def test_a_runtime_opened_fifty_times(build):
    """Also when the host uses CUDA between: pointers kept into a closed library would crash."""
    for link in LINKS:
        run, _ = opened(build, "repeated", link)
        harness.equal(allocations(run), 1000, f"opened 50 times, {link}")
        run, _ = opened(build, "repeated", link, own=True)
        harness.equal(allocations(run), 1050, f"opened 50 times beside the host's own work, {link}")


def in_place_of_another(build, way, refused, preload=""):
    """Two plugins with a runtime each: its calls are its own runtime's."""
    with tempfile.TemporaryDirectory() as folder:
        plugin = build.folder / "programs/lib/librefused_plugin.so"
        other = pathlib.Path(folder) / "librefused_plugin.so"
        for source, target in ((plugin, other), (build.simulated / "libcudart.so.13", pathlib.Path(folder) / "libcudart.so.12")):
            target.write_bytes(source.read_bytes().replace(b"libcudart.so.13", b"libcudart.so.12"))
        command = [build.program("plugin_host.static"), way, str(plugin), str(other)]
        env = {"LD_LIBRARY_PATH": f"{build.simulated}:{folder}"}
        plain = build.run(command, env={**env, "LD_PRELOAD": preload})
        run = build.run(command, preload=True, env={**env, "LD_PRELOAD": f"{build.library}:{preload}"})
        harness.equal(plain.stdout.count("refused with 2, the last error is 2"), refused, f"{plain.stdout}{plain.stderr}")
        harness.equal(harness.differences(plain, run), [], way)
        return run


def test_a_plugin_where_another_lay(build):
    """Closed before the other is opened."""
    in_place_of_another(build, "turns", 4)


def test_a_plugin_where_another_lay_that_is_still_being_closed(build):
    """What is remembered of an object's addresses goes before they do: the call that closes it is not through yet."""
    run = in_place_of_another(build, "meanwhile", 2, str(build.folder / "programs/lib/libclosing.so"))
    assert "where another did" in run.stdout, f"it lay elsewhere: {run.stdout}"


def named(build, way, link, own, what):
    """A plugin that passes the library by is named: in the report if there is one, else in a line on stderr."""
    run, lines = opened(build, way, link, own)
    if allocations(run) == 20 + own:
        return  # served after all
    harness.equal(len(run.reports), int(own), f"reports, {way} {link}")
    said = run.texts[0] if own else "".join(lines)
    assert what in said and "past gpumem" in said, f"{way} {link}, own {own}: not named in {said!r}"
    if own:
        harness.equal((allocations(run), lines), (1, []), "what the host did itself")


def test_deepbind_plugins_are_served_or_named(build):
    for link in LINKS:
        named(build, "deepbind", link, False, "libplugin_static.so" if link == "static" else "libcudart.so.13")
        named(build, "deepbind", link, True, "libplugin_static.so" if link == "static" else "libcudart.so.13")


def test_children_that_call_no_cuda_say_nothing(build):
    """What passed the library by did so in their parent, which says it, once."""
    for link in LINKS:
        for own in (True, False):
            run, lines = opened(build, "deepbind", link, own, forks=True)
            served = allocations(run) == 20 + own
            harness.equal(len(lines), 0 if own or served else 1, f"lines of a process with three children, {link}, own {own}: {lines}")


def test_plugins_in_another_namespace_are_named(build):
    for link in LINKS:
        named(build, "namespace", link, False, "libcuda.so.1")
        named(build, "namespace", link, True, "libcuda.so.1")


def test_a_gap_is_not_told_where_there_is_none(build):
    for link in LINKS:
        run, lines = opened(build, "local", link, own=True)
        assert "past gpumem" not in run.texts[0] + "".join(lines), f"a gap is told: {run.texts[0]}"


def test_a_disabled_library_names_nothing(build):
    _, lines = opened(build, "deepbind", "static", env={"GPUMEM_DISABLE": "1"})
    harness.equal(lines, [], "lines of a disabled library")


def test_another_tool_in_both_orders(build):
    """Whole programs beside another preload library that wraps dlsym: as with that library alone, and counted."""
    tool = build.folder / "tests/integration/loader/neighbours/libtool.so"
    assert tool.exists(), f"{tool} is not built"
    for program in ("runtime_loop.static", "runtime_loop.shared", "driver_dlopen.driver"):
        command = [build.program(program)]
        plain = build.run(command, env={"LD_PRELOAD": str(tool)})
        harness.equal(plain.code, 0, f"{program} with the tool alone: {plain.stderr}")
        for order in ((build.library, tool), (tool, build.library)):
            run = build.run(command, preload=True, env={"LD_PRELOAD": ":".join(map(str, order))})
            harness.equal(harness.differences(plain, run), [], f"{program}, {order}")
            harness.equal(harness.count_faults(run), [], f"{program}, {order}")


def wrapped(build, program, orders):
    """As with the wrapper alone; what reached the runtime is in the report."""
    wrapper = build.folder / "programs/lib/libwrapping.so"
    assert wrapper.exists(), f"{wrapper} is not built"
    command = [build.program(program)]
    plain = build.run(command, env={"LD_PRELOAD": str(wrapper)})
    harness.equal(plain.code, 0, f"{program} with the wrapper alone: {plain.stderr}")
    assert "wrapper: " in plain.stdout, f"nothing was wrapped: {plain.stdout}"
    for order in orders:
        preload = ":".join(str(build.library if one == "gpumem" else wrapper) for one in order)
        run = build.run(command, preload=True, env={"LD_PRELOAD": preload})
        harness.equal(harness.differences(plain, run), [], f"{program}, {preload}")
        harness.equal(len(run.reports), 1, f"reports of {program}, {preload}")


def test_a_wrapper_of_the_runtime_in_front(build):
    """It calls what is behind it, by RTLD_NEXT: that must not be itself again."""
    wrapped(build, "wrapped_calls.shared", [("wrapper", "gpumem")])


def test_a_wrapper_of_the_runtime_behind(build):
    """It sees every call, and not those alone that come before a thread's runtime is set up."""
    wrapped(build, "wrapped_calls.shared", [("gpumem", "wrapper")])


def test_a_wrapper_that_is_linked(build):
    command = [build.program("wrapped_calls.linked")]
    plain, run = build.run(command), build.run(command, preload=True)
    assert "wrapper: 6 cudaMalloc, 6 cudaFree" in plain.stdout, f"nothing was wrapped: {plain.stdout}"
    harness.equal(harness.differences(plain, run), [], "a program that is linked to a wrapper")


def test_a_wrapper_of_libcupti_in_front(build):
    wrapper = build.folder / "programs/lib/libwrapping_profiler.so"
    run = build.run([build.program("profiled.shared"), "activity"], preload=True, env={"LD_PRELOAD": f"{wrapper}:{build.library}"})
    harness.equal((run.code, run.stdout.splitlines()[0]), (0, "libcupti: activity"), f"{run.stdout}{run.stderr}")
    assert "1 cuptiActivityEnable" in run.stdout, run.stdout


def test_two_copies_of_the_library(build):
    with tempfile.TemporaryDirectory() as folder:
        copy = shutil.copy(build.library, f"{folder}/copy.so")
        for program in ("wrapped_calls.shared", "runtime_loop.shared", "runtime_loop.static", "driver_dlopen.driver", "bad_frees.shared"):
            command = [build.program(program)]
            plain = build.run(command)
            run = build.run(command, preload=True, env={"LD_PRELOAD": f"{copy}:{build.library}"})
            harness.equal(harness.differences(plain, run), [], f"{program} and two copies")
            assert run.reports, f"no report of {program}"


def late_driver(build, text, links=("libcuda.so.1",)):
    """Runs Python text that looks for a driver which is not on the library path, but in the folder argv[1]."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(build.simulated / "libcuda.so.1", f"{folder}/libcuda.so.1")
        for name in links[1:]:
            os.symlink("libcuda.so.1", f"{folder}/{name}")
        os.mkdir(f"{folder}/empty")
        program = pathlib.Path(folder) / "program.py"
        program.write_text(
            "import ctypes, sys\n"
            "def use(cuda):\n"
            "    context, block = ctypes.c_void_p(), ctypes.c_uint64()\n"
            "    print(cuda.cuInit(0), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0), cuda.cuCtxSetCurrent(context),\n"
            "          cuda.cuMemAlloc_v2(ctypes.byref(block), ctypes.c_size_t(5000)), cuda.cuMemFree_v2(block),\n"
            "          cuda.cuMemFree_v2(block))\n"
            "folder = sys.argv[1]\n" + text)
        command, env = [PYTHON, str(program), folder], {"LD_LIBRARY_PATH": f"{folder}/empty"}
        plain, loaded = build.run(command, env=env), build.run(command, preload=True, env=env)
        harness.equal(plain.code, 0, f"plain run: {plain.stderr}")
        harness.equal(harness.differences(plain, loaded), [], text)
        return loaded


def test_a_driver_found_at_the_second_attempt(build):
    run = late_driver(build, "try:\n    ctypes.CDLL('libcuda.so.1')\nexcept OSError as e:\n    print(e)\n"
                             "print(hasattr(ctypes.CDLL(None), 'cuMemAlloc_v2'))\n"
                             "use(ctypes.CDLL(folder + '/libcuda.so.1'))\n")
    harness.equal((allocations(run), len(run.reports)), (1, 1), "allocations after a failed first attempt")


def test_both_names_of_the_driver(build):
    run = late_driver(build, "a = ctypes.CDLL(folder + '/libcuda.so')\nb = ctypes.CDLL(folder + '/libcuda.so.1')\nuse(a)\nuse(b)\n"
                             "f = lambda c: ctypes.cast(c.cuMemAlloc_v2, ctypes.c_void_p).value\nprint(f(a) == f(b))\n",
                      ("libcuda.so.1", "libcuda.so"))
    harness.equal(allocations(run), 2, "allocations by both names")


def test_names_that_are_not_hooked_keep_their_address(build):
    """Every function of the driver and the runtime by handle: another one's address only where a hook stands for it."""
    text = ("import ctypes, subprocess, sys\n"
            "class info(ctypes.Structure):\n"
            "    _fields_ = [('file', ctypes.c_char_p), ('base', ctypes.c_void_p), ('name', ctypes.c_char_p), ('at', ctypes.c_void_p)]\n"
            "find = ctypes.CDLL(None).dladdr\n"
            "for library in ('libcuda.so.1', 'libcudart.so.13'):\n"
            "    opened, other = ctypes.CDLL(library), []\n"
            "    for name in sys.argv[1].split(','):\n"
            "        try:\n"
            "            f = ctypes.cast(getattr(opened, name), ctypes.c_void_p)\n"
            "        except AttributeError:\n"
            "            continue\n"
            "        found = info()\n"
            "        find(f, ctypes.byref(found))\n"
            "        if library.encode() not in found.file:\n"
            "            other.append(name)\n"
            "    print(library, *other)\n")
    names = []
    for library in ("libcuda.so.1", "libcudart.so.13"):
        listed = harness.subprocess.run(["nm", "-D", "--defined-only", str(build.simulated / library)], capture_output=True,
                                        text=True, check=True).stdout
        names += [line.split()[-1].split("@")[0] for line in listed.splitlines() if " T cu" in line]
    assert len(names) > 200, f"only {len(names)} names"
    run = build.run([PYTHON, "-c", text, ",".join(names)], preload=True)
    harness.equal(run.code, 0, run.stderr)
    symbols = pathlib.Path(__file__).resolve().parents[3] / "shim" / "symbols" / "symbols.def"
    hooked = set(harness.re.findall(r"^GPUMEM_DRIVER_HOOK\((\w+)", symbols.read_text(), harness.re.MULTILINE))
    driver, runtime = run.stdout.splitlines()
    harness.equal(set(driver.split()[1:]), hooked & set(names), "names of the driver that are answered with a hook")
    harness.equal(runtime.split()[1:], [], "names of the runtime that are answered with a hook")


harness.main(globals())
