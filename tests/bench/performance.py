"""Fills the tables of docs/performance.md from the result files; the text between them is written by hand and kept.

performance.py [--check | --behind GROUP PEER,PEER...]. A table stands between `<!-- table: NAME -->` and `<!-- end -->`; NAME is a group of the newest result
of each device, `wanted` (wanted.py, of the newest device), or one of the tables that need no GPU: `counts`, `traces`. --check changes nothing and exits 1 when the file is
not what the results say. --behind prints which of our figures of a group are behind the best of these peers.
"""
import json
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import tables
import wanted

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "docs" / "performance.md"
RESULTS = ROOT / "docs" / "bench-results"
GOLDEN = ROOT / "tests" / "golden" / "bench"
MARK = re.compile(r"(<!-- table: ([\w ]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def documents():
    return [json.loads(path.read_text()) for path in sorted(RESULTS.glob("*.json"))]


def counts():
    parts = []
    for path in sorted(GOLDEN.glob("calls.*.txt")):
        title, head, *rows = path.read_text().splitlines()
        parts += [title.lstrip("# ").split(".  ")[0].split(". One")[0] + ":", "",
                  tables.table(head.split(), [row.split() for row in rows]), ""]
    return "\n".join(parts)


def traces():
    path = GOLDEN / "traces.json"
    rows = [(*name.split(), f"{ratio:.3f}") for name, ratio in json.loads(path.read_text()).items()] if path.exists() else []
    return tables.table(("trace", "chain", "reserved / requested"), rows) + "\n"


def of_group(name, found):
    parts = []
    for document in found:
        groups = tables.by_group(document)
        for group, records in groups.items():
            if group == name or group.startswith(name + ":"):
                parts += [f"{group}: {records[0]['run']}", "", tables.group_table(records), ""]
        if name == "ratios":
            parts += [tables.heading(document), "", tables.ratio_table(groups), ""]
    return "\n".join(parts) or "Not measured yet on any device of docs/bench-results.\n"


def wanted_of(found):
    return "\n".join(f"{document['device']}, {wanted.table(document)}" for document in found)


def filled(text, found):
    own = {"counts": counts, "traces": traces, "wanted": lambda: wanted_of(found)}
    return MARK.sub(lambda mark: mark[1] + "\n" + own.get(mark[2], lambda: of_group(mark[2], found))() + "\n" + mark[3], text)


def refresh():
    """After results or goldens changed."""
    PAGE.write_text(filled(PAGE.read_text(), documents()))


def behind(group, peers):
    """Our figures of a group that are behind the best of these peers, a line each, and how many of how many they are."""
    for document in documents():
        records = [record for record in tables.by_group(document).get(group, [])
                   if record["role"] == "ours" or record["variant"] in peers]
        found = [item for item in tables.ratios(records) if item[3] is not None]
        for variant, case, _, against, peer, _ in found:
            if against < 1:
                print(f"{document['device']}: {variant}, {case}: {against:.2f} of {peer}")
        for variant, metric in sorted({(item[0], item[1].split()[-1]) for item in found}):
            own = [item[3] for item in found if item[0] == variant and item[1].endswith(f" {metric}")]
            print(f"{document['device']}: {variant}, {metric}: {sum(ratio < 1 for ratio in own)} of {len(own)} behind")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--behind"]:
        behind(sys.argv[2], sys.argv[3].split(","))
    elif "--check" not in sys.argv[1:]:
        refresh()
    elif filled(PAGE.read_text(), documents()) != PAGE.read_text():
        print(f"{PAGE} is not what the results say: run python3 tests/bench/performance.py")
        sys.exit(1)
