import pytest
from hypothesis import given

from tests.strategies import json_values
from trivium.suites.sanitize import sanitise


@given(json_values)
def test_a_clean_value_passes_as_it_is(value):
    cleaned, flags = sanitise(value)
    assert cleaned is value
    assert flags == ()


@pytest.mark.parametrize(
    ("value", "cleaned", "flags"),
    [
        ("a\0b", "a␀b", ("nul",)),
        ("a\ud800b", "a�b", ("lone_surrogates",)),
        ("\udfff\0", "�␀", ("lone_surrogates", "nul")),
        (["ok", {"k\0": ("x\ud83d", 1, None)}], ["ok", {"k␀": ["x�", 1, None]}], ("lone_surrogates", "nul")),
        ({"a": 1, "b": "\0", "c": [True]}, {"a": 1, "b": "␀", "c": [True]}, ("nul",)),
    ],
)
def test_what_cannot_be_stored_is_replaced_and_flagged(value, cleaned, flags):
    assert sanitise(value) == (cleaned, flags)


def test_keys_keep_their_order():
    assert list(sanitise({"b": "\0", "a": 1, "c": {}})[0]) == ["b", "a", "c"]


def test_an_emoji_is_no_lone_surrogate():
    assert sanitise("😀") == ("😀", ())


def test_a_value_of_any_depth_is_cleaned():
    value = "\0"
    for _ in range(20_000):
        value = [value]
    cleaned, flags = sanitise(value)
    assert flags == ("nul",)
    while isinstance(cleaned, list):
        (cleaned,) = cleaned
    assert cleaned == "␀"


def test_a_value_that_holds_itself_is_walked_once():
    value = ["\0", {1: 2}]
    value.append(value)
    cleaned, flags = sanitise(value)
    assert flags == ("nul",)
    assert cleaned[:2] == ["␀", {1: 2}]
    assert cleaned[2] is cleaned
