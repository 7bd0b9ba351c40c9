"""Reads one callgrind output file: what each object, function and source file cost itself, and who called what.

Events are Ir (instructions) and Ge (atomic read-modify-write, with --collect-bus). Costs are of the code itself, without
what it called. Used by instruction_counts.py.
"""
import collections
import re

NAME = re.compile(r"\((\d+)\)(?: (.*))?")


class Dump:
    def __init__(self, path):
        self.trigger = ""
        self.cost = collections.Counter()                   # (object, function, source file) -> instructions
        self.atomics = collections.Counter()                # the same -> atomic operations
        self.calls = collections.Counter()                  # (object, called object, called function) -> times
        self.inclusive = collections.Counter()              # the same -> instructions, with all that it called
        self.inclusive_atomics = collections.Counter()
        self.code = collections.defaultdict(set)            # object -> addresses of what was run, with --dump-instr
        self.names = {"object": {}, "file": {}, "function": {}}
        self.read(path)

    def name(self, kind, text):
        """Names are written once and then only by number."""
        number, given = NAME.fullmatch(text).groups()
        if given is not None:
            self.names[kind][number] = given
        return self.names[kind].get(number, "?")

    def read(self, path):
        inclusive, address, positions = None, 0, 1
        where, called = {"ob": "", "fl": "", "fn": ""}, {"ob": "", "fn": ""}
        with open(path) as lines:
            for line in lines:
                line = line.rstrip("\n")
                key, mark, value = line.partition("=")
                if line.startswith("desc: Trigger:"):
                    self.trigger = line.split("=")[-1]
                elif line.startswith("positions:"):
                    positions = len(line.split()) - 1
                elif key in ("ob", "fl", "fi", "fe", "fn") and mark:
                    kind = {"ob": "object", "fn": "function"}.get(key, "file")
                    where["fl" if kind == "file" else key] = self.name(kind, value)
                    called = {"ob": where["ob"], "fn": ""}
                elif key == "cob":
                    called["ob"] = self.name("object", value)
                elif key in ("cfi", "cfl"):
                    self.name("file", value)
                elif key == "cfn":
                    called["fn"] = self.name("function", value)
                elif key == "calls":
                    inclusive = where["ob"], called["ob"], called["fn"]
                    self.calls[inclusive] += int(value.split()[0])
                    called = {"ob": where["ob"], "fn": ""}
                elif line[:1] in tuple("0123456789+-*"):
                    costs = [int(part) for part in line.split()[positions:]] + [0, 0]
                    if positions == 2:  # an instruction and a line; `+` and `-` are from the address before, `*` is that
                        at = line.split()[0]
                        address = int(at, 16) if at.startswith("0x") else address + int(at.replace("*", "0"))
                        self.code[where["ob"]].add(address)
                    at = inclusive or (where["ob"], where["fn"], where["fl"])
                    (self.inclusive if inclusive else self.cost)[at] += costs[0]
                    (self.inclusive_atomics if inclusive else self.atomics)[at] += costs[1]
                    inclusive = None
