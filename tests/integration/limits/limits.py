"""Limits and fallbacks over unmodified programs on the simulated CUDA.

limits.py BUILD [test...]. The program `limited` fills the device by one kind of memory after the other; what fits, the
code of the refusal and the report are compared with the limit.
"""
import pathlib
import sys

FOLDER = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(FOLDER.parent), str(FOLDER)]
import harness
from limits_checks import check_failures, check_limit


def run(build, config, *arguments, link="shared", env=None):
    chosen = {"GPUMEM_CONFIG": str(FOLDER / "configs" / f"{config}.toml"), **(env or {})}
    done = build.run([build.program(f"limited.{link}"), *arguments], preload=True, env=chosen)
    assert done.code == 0, f"exit code {done.code}: {done.stderr[-2000:]}"
    assert len(done.reports) == 1, f"{len(done.reports)} reports"
    assert not harness.ledger_faults(done.reports[0]), harness.ledger_faults(done.reports[0])
    return done


def test_every_route_below_a_pool(build):
    done = run(build, "below_pool")
    check_limit(done)
    check_failures(done.reports[0])
    assert 'refused by  limiting "limiting"' in done.texts[0], done.texts[0]


def test_every_route_above_a_pool(build):
    done = run(build, "above_pool", link="static")
    check_limit(done)
    check_failures(done.reports[0])


def test_two_routes_share_a_limit(build):
    """Managed memory is routed as well, through another chain with the same `limiting`."""
    done = run(build, "two_routes")
    check_limit(done)
    managed = [chain for chain in done.reports[0]["chains"] if chain["route"] == "managed"]
    assert managed and managed[0]["nodes"][0]["requests"] > 0, done.reports[0]["chains"]


def check_reason(done, kind, reason, remedy):
    """The one failure, in the data and, line by line, for people."""
    first = done.reports[0]["failures"][0]
    assert (first["error"], first["refused_by"]) == (2, kind), first
    assert first["reason"] == reason, first["reason"]
    assert remedy in first["remedy"], first["remedy"]
    text = " ".join(done.texts[0].split())
    assert f"refused by {reason} handed out" in text and "cached" in text and "largest free block" in text, done.texts[0]
    assert f"try {first['remedy']}" in text, done.texts[0]


def test_a_refusal_tells_the_free_blocks_by_size(build):
    """Every second block of 2 MiB is given back; then nothing larger is served, and by what sizes it is not."""
    script = ("import ctypes\nruntime = ctypes.CDLL('libcudart.so.13')\n"
              "def take(size):\n    p = ctypes.c_void_p()\n    return runtime.cudaMalloc(ctypes.byref(p), ctypes.c_size_t(size)), p\n"
              "blocks = [take(2 << 20)[1] for _ in range(32)]\n"
              "for p in blocks[::2]: assert runtime.cudaFree(p) == 0\n"
              "assert take(1 << 20)[0] == 0\nassert take(4 << 20)[0] == 2\n")
    done = build.run([sys.executable, "-c", script], preload=True, env={"GPUMEM_CONFIG": str(FOLDER / "configs" / "one_segment.toml")})
    harness.equal(done.code, 0, done.stderr)
    (failure,) = done.reports[0]["failures"]
    free = failure["free_blocks"]
    harness.equal(free, {"all_counted": True, "sizes": [{"from_bytes": 1 << 20, "blocks": 1, "free_bytes": 1 << 20},
                                                       {"from_bytes": 2 << 20, "blocks": 15, "free_bytes": 30 << 20}]}, "free blocks")
    harness.equal((failure["cached_bytes"], failure["largest_free_bytes"]), (31 << 20, 2 << 20), "cached, and the largest")
    assert "free blocks 15 x 2 MiB, 1 x 1 MiB" in done.texts[0], done.texts[0]


def test_reason_pool_at_its_maximum(build):
    check_reason(run(build, "maximum", "routed"), "maximum",
                 'pool "small": maximum_pool_size 64.00 MiB, reserved 64.00 MiB, asked 2.00 MiB', "raise maximum_pool_size")


