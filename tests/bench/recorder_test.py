"""The recorder sees every allocation and free of a program, by each way in, and the program cannot tell: recorder_test.py BUILD.

The count of lines is held to what the program prints of itself; the trace is replayed to the same number of events.
"""
import json
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "integration"))
import harness

PROGRAMS = (("async_streams.static",), ("async_streams.shared",), ("runtime_loop.shared", "50"),
            ("driver_dlopen.driver", "dlsym"), ("driver_dlopen.driver", "entry"), ("threads.static", "4", "20"))

build = harness.Build(sys.argv[1])
for program, *arguments in PROGRAMS:
    command = [build.program(program), *arguments]
    with tempfile.TemporaryDirectory(prefix="gpumem-recorder.") as folder:
        trace = pathlib.Path(folder, "a.trace")
        plain = build.run(command)
        traced = build.run(command, env={"LD_PRELOAD": str(build.folder / "programs" / "trace_recorder.so"),
                                         "GPUMEM_TRACE": str(trace)})
        assert (plain.code, plain.stdout, plain.stderr) == (traced.code, traced.stdout, traced.stderr), (program, traced.stderr)
        events = trace.read_text().splitlines()[1:]
        counts, = harness.own_counts(traced.stdout)
        wanted = [sum(counts.get(name, 0) for name in names)
                  for names in (("cuMemAlloc", "cuMemAllocAsync"), ("cuMemFree", "cuMemFreeAsync"))]
        found = [sum(line[0] == letter for line in events) for letter in "af"]
        assert found == wanted and wanted[0] > 0, f"{command}: {found} events, the program counts {wanted}"
        replayed = build.run([build.program("trace_replay"), str(trace)])
        assert replayed.code == 0, replayed.stderr
        assert json.loads(replayed.stdout)["events"] == len(events)
        print(f"ok {' '.join([program, *arguments])}: {found[0]} allocations, {found[1]} frees")
