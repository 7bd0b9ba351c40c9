"""The schema of the JSON report: it is one, it is closed, its counters are those of fields.def, the golden reports are as it has
them, and there is no field in it that no golden report has. And it can fail.

schema_test.py; no arguments. Needs python3-jsonschema (scripts/setup.sh).
"""
import copy
import json
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path.insert(0, str(ROOT / "tests" / "integration"))
import modules
import report_schema

# Added by gpumem report and gpumem run, which ask the files of a machine.
NOT_IN_GOLDENS = {"frames.file", "frames.line", "frames.symbol"}


def objects_of(schema, name=""):
    """(name, object) of all objects that a schema describes."""
    if schema.get("type") == "object":
        yield name, schema
    for key, child in {**schema.get("properties", {}), **schema.get("definitions", {})}.items():
        yield from objects_of(child, key)
    if "items" in schema:
        yield from objects_of(schema["items"], name)


def fields_seen(schema, whole, value, seen, name=""):
    """Adds "object.field" for each field of this value."""
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[1]
        schema = whole["definitions"][name]
    if isinstance(value, list):
        for item in value:
            fields_seen(schema["items"], whole, item, seen, name)
    elif isinstance(value, dict):
        for key, item in value.items():
            seen.add(f"{name}.{key}")
            fields_seen(schema.get("properties", {}).get(key, {}), whole, item, seen, key)


def counters_of_fields_def():
    text = (ROOT / "core" / "stats" / "page" / "fields.def").read_text()
    return [name + ("_bytes" if unit == "bytes" else "")
            for name, unit in re.findall(r"^GPUMEM_DEVICE_FIELD\((\w+), (\w+),", text, re.M)]


def check(condition, what):
    if not condition:
        print(f"schema_test: {what}")
        sys.exit(1)


def check_refused(report, what):
    """By each validator that is there, at the same places."""
    found = [report_schema.faults_of(report, packages=(package,)) for package in report_schema.PACKAGES
             if report_schema.validator((package,))]
    check(found and all(found), what)
    places = [{fault.split(":")[0] for fault in faults} for faults in found]
    check(all(each == places[0] for each in places), f"validators differ: {found}")


def main():
    jsonschema = modules.first_of("jsonschema")
    check(jsonschema is not None, "python3-jsonschema is missing: run scripts/setup.sh")
    schema = json.loads(report_schema.SCHEMA.read_text())
    jsonschema.Draft7Validator.check_schema(schema)
    described = dict(objects_of(schema))
    for name, one in described.items():
        check("additionalProperties" in one, f"{name} is open: no additionalProperties")
        check(set(one.get("required", [])) <= set(one.get("properties", {})), f"{name} requires a field that it does not have")
        for field in one.get("properties", {}):
            check(not field.endswith("bytes") or field.endswith("_bytes"), f"{name}.{field}: a field of bytes ends with _bytes")
    counters = counters_of_fields_def()
    check(len(counters) > 20 and list(described["counters"]["properties"]) == counters and
          described["counters"]["required"] == counters, f"counters are not those of fields.def: {counters}")

    seen, goldens = set(), sorted(HERE.glob("*.json"))
    check(len(goldens) >= 6, f"golden reports: {goldens}")
    for golden in goldens:
        report = json.loads(golden.read_text())
        faults = report_schema.faults_of(report)
        check(not faults, f"{golden.name}: {faults}")
        fields_seen(schema, schema, report, seen)
    for name, one in described.items():
        for field in one.get("properties", {}):
            full = f"{name}.{field}"
            check(full in seen or full in NOT_IN_GOLDENS, f"no golden report has {full}")

    for path, value in ((("more",), 1), (("devices", 0, "more"), 1), (("devices", 0, "now", "free_bytes"), None), (("schema",), 1),
                        (("devices", 0, "now", "requested_bytes"), -1), (("end", "kind"), "gone"), (("devices",), None)):
        changed = copy.deepcopy(report)
        place = changed
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = value
        check_refused(changed, f"accepted: {path} = {value}")
    del report["devices"][0]["now"]["requested_bytes"]
    check_refused(report, "accepted: a ledger without requested_bytes")
    print(f"schema_test: {len(goldens)} golden reports, {len(seen)} fields")


main()