def test_reason_arena_at_its_size(build):
    check_reason(run(build, "small_arena", "routed"), "maximum",
                 'superblocks "small": arena_size 64.00 MiB, reserved 64.00 MiB, asked 2.00 MiB', "arena_size")


def test_reason_larger_than_any_block(build):
    check_reason(run(build, "blocks", "routed"), "largest_block",
                 'fixed_size "blocks": its largest block is 1.00 MiB, asked 2.00 MiB', "let a binning send")


def test_reason_driver(build):
    done = run(build, "plain_pool", "routed", env={"GPUMEM_SIMULATED_MEMORY": str(64 << 20)})
    check_reason(done, "driver", "cuda: the driver refused 2.00 MiB", "lower what others hold on the device")


def test_reason_all_chains_of_a_fallback(build):
    check_reason(run(build, "two_limits", "routed"), "limit",
                 'fallback: limiting "narrow": limit 16.00 MiB, in use 16.00 MiB, of it seen only 0 B, asked 2.00 MiB; '
                 'then limiting "wide": limit 48.00 MiB, in use 48.00 MiB, of it seen only 0 B, asked 2.00 MiB',
                 "raise allocation_limit")


def test_limit_reported_as_total(build):
    first, *_, last = [line for line in run(build, "above_pool").stdout.splitlines() if line.startswith("free")]
    assert first == last == "free 64 MiB, total 64 MiB, device 64 MiB, properties 64 MiB", (first, last)


def test_free_is_bounded_where_the_total_is_not(build):
    first = run(build, "below_pool").stdout.splitlines()[0]
    assert first == "free 64 MiB, total 8192 MiB, device 8192 MiB, properties 8192 MiB", first


def test_total_before_any_context(build):
    """A limit is told to a program that asks for properties before it has made any memory, and no report comes of it."""
    done = build.run([build.program("limited.shared"), "properties"], preload=True,
                     env={"GPUMEM_CONFIG": str(FOLDER / "configs" / "above_pool.toml")})
    assert done.code == 0 and done.stdout.startswith("properties 64 MiB"), done.stdout + done.stderr
    assert not done.reports and not done.state, (done.reports, done.state)


def chain_rows(report):
    return {node["name"]: node for chain in report["chains"] for node in chain["nodes"]}


def check_spill(done, spilled_mib, requests, kept_mib=0):
    assert done.stdout.startswith("12 blocks of 8 MiB, "), done.stdout
    node = chain_rows(done.reports[0])["chain 2"]
    assert node["hits"] == requests, node
    assert node["highest_bytes"] == spilled_mib << 20, node
    assert node["now_bytes"] == kept_mib << 20, node
    assert done.reports[0]["devices"][0]["counters"]["rung_fallback"] == requests
    assert not done.reports[0]["failures"], done.reports[0]["failures"]
    text = done.texts[0]
    assert "spilled" in text and f"{spilled_mib}.00 MiB" in text, text


def test_the_driver_refuses_before_a_limit(build):
    """A stream that is none, or that has no context."""
    plain = build.run([build.program("limited.shared"), "refusals"])
    assert "on none: 400" in plain.stdout and plain.code == 0, (plain.stdout, plain.stderr)
    limited = run(build, "below_pool", "refusals")
    assert plain.stdout == limited.stdout, (plain.stdout, limited.stdout)


def test_fallback_to_managed(build):
    done = run(build, "fallback", "spill", "96")
    assert "4 managed" in done.stdout, done.stdout
    check_spill(done, 32, 4)


def test_fallback_below_a_pool(build):
    done = run(build, "pool_over_fallback", "spill", "96")
    assert "4 managed" in done.stdout, done.stdout
    check_spill(done, 32, 4, kept_mib=32)  # by the pool, for the next request


def test_fallback_is_equal_to_plain(build):
    """Nobody can tell, but for the kind of memory that the driver names."""
    plain = build.run([build.program("limited.shared"), "spill", "96"])
    spilled = run(build, "fallback", "spill", "96")
    assert plain.stdout.replace(" 0 managed", " 4 managed") == spilled.stdout, (plain.stdout, spilled.stdout)


harness.main(globals())
