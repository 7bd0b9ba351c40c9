"""Runs one program of tests/programs plain and preloaded on the simulated CUDA and demands that nobody could tell.

compare.py BUILD [--config FILE] [--driver VERSION] [--expected FILE] [--no-counts] [--manual-clock]
    [--simulated NAME=VALUE] [--lives N] PROGRAM [argument...]
Equal stdout, stderr and exit code; the report's counts equal the program's own; the ledger adds up; no state page is
left behind. With --lives the program's contexts are the next ones after N others of each device (earlier_life.cpp). The simulator's checker turns any unordered reuse into exit code 99, which plain runs never give.
"""
import argparse
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import harness
import lives

BROKEN = (3, 99)  # a call that failed (support.hpp), a hazard: no argument asks for these


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--config")
    parser.add_argument("--expected", help="file that the plain run's stdout must equal: the real driver's answers")
    parser.add_argument("--driver", help="CUDA version of an older driver, such as 11000")
    parser.add_argument("--no-counts", action="store_true", help="the program prints no counts")
    parser.add_argument("--manual-clock", action="store_true", help="only waits move the simulated GPU on")
    parser.add_argument("--simulated", action="append", default=[], metavar="NAME=VALUE",
                        help="GPUMEM_SIMULATED_NAME of both runs, such as DEVICES=16")
    parser.add_argument("--not-noted", action="store_true",
                        help="the simulated driver does not hear of all that the program frees, or not in time")
    parser.add_argument("--still-moving", action="store_true",
                        help="its threads allocate until the very end: the report is of an earlier moment")
    parser.add_argument("--lives", type=int, default=0, help="contexts of each device that come and go before the program's, in both runs")
    parser.add_argument("program")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    options = parser.parse_args()

    build = harness.Build(options.build)
    command = [build.program(options.program), *options.arguments]
    surroundings = build.old_driver(options.driver) if options.driver else {}
    if options.manual_clock:
        surroundings["GPUMEM_SIMULATED_CLOCK"] = "manual"
    for setting in options.simulated:
        name, value = setting.split("=", 1)
        surroundings[f"GPUMEM_SIMULATED_{name}"] = value
    env = {"GPUMEM_CONFIG": str(pathlib.Path(options.config).resolve())} if options.config else {}
    earlier = []
    if options.lives:
        plain, preloaded, earlier = lives.run_both(build, command, options.lives, surroundings, env)
    else:
        plain = build.run(command, env=surroundings)
        preloaded = build.run(command, preload=True, env={**surroundings, **env})

    faults = harness.differences(plain, preloaded)
    if options.expected:
        wanted = pathlib.Path(options.expected).read_text()
        faults += harness.first_difference("plain stdout against the real driver's", wanted, plain.stdout)
    if plain.code != 0 and (not options.arguments or plain.code in BROKEN):
        faults.append(f"the plain run already fails, with {plain.code}: {plain.stderr[-2000:]}")
    if not options.no_counts:
        if not harness.own_counts(preloaded.stdout):
            faults.append("the program printed no counts: nothing was compared")
        faults += harness.count_faults(preloaded, earlier)
    if not preloaded.reports:
        faults.append("no JSON report was written")
    for report in preloaded.reports if not options.still_moving else ():
        faults += harness.ledger_faults(report, preloaded.known.get(report["process"]["pid"]),
                                        noted=not options.not_noted)
    if preloaded.state:
        faults.append(f"state pages left behind: {preloaded.state}")

    if faults:
        print(f"{' '.join(command)} ({options.config or 'default config'})")
        print("\n".join(faults))
        print("--- stdout, preloaded:", preloaded.stdout[-1500:], "--- stderr, preloaded:", preloaded.stderr[-1500:], sep="\n")
        sys.exit(1)
    print(f"equal: {len(plain.stdout.splitlines())} lines, exit code {plain.code}, {len(preloaded.reports)} reports")


main()
