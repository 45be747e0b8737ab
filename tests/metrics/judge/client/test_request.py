"""Calls are told apart by everything that could change their answer."""

import msgspec
import pytest

from trivium.metrics.judge.client.request import ModelRequest

CALL = ModelRequest(
    provider="openai-chat",
    address="http://127.0.0.1/v1",
    model="m",
    instructions="Judge.",
    turns=("text",),
    schema={"type": "object", "properties": {"a": {}, "b": {}}},
    output="native",
    temperature=0.0,
    seed=1,
    max_tokens=100,
    top_logprobs=5,
    sample=0,
)
OTHERS = {
    "provider": "anthropic",
    "address": "http://127.0.0.1/v2",
    "model": "n",
    "instructions": "Judge!",
    "case": "Material.",
    "turns": ("text", "answer", "again"),
    "schema": {"type": "object", "properties": {"a": {}, "b": {"type": "null"}}},
    "output": "tool",
    "temperature": 0.7,
    "seed": None,
    "max_tokens": 101,
    "top_logprobs": 0,
    "sample": 1,
    "limit": "max_tokens",
    "reasoning_effort": "low",
    "body": {"top_p": 0.5},
    "headers": {"x-team": "nlp"},
}


@pytest.mark.parametrize("field", [name for name in ModelRequest.__struct_fields__ if name != "marks"])
def test_every_field_is_in_the_key(field):
    assert msgspec.structs.replace(CALL, **{field: OTHERS[field]}).key != CALL.key


def test_what_is_cached_at_the_provider_is_not_in_the_key():
    assert msgspec.structs.replace(CALL, marks="case").key == CALL.key


def test_the_order_of_a_schemas_properties_is_in_the_key_for_models_answer_in_it():
    other = {"type": "object", "properties": {"b": {}, "a": {}}}
    assert msgspec.structs.replace(CALL, schema=other).key != CALL.key


def test_equal_calls_have_the_same_key():
    same = msgspec.json.decode(msgspec.json.encode(CALL), type=ModelRequest)
    assert same.key == CALL.key
    assert len(CALL.key) == 64
