"""The loopback provider answers any schema with values that it allows."""

from datetime import date
from enum import Enum
from typing import Literal

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from tests.judge_server import fill


class Kind(Enum):
    GOOD = "good"
    POOR = "poor"


class Claim(BaseModel):
    text: str = Field(min_length=3, max_length=12)
    kind: Kind
    holds: Literal["yes", "no"] | None
    parts: list["Claim"] = Field(default_factory=list, max_length=2)


class Everything(BaseModel):
    claims: list[Claim] = Field(min_length=2, max_length=3)
    share: float = Field(gt=0, lt=1)
    even: int = Field(ge=10, le=20, multiple_of=2)
    below: int = Field(lt=-3)
    over: float = Field(gt=100)
    day: date
    pair: tuple[int, str]
    either: int | str
    anything_else: bool = False


@given(st.integers())
def test_a_filled_schema_is_valid(seed):
    schema = Everything.model_json_schema()
    value = fill(schema, seed=seed, text="shown to the model")
    jsonschema.validate(value, schema)
    Everything.model_validate(value)


@given(st.integers(-50, 50), st.integers(0, 50), st.booleans(), st.integers())
def test_bounds_stated_in_the_description_hold(low, wide, whole, seed):
    from anthropic import transform_schema

    schema = {"type": "integer", "minimum": low, "maximum": low + wide}
    if not whole:
        schema["type"] = "number"
    assert low <= fill(transform_schema(schema), seed=seed) <= low + wide


def test_a_pattern_is_more_than_it_can_fill():
    with pytest.raises(ValueError, match="pattern"):
        fill({"type": "string", "pattern": "a+"})
