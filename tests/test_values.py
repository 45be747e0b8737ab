"""Reading values of which nothing is known, and encoding values of any type."""

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.odd_values import AS_TEXT, ODD, PLAIN, NoText
from tests.strategies import json_values
from trivium.any_object import encode, plain_text
from trivium.store import records as bodies
from trivium.suites.chat import dialogue_text
from trivium.values import (
    amount,
    batched,
    count,
    dict_,
    dicts,
    is_number,
    json_or_text,
    json_text,
    list_,
    nonempty_text,
    number,
    sum_known,
    text_or_json,
)

NAN, INF = math.nan, math.inf
READERS = (is_number, number, amount, count, nonempty_text, dict_, list_, dicts)


@pytest.mark.parametrize(
    ("value", "as_number", "as_amount", "as_count"),
    [
        (3, 3.0, 3.0, 3),
        (0, 0.0, 0.0, 0),
        (3.0, 3.0, 3.0, 3),
        (3.7, 3.7, 3.7, None),
        (-1, -1.0, None, None),
        (2**53, 2.0**53, None, 2**53),
        (2**53 + 1, 2.0**53, None, None),
        (10**400, None, None, None),
        (1e300, None, None, None),
        (NAN, None, None, None),
        (INF, None, None, None),
        (True, None, None, None),
        (None, None, None, None),
        ("3", None, None, 3),
        ("3.0", None, None, None),
        ("-3", None, None, None),
        ("9" * 17, None, None, None),
        ("", None, None, None),
        ([3], None, None, None),
        (np.float64(3), 3.0, 3.0, 3),
        (np.int64(3), None, None, None),
        (np.bool_(True), None, None, None),
    ],
)
def test_a_number_is_read_for_what_it_counts(value, as_number, as_amount, as_count):
    found = [number(value), amount(value), count(value)]
    assert found == [as_number, as_amount, as_count]
    assert [type(each) for each in found if each is not None] == [
        kind
        for kind, each in zip((float, float, int), (as_number, as_amount, as_count), strict=True)
        if each is not None
    ]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        *((one, True) for one in (3, 0.5, NAN, INF, 10**400, np.float64(1))),
        *((one, False) for one in (True, "3", None, np.int64(3))),
    ],
)
def test_true_is_no_number(value, expected):
    assert is_number(value) is expected


@given(json_values | st.floats() | st.integers())
def test_no_json_value_makes_a_reader_raise(value):
    for read in READERS:
        read(value)


def test_what_is_not_asked_for_is_left_out():
    assert [nonempty_text(value) for value in ("a", "", 3, None)] == ["a", None, None, None]
    assert [dict_(value) for value in ({"a": 1}, [1], None)] == [{"a": 1}, {}, {}]
    assert [list_(value) for value in ([1], (1,), {"a": 1}, "text", None)] == [[1], [1], [], [], []]
    assert dicts([{"a": 1}, 2, {}]) == [{"a": 1}, {}]
    assert [sum_known(numbers) for numbers in ([1, None, 2], [None], [])] == [3, None, None]


@given(st.recursive(st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.text(), st.lists))
def test_json_is_written_and_read_back(value):
    text = json_text(value)
    assert json.loads(text) == value
    assert json_or_text(text) == value


def test_equal_values_have_equal_canonical_texts():
    one, other = {"a": 1, "b": [{"d": 1, "c": 2}]}, {"b": [{"c": 2, "d": 1}], "a": 1}
    assert (
        json_text(one, canonical=True)
        == json_text(other, canonical=True)
        == json.dumps(one, sort_keys=True, separators=(",", ":"))
    )
    assert json_text(one) != json_text(other)


@pytest.mark.parametrize("text", ["plain", "[1", "", "[" * 100_000, '"\\ud800"', "NaN"])
def test_a_text_that_is_no_json_stays_as_it_is(text):
    assert json_or_text(text) == text


def test_a_text_stays_a_text_and_other_values_become_json():
    assert [text_or_json(value) for value in ("[1]", "", None, 0, False, {"b": 1, "a": 2})] == [
        "[1]",
        "",
        "",
        "0",
        "false",
        '{"b":1,"a":2}',
    ]
    assert text_or_json({"b": 1, "a": 2}, canonical=True) == '{"a":2,"b":1}'


@given(st.lists(st.integers()), st.integers(1, 5))
def test_batches_hold_every_item_once_and_only_the_last_is_smaller(items, size):
    found = list(batched(iter(items), size))
    assert [item for batch in found for item in batch] == items
    assert all(len(batch) == size for batch in found[:-1])
    assert all(0 < len(batch) <= size for batch in found)


@pytest.mark.parametrize("name", PLAIN)
def test_a_value_that_has_a_plain_form_becomes_it(name):
    value, expected = PLAIN[name]
    as_text = []
    made = json.loads(encode(value, as_text))
    assert (made, type(made)) == (expected, type(expected))
    assert as_text == []


@pytest.mark.parametrize("name", AS_TEXT)
def test_other_values_become_texts_and_are_counted(name):
    as_text = []
    json.loads(encode(AS_TEXT[name], as_text))
    assert len(as_text) == 1


@given(
    st.recursive(
        st.sampled_from(sorted(ODD)),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
        max_leaves=5,
    )
)
def test_no_value_raises_however_it_is_nested(names):
    json.loads(encode(_values(names)))


def _values(names):
    """The values in place of their names."""
    if isinstance(names, list):
        return [_values(each) for each in names]
    return {key: _values(each) for key, each in names.items()} if isinstance(names, dict) else ODD[names]


@pytest.mark.parametrize("name", ODD)
def test_any_name_is_a_plain_text_that_a_file_can_hold(name):
    text = plain_text(ODD[name])
    assert type(text) is str
    text.encode()


def test_ctrl_c_is_not_swallowed():
    class Interrupted:
        def __repr__(self):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        encode([Interrupted()])


@pytest.mark.parametrize("name", PLAIN)
def test_a_record_that_holds_such_a_value_is_stored(name):
    value, expected = PLAIN[name]
    assert json.loads(bodies.encode({"output": value})) == {"output": expected}


def test_a_record_that_holds_an_object_is_stored():
    assert json.loads(bodies.encode([NoText()])) == ["[NoText is not recorded: RuntimeError]"]


def test_messages_are_a_dialogue_and_other_values_are_none():
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "Look:"}, {"type": "image_url"}, "here"]},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}],
        },
        {"role": "tool", "content": {"found": 1}},
    ]
    assert dialogue_text(messages) == (
        'system: Be brief.\n\nuser: Look:\n[image_url]\nhere\n\nassistant: calls f({})\n\ntool: {"found":1}'
    )
    for other in ([], ["a"], [{"content": "no role"}], [{"role": 1}], "text", None, {"role": "user"}):
        assert dialogue_text(other) is None


def test_broken_messages_of_a_dialogue_are_shown_as_far_as_they_go():
    messages = [{"role": "user"}, {"role": "x", "content": 3, "tool_calls": ["no call", {"name": "g"}]}]
    assert dialogue_text(messages) == "user: \n\nx: 3\ncalls None()\ncalls g()"
