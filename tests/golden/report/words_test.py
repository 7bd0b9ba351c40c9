"""gpumem report --explain knows every word that the text report prints, and explains none that is printed nowhere.

words_test.py; no arguments. Reads the golden reports and core/report/glossary.def. Words are told by where they stand: titles and
heads of columns of each section, labels at the begin of a line, what comes behind a figure. Names of the program's are none.
"""
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]

HEAD = re.compile(r"^(status|config|intercept|recording|json)  +(.*)$")
LEDGER = re.compile(r"^  [ +=-] ([a-z].*?)  +[-\d]")
ATTEMPT = re.compile(r"([a-z][a-z ]*?) [\d,]+ \(")
# By section: how a line of it tells a word. The first group is one; of a line that matches none nothing is asked.
LINES = {
    "DEVICE": [LEDGER, re.compile(r"^  (attempts|fallback|streams|contexts)  "), re.compile(r"% (?:of )?([a-z ]+)$"),
               re.compile(r"[MGK]?i?B (free)$"), re.compile(r"  (highest) [\d.]+ [MGK]?i?B$")],
    "CALLS": [re.compile(r"^  ([a-z][a-z ]*?)  +\S"), re.compile(r"  (seen only|passthrough)$"), re.compile(r" (routed) ")],
    "CHAIN": [re.compile(r"^ +(went back|spilled|callers|sizes)\b"), re.compile(r"^ +(now|highest|total)  +[\d.]+ \S+ in ")],
    "TIMELINE": [re.compile(r"^  ([a-z]+)  +")],
    "LEAKS": [re.compile(r"^LEAKS .*, (not given back),")],
    "WHO": [re.compile(r"^  (together)  +"), re.compile(r"^  \d+ (others)  +")],
    "CATEGORIES": [re.compile(r"^  (together|other)  +")],
    "WHERE": [re.compile(r"^WHERE .* a (sample) each"), re.compile(r"^  [\d,]+ (other sites)  +"), re.compile(r"^    from (thread) ")],
    "FAILURES": [re.compile(r"^ {12}([a-z][a-z ]{10}) \S"), re.compile(r"(handed out) .*, (cached) .*, (largest free block) "),
                 re.compile(r"-> (OUT_OF_MEMORY)"), re.compile(r"(small sites) about")],
    "MISUSE": [re.compile(r"^ {12}(at|freed first at|allocated at|found by the free at) "), re.compile(r"its (red zone)")],
}
# What a title has behind its words: a number, a name, a moment.
NOT_HEADS = re.compile(r"^(\d.*|device \d+.*|at peak \d.*)$")
# Terms that stand in no golden report, and where they do stand.
ELSEWHERE = {
    "fragmentation": "schema 1 of the JSON report", "stream order": "what other terms are explained with",
}


def sections_of(text):
    """(name, lines) of each; the head of the report is the first, without a name."""
    name, lines = "", []
    for line in text.splitlines():
        title = re.match(r"^([A-Z]{3,})( |$)", line)
        if title or line.startswith(("next: ", "=== end")):
            yield name, lines
            name, lines = (title.group(1) if title else "next"), []
        lines.append(line)
    yield name, lines


def words_of(text):
    for name, lines in sections_of(text):
        if name == "":
            for line in filter(HEAD.match, lines):
                yield line.split()[0]
                yield from re.findall(r"  (host|json|explain|export)  ", line)
            continue
        if name == "next":
            continue
        yield name
        cells = re.split(r"  +", lines[0].strip())[1:]
        if name == "DEVICE":  # its name and size come first
            cells = [cell.split(" 0:")[0] for cell in cells if cell.startswith("at ")]
            cells = [re.sub(r"^(at peak) .*", r"\1", cell) for cell in cells]
        if name not in ("TIMELINE", "LEAKS"):
            yield from (cell for cell in cells if not NOT_HEADS.match(cell))
        if name == "CATEGORIES":
            yield from re.split(r"  +", lines[1].strip())
        for line in lines:
            for pattern in LINES.get(name, LINES["CHAIN"] if name == "RULES" else []):
                for found in pattern.findall(line):
                    yield from ([found] if isinstance(found, str) else found)
        if name == "DEVICE":
            start = next((i for i, line in enumerate(lines) if line.startswith("  attempts")), len(lines))
            for line in lines[start:]:
                if not line.startswith(("  attempts", "            ")):
                    break
                yield from ATTEMPT.findall(line.replace("  attempts", ""))


def main():
    terms = [name.lower() for names in re.findall(r'^GPUMEM_TERM\("([^"]+)"', (ROOT / "core/report/glossary.def").read_text(), re.M) for name in names.split("|")]
    printed = {}
    for golden in sorted(HERE.glob("*.txt")):
        if golden.name == "CMakeLists.txt":
            continue
        for word in words_of(golden.read_text()):
            printed.setdefault(word.strip().rstrip(",").lower(), golden.name)
    assert len(printed) > 60, printed
    unknown = {word: where for word, where in printed.items() if word not in terms}
    for word, where in unknown.items():
        print(f"words_test: {where} prints \"{word}\", which gpumem report --explain does not know: core/report/glossary.def")
    everything = " ".join([*(g.read_text().lower() for g in HERE.glob("*.txt")), (ROOT / "core/report/report.schema.json").read_text()])
    everything = " ".join(everything.split())
    stale = [term for term in terms if term not in printed and not re.search(rf"\b{re.escape(term)}", everything) and term not in ELSEWHERE]
    for term in stale:
        print(f"words_test: \"{term}\" is explained, and stands in no golden report")
    sys.exit(1 if unknown or stale else 0)


main()
