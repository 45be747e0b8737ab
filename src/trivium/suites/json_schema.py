"""Generates the JSON Schema of the files that users write (``trivium schema``)."""

import re
from inspect import cleandoc
from typing import Any

import msgspec

from trivium.suites.case import Case
from trivium.suites.rubrics.built_in import NAMES, built_in_rubrics
from trivium.suites.settings import Settings
from trivium.suites.settings_loader import OLD_KEYS
from trivium.suites.sources import SOURCES
from trivium.values import JsonObject

DIALECT = "https://json-schema.org/draft/2020-12/schema"


_KEYS = {"passed": "pass"}
"""Keys of files, by the name of their attribute where that is another one."""


def record_schema(kind: type[msgspec.Struct]) -> JsonObject:
    """Schema of a record: a file of its own, or one line of a .jsonl file."""
    (reference,), components = msgspec.json.schema_components([kind], ref_template="#/$defs/{name}")
    return {"$schema": DIALECT, **reference, "$defs": _described(components)}


def suite_schema() -> JsonObject:
    """Schema of a suite file."""
    (_, _), components = msgspec.json.schema_components([Settings, Case], ref_template="#/$defs/{name}")
    defs = _described(components)
    settings = defs.pop("Settings")
    origins = {
        "cases": {
            "description": "The cases, or a file of cases.",
            "anyOf": [
                {"type": "array", "items": {"$ref": "#/$defs/Case"}, "minItems": 1},
                {"type": "string"},
            ],
        },
        **{name: {"type": "string", "description": f"Path of {name} data."} for name in SOURCES},
    }
    old = {name: {"deprecated": True, "description": words} for name, words in OLD_KEYS.items()}
    heads = {
        "name": {"type": "string", "description": "Name of the suite in reports."},
        "config": {
            "type": "string",
            "description": "A file of settings; settings in the suite file override them.",
        },
        "description": {"type": "string", "description": "Purpose of the suite."},
    }
    return {
        "$schema": DIALECT,
        "title": "Trivium suite",
        "type": "object",
        "properties": {**heads, **origins, **settings["properties"], **old},
        "oneOf": [{"required": [name]} for name in origins],
        "additionalProperties": False,
        "$defs": defs,
    }


def _with_shorthands(node: Any) -> Any:
    """Extend a schema by the shorthands that ``trivium.records.validation`` accepts."""
    if isinstance(node, list):
        return [_with_shorthands(item) for item in node]
    if not isinstance(node, dict):
        return node
    made = {key: _with_shorthands(item) for key, item in node.items()}
    if not isinstance(also := made.pop("also", None), str):
        return made
    common = {key: made.pop(key) for key in ("default", "description") if key in made}
    return {"anyOf": [made, {"type": also}], **common}


def without_sources(text: str) -> str:
    """Remove citations of definitions from a description: its readers need not have the repository."""
    return re.sub(r" \(docs/[^)]*\)", "", text)


def _described(components: JsonObject) -> JsonObject:
    """Describe each attribute in the schemas of records by its docstring."""
    components = _with_shorthands(components)
    for schema in components.values():
        text = cleandoc(schema.get("description", ""))
        head, _, attributes = text.partition("\nAttributes:\n")
        schema["description"] = without_sources(" ".join(head.split()))
        for name, words in re.findall(r"^\s{4}(\w+): (.*(?:\n\s{8}.*)*)", attributes, re.MULTILINE):
            key = name if name in schema.get("properties", {}) else _KEYS.get(name, name)
            if key in schema.get("properties", {}):
                described = " ".join(words.replace("``", "`").split())
                schema["properties"][key]["description"] = without_sources(described)
    for name, others in Case.one_of.items() if "Case" in components else ():
        components["Case"]["anyOf"] = [{"required": [each]} for each in (name, *others)]
    if "Rubric" in components:
        _with_built_in(components)
    return components


def _with_built_in(components: JsonObject) -> None:
    """Allow names of built-in dimensions in a rubric, and dimensions that extend them."""
    rubrics = built_in_rubrics().values()
    names = [f"{rubric.name}.{each.name}" for rubric in rubrics for each in rubric.dimensions]
    dimensions = components["Rubric"]["properties"]["dimensions"]
    dimensions["items"] = {"anyOf": [{"enum": [*names, *NAMES]}, dimensions["items"]]}
    dimension = components["Dimension"]
    described = {"description": "A built-in dimension; the other keys here replace its own."}
    dimension["properties"] = {"extends": {"enum": names, **described}, **dimension["properties"]}
    dimension["anyOf"] = [{"required": ["extends"]}, {"required": dimension.pop("required")}]
