"""A JSON report against core/report/report.schema.json, by python3-jsonschema.

Used by harness.py for every report that a test reads, and by tests/golden/report/schema_test.py, which fails where jsonschema is
not installed: elsewhere (a machine with a GPU) reports are then read without it.
"""
import json
import pathlib

SCHEMA = pathlib.Path(__file__).resolve().parents[2] / "core" / "report" / "report.schema.json"

try:
    import jsonschema
except ModuleNotFoundError:
    jsonschema = None

made = None


def validator():
    global made
    if made is None:
        made = jsonschema.Draft7Validator(json.loads(SCHEMA.read_text()))
    return made


def faults_of(report, most=5):
    """The first few of what is not as the schema has it, each with its place."""
    if jsonschema is None:
        return []
    found = []
    for error in validator().iter_errors(report):
        if len(found) == most:
            break
        place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.absolute_path)
        found.append(f"report{place}: {error.message[:200]}")
    return found
