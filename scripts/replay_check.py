#!/usr/bin/env python3
"""Reads a log of allocations as RMM's replay benchmark does, and says whether it can be replayed.

replay_check.py LOG.csv [--whole] [--quiet]
By RMM's documented rules: a first line with the names of the columns, of which Thread, Action, Pointer, Size and Stream
are read by name; actions `allocate`, `free` and `allocate failure`, the last with the pointer (nil). Then the events are
replayed in the order of the lines: an address is allocated once before it is freed, two live blocks never overlap, and a
free names the size of its allocation. --whole: everything must be freed in the end. A last line that was cut off (the
process was killed while it wrote) is left out, and said.
"""
import argparse
import bisect
import csv
import re
import sys

RMM_COLUMNS = ["Thread", "Time", "Action", "Pointer", "Size", "Stream"]
STREAM = re.compile(r"^(0|0x[0-9a-f]+)$")
TIME = re.compile(r"^([01]\d|2[0-3]):[0-5]\d:[0-5]\d\.\d{6}$")


class Fault(Exception):
    pass


def read_events(path):
    """[(thread, time, action, address, bytes, stream, row)], and whether the last line was cut off."""
    with open(path, encoding="utf-8", newline="") as file:
        text = file.read()
    cut = not text.endswith("\n")
    lines = text.split("\n")[:-1]
    rows = list(csv.DictReader(lines))
    if not lines or lines[0].split(",")[:6] != RMM_COLUMNS:
        raise Fault(f"{path}: the first line does not begin with {','.join(RMM_COLUMNS)}")
    events = []
    for number, row in enumerate(rows, 2):
        where = f"{path}:{number}"
        if None in row or None in row.values():
            raise Fault(f"{where}: another number of columns than the first line has")
        if not TIME.match(row["Time"]):
            raise Fault(f"{where}: the time {row['Time']!r} is not HH:MM:SS.uuuuuu")
        if not STREAM.match(row["Stream"]):
            raise Fault(f"{where}: the stream {row['Stream']!r} is neither 0 nor 0x and hexadecimal digits, as RMM writes it")
        action = row["Action"]
        if action not in ("allocate", "free", "allocate failure"):
            raise Fault(f"{where}: unknown action {action!r}")
        failed = action == "allocate failure"
        if failed != (row["Pointer"] == "(nil)"):
            raise Fault(f"{where}: {action} with the pointer {row['Pointer']}")
        address = 0 if failed else int(row["Pointer"], 16)
        events.append((int(row["Thread"]), row["Time"], action, address, int(row["Size"]), int(row["Stream"], 16), row))
    return events, cut


def replay(path, events):
    """Live blocks after the last event: {address: (bytes, device)}."""
    live, order = {}, {}
    for number, (_, _, action, address, size, _, row) in enumerate(events, 2):
        where = f"{path}:{number}"
        # Two devices may hand out the same address only where they have no unified addressing; kinds never do.
        key = row.get("Device", "0")
        starts = order.setdefault(key, [])
        if action == "allocate":
            at = bisect.bisect_right(starts, address)
            if at and starts[at - 1] + live[key, starts[at - 1]] > address:
                raise Fault(f"{where}: {address:#x} lies in the live block at {starts[at - 1]:#x}")
            if at < len(starts) and address + size > starts[at]:
                raise Fault(f"{where}: {size} bytes at {address:#x} reach into the live block at {starts[at]:#x}")
            starts.insert(at, address)
            live[key, address] = size
        elif action == "free":
            if (key, address) not in live:
                raise Fault(f"{where}: {address:#x} is freed, and not allocated")
            if live[key, address] != size:
                raise Fault(f"{where}: {address:#x} was {live[key, address]} bytes, freed as {size}")
            del live[key, address]
            starts.pop(bisect.bisect_left(starts, address))
    return live


def check(path, whole=False):
    events, cut = read_events(path)
    live = replay(path, events)
    if whole and live:
        raise Fault(f"{path}: {len(live)} blocks are never freed")
    return events, live, cut


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("logs", nargs="+")
    parser.add_argument("--whole", action="store_true", help="everything must be freed in the end")
    parser.add_argument("--quiet", action="store_true")
    options = parser.parse_args()
    try:
        for path in options.logs:
            events, live, cut = check(path, options.whole)
            if not options.quiet:
                note = ", the last line was cut off" if cut else ""
                print(f"{path}: {len(events)} events, {len({e[0] for e in events})} threads, {len(live)} live at the end{note}")
    except (Fault, OSError, ValueError) as fault:
        print(f"replay_check: {fault}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
