"""Encoding values of any type."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.odd_values import AS_TEXT, ODD, PLAIN, NoText
from trivium.store import records as bodies
from trivium.values import encode, plain_text


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
