import json

import jsonschema
import msgspec
import pytest
from hypothesis import given

from tests.strategies import cases, suites
from trivium.agents.recorded.outputs import output_schema
from trivium.runs.items.records import Item, Judgement, Label
from trivium.suites.case import Case
from trivium.suites.json_schema import record_schema, suite_schema
from trivium.suites.rubrics.rubric import Rubric

SUITE = jsonschema.Draft202012Validator(suite_schema())
CASE = jsonschema.Draft202012Validator(record_schema(Case))


def test_they_are_json_schemas():
    jsonschema.Draft202012Validator.check_schema(suite_schema())
    jsonschema.Draft202012Validator.check_schema(record_schema(Case))


@given(cases())
def test_every_case_fits(case):
    CASE.validate(msgspec.json.decode(msgspec.json.encode(case)))


@given(suites())
def test_every_suite_fits(suite):
    raw = msgspec.json.decode(msgspec.json.encode(suite.settings))
    SUITE.validate({"name": suite.name, "cases": "cases.jsonl", **raw})


@pytest.mark.parametrize(
    "raw",
    [
        {"cases": [{"id": 1, "input": {"any": "thing"}, "references": "one", "tags": "one", "group": 7}]},
        {"peerread": "folder", "judge": {"models": "openai:one"}},
        {"cases": "c.jsonl", "metrics_and_weights": {"time_taken": 1}},
    ],
)
def test_the_liberties_of_a_file_fit(raw):
    SUITE.validate(raw)


@pytest.mark.parametrize(
    "raw",
    [
        {},
        {"cases": []},
        {"cases": "c.jsonl", "peerread": "folder"},
        {"cases": "c.jsonl", "repets": 2},
        {"cases": "c.jsonl", "repeats": 0},
        {"cases": [{"id": "1"}]},
    ],
)
def test_what_is_wrong_does_not_fit(raw):
    assert not SUITE.is_valid(raw)


def test_keys_are_described():
    schema = suite_schema()
    undescribed = [key for key, value in schema["properties"].items() if not value.get("description")]
    assert not undescribed
    case = record_schema(Case)["$defs"]["Case"]
    assert not [key for key, value in case["properties"].items() if not value.get("description")]
    assert "Attributes" not in case["description"]


def test_no_schema_cites_a_page_of_the_repository():
    schemas = [suite_schema(), output_schema(), *map(record_schema, (Case, Item, Judgement, Label, Rubric))]
    described = json.dumps(schemas)
    assert "docs/" not in described
    assert "When an attempt counts as a success. Exactly one criterion is given." in described
