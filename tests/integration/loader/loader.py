"""The loader part of the preload library, on stand-in drivers: loader.py BUILD LIBRARY [test...].

Most tests run a program without and with the library and want the same output, error text and exit code.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

build = pathlib.Path(sys.argv[1])
library = pathlib.Path(sys.argv[2])
source = pathlib.Path(__file__).resolve().parents[3] / "shim" / "symbols" / "symbols.def"
interface = source.parent.parent / "include" / "gpumem" / "gpumem.h"


class Skipped(Exception):
    pass


def run(command, preload=(), driver="full", env=None):
    # What the caller's environment says of gpumem must not reach the program.
    variables = {k: v for k, v in os.environ.items() if not k.startswith(("GPUMEM_", "LD_"))}
    variables["LD_LIBRARY_PATH"] = f"{build}/neighbours" + (f":{build}/{driver}" if driver else "")
    variables["GPUMEM_REPORT"] = "none"
    if preload:
        variables["LD_PRELOAD"] = ":".join(str(p) for p in preload)
    variables.update(env or {})
    with tempfile.TemporaryDirectory() as state:
        # The stand-ins have no events: only the way to a function is looked at, so every call goes on to them.
        config = pathlib.Path(state) / "passthrough.toml"
        config.write_text('version = 1\n[route]\ndevice = "passthrough"\nhost = "passthrough"\n')
        variables["GPUMEM_CONFIG"] = str(config)
        variables["GPUMEM_STATE_DIR"] = state
        done = subprocess.run([str(c) for c in command], env=variables, capture_output=True, text=True, timeout=50)
    return done.returncode, done.stdout, done.stderr


def same(case, driver="full"):
    plain = run([build / "loader_cases", case], driver=driver)
    if plain[0] == 77:
        raise Skipped("not for this architecture")
    preloaded = run([build / "loader_cases", case], [library], driver=driver)
    assert plain[0] == 0 and plain[1].count("\n") > 1, f"{case} without the library: {plain}"
    assert plain == preloaded, f"{case}\n--- plain {plain[0]}\n{plain[1]}{plain[2]}\n--- preloaded {preloaded[0]}\n" \
                               f"{preloaded[1]}{preloaded[2]}"
    return plain[1]


def holds(*command, **options):
    code, output, errors = run(command, options.pop("preload", [library]), **options)
    if code == 77:
        raise Skipped("not for this architecture")
    assert (code, output) == (0, ""), f"{command}: exit code {code}\n{output}{errors}"


def test_the_next_definition_is_the_callers_next():
    assert "cuMemLookalike: second" in same("next")


def test_a_local_plugin_finds_its_own_parts():
    assert "cuPluginThing: its part" in same("plugin")


def test_dlerror_is_the_programs_own():
    assert "undefined symbol: cuMemAlloc_v2" in same("errors", driver=None)


def test_a_probe_without_a_driver_finds_none():
    assert "cuMemAlloc_v2 default 0" in same("probe", driver=None)


def test_a_constructor_may_look_up_before_ours():
    assert "early 7" in same("early")


def test_get_proc_address_reaches_the_same_functions():
    text = same("get_proc_address")
    for line in ("cuMemAlloc 2000 flags 0: found cuMemAlloc ", "cuMemAlloc 13000 flags 0: found cuMemAlloc_v2 ",
                 "cuMemAllocAsync 12000 flags 2: found cuMemAllocAsync_ptsz ", "cuNewThing 13000 flags 0: found",
                 "cuMemAllocA 13000 flags 0: null"):
        assert line in text, f"no line {line!r} in\n{text}"


def test_get_proc_address_of_an_old_driver():
    assert "cuMemAllocAsync 13000 flags 0: null" in same("get_proc_address", driver="old")


def test_a_driver_that_forwards_to_another_gets_the_real_one():
    assert "code 0 memory 1 trace outer" in same("two_stages", driver="outer")


def test_all_ways_in_give_one_address():
    holds(build / "loader_hooked", "identity")


def test_dlvsym_gives_the_hook():
    holds(build / "loader_hooked", "versioned", driver="versioned")


def test_generated_code_is_answered_as_by_glibc():
    text = same("generated")
    for line in ("next cuMemLookalike found 0, dlsym: RTLD_NEXT used in code not dynamically loaded",
                 "first of all: first", "cuMemAlloc_v2 0 flags 0: found cuMemAlloc_v2"):
        assert line in text, f"no line {line!r} in\n{text}"


def test_generated_code_gets_the_hooks():
    holds(build / "loader_hooked", "generated")


def test_absent_functions_of_an_old_driver():
    holds(build / "loader_hooked", "old_driver", driver="old")


def test_a_driver_that_lacks_what_is_needed_is_left_alone():
    code, output, errors = run([build / "loader_hooked", "ends", "return"], [library], driver="ancient",
                               env={"GPUMEM_REPORT": "stderr"})
    assert (code, output) == (0, ""), f"exit code {code}\n{output}{errors}"
    assert "this driver has no cu" in errors and "=== gpumem" not in errors, errors


def test_a_weak_call_without_a_driver_fails_in_order():
    holds(build / "loader_without_driver", driver=None)


def test_another_tool_before_and_behind():
    tool = build / "neighbours" / "libtool.so"
    holds(build / "loader_hooked", "tool", preload=[library, tool])
    holds(build / "loader_hooked", "tool", preload=[tool, library])


def test_one_report_for_each_ending():
    for how, reports in {"return": 1, "_exit": 1, "quick_exit": 1, "fork": 1, "fork_exit": 1, "vfork": 1,
                         "vfork_exec": 1, "exec_fails": 1, "exec": 1}.items():
        code, output, errors = run([build / "loader_hooked", "ends", how], [library], env={"GPUMEM_REPORT": "stderr"})
        assert (code, output) == (0, ""), f"{how}: exit code {code}\n{output}{errors}"
        found = len(re.findall(r"^=== gpumem", errors, re.MULTILINE))
        assert found == reports, f"{how}: {found} reports, not {reports}\n{errors}"


def test_disabled_is_silent():
    code, output, errors = run([build / "loader_hooked", "ends", "return"], [library],
                               env={"GPUMEM_REPORT": "stderr", "GPUMEM_DISABLE": "1"})
    assert (code, output, errors) == (0, "", ""), errors


def opened_files(preload):
    trace = shutil.which("strace")
    if trace is None:
        raise Skipped("no strace")
    with tempfile.NamedTemporaryFile() as log:
        command = [trace, "-f", "-o", log.name, "-e", "trace=open,openat,socket,clone,clone3,pipe2"]
        if preload:
            command += ["-E", f"LD_PRELOAD={library}"]
        code, _, errors = run(command + ["/bin/true"])
        if code != 0:
            raise Skipped(f"strace cannot run here: {errors}")
        text = pathlib.Path(log.name).read_text()
    return [line.split(None, 1)[1] for line in text.splitlines() if "(" in line]


def test_a_process_without_cuda_opens_nothing():
    plain, preloaded = opened_files(False), opened_files(True)
    # The library itself, and libm, which some C++ libraries make it need and `true` does not.
    extra = [line for line in preloaded if line not in plain and "libgpumem" not in line and "libm.so" not in line]
    assert not extra, "opened besides the library:\n" + "\n".join(extra)


def tool_output(*command):
    return subprocess.run([str(c) for c in command], capture_output=True, text=True, check=True).stdout


def test_it_needs_only_libc():
    needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", tool_output("readelf", "-dW", library)))
    loader = {n for n in needed if n.startswith("ld-linux")}
    assert needed - loader <= {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0"}, needed


def test_it_sleeps_by_no_function_of_the_programs():
    """A nanosleep of the program's own that returns at once would make every bounded wait as short."""
    imported = {line.split()[-1].split("@")[0] for line in tool_output("nm", "-D", "--undefined-only", library).splitlines()}
    assert "clock_gettime" in imported, imported
    assert not imported & {"nanosleep", "clock_nanosleep", "usleep", "sleep", "select", "pselect", "ppoll", "sem_timedwait",
                           "pthread_cond_timedwait", "pthread_mutex_timedlock"}, imported


