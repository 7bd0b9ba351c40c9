"""What the driver answers to programs that keep no rule (transcript/), plain against preloaded under every chain: each line
must be the same. Chains over vmm and cuda_async are not among the tests: what such memory is shows in attributes, and legacy
IPC refuses it, as the documents say.

transcripts.py BUILD [test...]; see harness.main. Or: transcripts.py BUILD --seconds N [--first SEED] [--chains A,B] [--lives N], which
tries new seeds until the time is over, and makes each difference as small as it can; with --lives after others of each context (lives.py).
"""
import argparse
import collections
import os
import pathlib
import random
import re
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import harness
import lives
from random_run import CONFIGS, NEEDS

STEPS = 600
DEVICES = "3"
WITHOUT = {key: value for key, value in os.environ.items() if key.startswith("TRANSCRIPT_")}
TESTED = 6  # seeds of a chain in a test
ENDS_WELL = "exit code 0"
earlier_lives = 0  # of each context


def transcript(build, seed, config, steps=None, devices=DEVICES, checks=False):
    """The lines, and how it ended."""
    with tempfile.TemporaryDirectory(prefix="gpumem-transcript.") as folder:
        env = {"GPUMEM_SIMULATED_STRICT": None, **WITHOUT, "GPUMEM_SIMULATED_DEVICES": devices, **NEEDS.get(config, {})}
        if checks:
            env["TRANSCRIPT_CHECK"] = "1"
        if earlier_lives:
            env.update(lives.environment(build, earlier_lives, "libgpumem.so" if config is not None else None))
        if config is not None:
            path = pathlib.Path(folder) / "chain.toml"
            path.write_text(CONFIGS[config])
            env.setdefault("LD_PRELOAD", build.preload())
            env.update(GPUMEM_CONFIG=str(path), GPUMEM_STATE_DIR=folder, GPUMEM_REPORT="none")
        command = [build.program("transcript"), str(seed), str(STEPS)]
        if steps is not None:
            command.append(",".join(str(step) for step in steps))
        outcome = build.run(command, env=env, timeout=70)
        return [*outcome.stdout.splitlines(), f"exit code {outcome.code}"]


def difference(build, seed, config, steps=None, plain=None):
    """None, or the number of the first line that differs, with both."""
    plain = plain or transcript(build, seed, plain_of(config), steps)
    other = transcript(build, seed, config, steps)
    for number, (a, b) in enumerate(zip([*plain, "(ends)"], [*other, "(ends)"])):
        if a != b:
            return number, plain, other
    return None


def plain_of(config):
    """The plain run needs the same device."""
    return None


def shrink(build, seed, config, limit=40):
    """The fewest steps found within `limit` seconds that still differ."""
    number, plain, _ = difference(build, seed, config)
    last = int(plain[min(number, len(plain) - 1)].split(".")[0]) if plain[number][:1].isdigit() else STEPS - 1
    steps = list(range(min(last + 1, STEPS)))
    end = time.monotonic() + limit
    size = max(1, len(steps) // 2)
    while size >= 1 and time.monotonic() < end:
        i = 0
        while i < len(steps) and time.monotonic() < end:
            fewer = steps[:i] + steps[i + size:]
            if fewer and difference(build, seed, config, fewer):
                steps = fewer
            else:
                i += size
        size //= 2
    return steps


def signature(number, plain, other):
    """The first line that differs without its names, and how the other one ends."""
    line = (plain + ["(ends)"])[number]
    return re.sub(r"\b[a-z]\d+\b|\+\d+", "", line.split("  ", 1)[-1]), (other + ["(ends)"])[number].split(" ")[-1]


def describe(build, seed, config, steps=None):
    number, plain, other = difference(build, seed, config, steps)
    begin = max(0, number - 12)
    lines = [f"seed {seed} under {config}" + (f", steps {','.join(map(str, steps))}" if steps else "")]
    lines += [f"    {line}" for line in plain[begin:number]]
    lines += [f"  plain     {line}" for line in plain[number:number + 2]]
    lines += [f"  preloaded {line}" for line in other[number:number + 2]]
    return "\n".join(lines)


def seeds():
    return [*range(1, TESTED), random.SystemRandom().randrange(1 << 24)]


def test_books(build):
    """What the program takes for alive is alive, or it would ask about addresses that are anybody's; it ends well, or there
    is nothing to compare."""
    for seed in [*range(TESTED, 21), *seeds()]:
        lines = transcript(build, seed, None, checks=True)
        wrong = [line for line in lines if "BOOKS" in line][:5]
        assert not wrong and lines[-1] == ENDS_WELL, "\n".join([f"seed {seed}, TRANSCRIPT_CHECK=1", *wrong, *lines[-3:]])


def expect_same(build, config):
    for seed in seeds():
        assert difference(build, seed, config) is None, "\n" + describe(build, seed, config, shrink(build, seed, config))


def test_pool(build):
    expect_same(build, "pool")


def test_binning(build):
    expect_same(build, "binning")


def test_arena(build):
    expect_same(build, "arena")


def test_compact(build):
    expect_same(build, "compact")


def test_cuda(build):
    expect_same(build, "cuda")


def test_program_pools(build):
    expect_same(build, "program_pools")


def test_managed_and_host(build):
    expect_same(build, "managed_and_host")


def search(build, seconds, seed, chains):
    end = time.monotonic() + seconds
    runs = lines = 0
    found = collections.Counter()
    while time.monotonic() < end:
        plain = transcript(build, seed, None)
        if plain[-1] != ENDS_WELL:
            found["plain", plain[-1]] += 1
            print(f"seed {seed} plain", *plain[-3:], sep="\n    ", flush=True)
        for config in chains:
            runs += 1
            lines += len(plain)
            different = difference(build, seed, config, plain=plain)
            if not different:
                continue
            kind = signature(*different)
            found[kind] += 1
            if found[kind] == 1:
                print(describe(build, seed, config, shrink(build, seed, config)), flush=True)
        seed += 1
    print(f"transcripts: {runs} runs of {STEPS} steps, {lines:,} lines compared, {found.total()} differences, next seed {seed}")
    for (line, code), times in found.most_common():
        print(f"  {times:5}  {line}  preloaded {code}")
    sys.exit(1 if found or not runs else 0)


if __name__ == "__main__":
    if "--seconds" in sys.argv:
        options = argparse.ArgumentParser()
        options.add_argument("build")
        options.add_argument("--seconds", type=float, default=60)
        options.add_argument("--first", type=int, default=None)
        options.add_argument("--chains", default=",".join(CONFIGS))
        options.add_argument("--lives", type=int, default=0)
        given = options.parse_args()
        earlier_lives = given.lives
        first = given.first if given.first is not None else random.SystemRandom().randrange(1 << 24)
        search(harness.Build(given.build), given.seconds, first, given.chains.split(","))
    else:
        harness.main(globals())
