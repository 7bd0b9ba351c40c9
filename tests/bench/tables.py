"""Results as Markdown: for each group a table of figures by case and allocator, last the table of ratios.

A ratio above 1 says that gpumem is ahead: time of the other / time of gpumem, or throughput of gpumem / of the other. Native
is the same pair of calls without gpumem; the best peer is the best of RMM's resources and cub in that case.
"""
import statistics


def number(value):
    return f"{value:.3g}" if value < 100 else f"{value:,.0f}"


def table(head, rows):
    cells = [head, *rows]
    width = [max(len(str(row[i])) for row in cells) for i in range(len(head))]
    line = lambda row: "| " + " | ".join(str(cell).ljust(w) for cell, w in zip(row, width)) + " |"
    return "\n".join([line(head), "|" + "|".join("-" * (w + 2) for w in width) + "|", *map(line, rows)])


def unique(values):
    return list(dict.fromkeys(values))


def group_table(records):
    """Cases down, allocators across; an empty cell was not measured."""
    variants = unique(r["variant"] for r in records)
    value = {(r["case"], r["metric"], r["variant"]): r["value"] for r in records}
    rows = []
    for case, metric, unit in unique((r["case"], r["metric"], r["unit"]) for r in records):
        cells = (value.get((case, metric, variant)) for variant in variants)
        rows.append([case, f"{metric}, {unit}", *("" if cell is None else number(cell) for cell in cells)])
    return table(["case", "figure", *variants], rows)


def ratio(record, other):
    if other is None or not other["value"] or not record["value"]:
        return None
    quotient = other["value"] / record["value"]
    return 1 / quotient if record["higher_is_better"] else quotient


def ratios(records):
    """(variant of ours, case and metric, against native, against the best peer, its name, against the version before) for
    each of our figures."""
    found = []
    for own in records:
        if own["role"] != "ours":
            continue
        same = [r for r in records if (r["case"], r["metric"]) == (own["case"], own["metric"])]
        native = next((r for r in same if r["role"] == "native" and r["pair"] == own["pair"]), None)
        peers = [r for r in same if r["role"] == "peer" and r["value"]]
        before = next((r for r in same if r["role"] == "before" and r["variant"] == own["variant"].replace("gpumem", "before", 1)), None)
        best = (max if own["higher_is_better"] else min)(peers, key=lambda r: r["value"], default=None)
        found.append((own["variant"], f"{own['case']} {own['metric']}", ratio(own, native), ratio(own, best),
                      best["variant"] if best else "", ratio(own, before)))
    return found


def spread(values):
    values = sorted(value for value in values if value is not None)
    return f"{number(values[0])} / {number(statistics.median(values))} / {number(values[-1])}" if values else ""


def ratio_table(groups):
    rows, compared = [], any(record["role"] == "before" for records in groups.values() for record in records)
    for group, records in groups.items():
        found = ratios(records)
        for variant in unique(item[0] for item in found):
            own = [item for item in found if item[0] == variant]
            against = [item for item in own if item[3] is not None]
            worst = min(against, key=lambda item: item[3], default=None)
            rows.append([group, variant, spread(item[2] for item in own), spread(item[3] for item in own),
                         f"{worst[1]} ({worst[4]})" if worst else "", *([spread(item[5] for item in own)] if compared else [])])
    return table(["group", "gpumem", "native: worst / median / best", "best peer: worst / median / best",
                  "worst against a peer", *(["before: worst / median / best"] if compared else [])], rows)


def by_group(document):
    return {group: [r for r in document["results"] if r["group"] == group]
            for group in unique(r["group"] for r in document["results"])}


def heading(document):
    versions = ", ".join(f"{name} {version}" for name, version in document["versions"].items())
    driver = f"driver {document['driver']}, " if document["driver"] else ""
    return f"{document['device']}, {driver}{document['cpu']}, {document['date']}; {versions}"


def notes(document):
    """Each once, with what it is about: what could not be measured, what a set of processes gave."""
    parts = []
    for reason in unique(note["reason"] for note in document["notes"]):
        what = [note for note in document["notes"] if note["reason"] == reason]
        parts.append(f"- {reason}: " + "; ".join(
            f"{group}, " + ", ".join(note["variant"] for note in what if note["group"] == group)
            for group in unique(note["group"] for note in what)))
    return parts


def ending(document):
    """What comes last on the screen: the notes, and the one table of ratios."""
    found = notes(document)
    parts = ["## Notes", "", *found, ""] if found else []
    parts += ["## Ratios", "", heading(document), "", "Times gpumem is ahead (above 1) or behind (below 1), over all cases of a group.",
              "", ratio_table(by_group(document)), ""]
    return "\n".join(parts)


def markdown(document):
    parts = [f"# {document['device']}", ""]
    for group, records in by_group(document).items():
        parts += [f"## {group}", "", records[0]["run"], "", group_table(records), ""]
    return "\n".join([*parts, ending(document)])
