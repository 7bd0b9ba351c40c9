"""What dlsym calls while it answers: nothing that anybody interposes, as a sanitizer asks it for the real functions.

early_calls.py BUILD [test...]; see harness.main. The release library's own code is read, from dlsym and dlvsym on.
"""
import collections
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import harness

ENTRIES = ("gpumem_find_next_lookup", "gpumem_answer_dlsym", "gpumem_answer_dlvsym")
HOOKS = re.compile(r"_HOOK\((\w+)")
SYMBOLS = pathlib.Path(__file__).resolve().parents[3] / "shim" / "symbols" / "symbols.def"
FUNCTION = re.compile(r"^[0-9a-f]+ <(.+)>:$")
# A call or jump, or an address that is taken: of a function that is passed on to be called. A hook's is the answer.
REFERENCE = re.compile(r"\b(call|j[a-z]+|lea)\b.*<([^>]+)>")


def references(library):
    """Function -> the functions that it names."""
    text = subprocess.run(["objdump", "-d", "--no-show-raw-insn", str(library)], capture_output=True, text=True, check=True).stdout
    answers = set(HOOKS.findall(SYMBOLS.read_text()))
    found, function = collections.defaultdict(set), None
    for line in text.splitlines():
        head = FUNCTION.match(line)
        if head:
            function = head.group(1)
            found[function]
            continue
        reference = REFERENCE.search(line)
        if reference:
            name = re.sub(r"\+0x[0-9a-f]+$", "", reference.group(2))
            if reference.group(1) != "lea" or name not in answers:
                found[function].add(name)
    return found


def reached(found, entries):
    seen, open_ = set(), list(entries)
    while open_:
        function = open_.pop()
        if function in seen:
            continue
        seen.add(function)
        open_ += found.get(function, ())
    return seen


def test_dlsym_calls_nothing_of_others(build):
    harness.require_tool("objdump")
    found = references(build.library)
    if not any(name.endswith("@plt") for name in found):
        raise harness.Skipped("this library has no table of calls that objdump knows")
    for entry in ENTRIES:
        assert entry in found, f"{entry} is not in the library"
    calls = reached(found, ENTRIES)
    assert len(calls) > 10, f"only {sorted(calls)} are reached: nothing was read"
    foreign = sorted(name for name in calls if name.endswith("@plt"))
    harness.equal(foreign, [], "functions of others that dlsym calls")
    # The same reading finds the calls of code that has some.
    assert any(name.endswith("@plt") for name in reached(found, ["execvp"])), "no call is found anywhere: nothing was read"


harness.main(globals())
