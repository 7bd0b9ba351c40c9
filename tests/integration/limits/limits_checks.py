"""What a run of the program `limited` must show under a limit of 64 MiB; for the simulated CUDA and for a real one."""
import re

LIMIT = 64
KINDS = ("cudaMalloc", "cuMemCreate", "cuArrayCreate", "cuMemAllocPitch", "cuMemAllocFromPoolAsync", "cuMemAllocManaged")


def filled(stdout):
    return [(name, int(mib), int(code)) for name, mib, code in re.findall(r"^(\w+): (\d+) MiB, then code (\d+)$", stdout, re.M)]


def check_limit(done):
    rows = filled(done.stdout)
    assert {name for name, *_ in rows} == set(KINDS), rows
    assert "a sparse array of 256 MiB\n" in done.stdout, done.stdout
    half = []
    for name, mib, code in rows:
        assert code == 2, f"{name} was refused with {code}"
        # What comes after half of the limit was routed gets the other half.
        if mib == LIMIT // 2:
            half.append(name)
        else:
            assert mib == LIMIT, f"{name} got {mib} MiB of {LIMIT}"
    assert half == ["cuMemCreate", "cuMemAllocManaged"], rows


def check_failures(report):
    failures = report["failures"]
    assert failures and report["devices"][0]["counters"]["out_of_memory"] == len(filled_kinds(failures)), failures
    for failure in failures:
        assert failure["error"] == 2 and failure["refused_by"] == "limit", failure
        assert 'limiting "limiting": limit 64.00 MiB, in use' in failure["reason"], failure
        assert "allocation_limit" in failure["remedy"], failure


def filled_kinds(failures):
    return [failure["api"] for failure in failures]