def test_it_exports_the_hooks_and_nothing_else():
    names = set(re.findall(r"^GPUMEM_(?:DRIVER|RUNTIME|PROCESS)_HOOK\((\w+)", source.read_text(), re.MULTILINE))
    names |= set(re.findall(r"^GPUMEM_API [a-z0-9_ *]*(gpumem_\w+)\(", interface.read_text(), re.MULTILINE))
    names.add("InitializeInjectionNvtx2")    # by which NVTX starts a tool
    exported = {line.split()[-1] for line in tool_output("nm", "-D", "--defined-only", library).splitlines()}
    assert exported == names, f"missing {names - exported}, too many {exported - names}"
    versioned = [line for line in tool_output("nm", "-D", "--defined-only", library).splitlines() if "@" in line]
    assert not versioned, versioned


def test_it_is_small():
    with tempfile.TemporaryDirectory() as folder:
        stripped = pathlib.Path(folder) / "stripped.so"
        tool_output("strip", "-o", stripped, library)
        assert stripped.stat().st_size <= 2 << 20, f"{stripped.stat().st_size} bytes"
    tls = re.search(r"^\s*TLS\s+\S+\s+\S+\s+\S+\s+\S+\s+(0x\w+)", tool_output("readelf", "-lW", library), re.MULTILINE)
    assert tls and int(tls.group(1), 16) < 384, "static TLS of 384 bytes or more (loaded late, glibc has 512 for all libraries together)"
    assert "NODELETE" in tool_output("readelf", "-dW", library)


tests = {name[5:]: value for name, value in list(globals().items()) if name.startswith("test_")}
failed = 0
for name in sys.argv[3:] or tests:
    try:
        tests[name]()
    except Skipped as reason:
        print(f"skipped {name}: {reason}")
        sys.exit(77)
    except AssertionError as wrong:
        failed += 1
        print(f"FAILED {name}: {wrong}")
sys.exit(1 if failed else 0)
