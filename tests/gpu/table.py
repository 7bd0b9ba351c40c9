"""The rows of a GPU run: the whole table for a file, and a compact one, a line a case, for the end of the output: what failed,
was skipped, or took longer than plain is named there.
"""


class Table:
    HEAD = ("test", "result", "plain", "preloaded", "note")

    def __init__(self):
        self.rows, self.failed, self.details = [], 0, []
        self.step_times = {}         # PyTorch's: its own allocator plain, caching off preloaded

    def add(self, name, result, plain="", preloaded="", note="", details=()):
        self.failed += result == "FAIL"
        self.rows.append((name, result, plain, preloaded, note))
        print(f"{result:5} {name}  {note}", flush=True)
        for line in details:
            print(f"      {line}", flush=True)
            self.details.append(f"{name}: {line}")

    def add_time(self, name, plain, preloaded, unit):
        """One that takes a quarter longer than plain is "slow", and stands in the compact table as well."""
        slow = plain and preloaded > 1.25 * plain
        ratio = f"{plain / preloaded:.2f} times as fast" if preloaded else ""
        self.add(name, "slow" if slow else "time", f"{plain:g} {unit}", f"{preloaded:g} {unit}", ratio)

    def count(self, result):
        return sum(row[1] == result for row in self.rows)

    def text(self):
        width = [max(len(str(row[i])) for row in [self.HEAD, *self.rows]) for i in range(len(self.HEAD))]
        line = lambda row: "| " + " | ".join(str(cell).ljust(w) for cell, w in zip(row, width)) + " |"
        return "\n".join([line(self.HEAD), "|" + "|".join("-" * (w + 2) for w in width) + "|", *map(line, self.rows)])

    def compact(self):
        """Variants of a case (links, configurations) folded into one line; what failed, was skipped or slow by its full name."""
        folded, rest, of = {}, [], ""
        for name, result, _, _, note in self.rows:
            if result == "slow":
                name = f"{of}: {name.strip()}"
            elif result != "time":
                of = name
            if result == "PASS":
                case = name.split(",")[0]
                folded[case] = folded.get(case, 0) + 1
            elif result != "time":
                rest.append(f"{result:5} {name}  {note}")
        return "\n".join([*(f"PASS {count:2}  {case}" for case, count in folded.items()), *rest])
