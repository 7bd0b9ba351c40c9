"""A JSON report against core/report/report.schema.json, by jsonschema-rs or python3-jsonschema.

Used by harness.py for every report that a test reads, and by tests/golden/report/schema_test.py, which fails where neither is
installed: elsewhere (a machine with a GPU) reports are then read without. Only a test that reads a report loads one: that takes
35 ms, and 150.
"""
import functools
import json
import pathlib

import modules

SCHEMA = pathlib.Path(__file__).resolve().parents[2] / "core" / "report" / "report.schema.json"
PACKAGES = ("jsonschema_rs", "jsonschema")


@functools.cache
def validator(packages=PACKAGES):
    """Of the first package that is there. None: none is."""
    found = modules.first_of(*packages)
    return found and found.Draft7Validator(json.loads(SCHEMA.read_text()))


def place_of(error):
    return error.instance_path if hasattr(error, "instance_path") else error.absolute_path


def faults_of(report, most=5, packages=PACKAGES):
    """The first few of what is not as the schema has it, each with its place."""
    if validator(packages) is None:
        return []
    found = []
    for error in validator(packages).iter_errors(report):
        if len(found) == most:
            break
        place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place_of(error))
        found.append(f"report{place}: {error.message[:200]}")
    return found
