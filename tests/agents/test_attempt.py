import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trivium.agents.attempt import Attempt

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@pytest.mark.parametrize(("output", "text"), [("as it is", "as it is"), (None, ""), ([1, "é"], '[1,"é"]')])
def test_text_metrics_see_the_text_or_the_json(output, text):
    assert Attempt(case="1", output=output).text == text


@given(st.dictionaries(st.text(), JSON, min_size=1))
def test_the_json_of_an_output_is_canonical(output):
    turned_round = dict(reversed(output.items()))
    text = Attempt(case="1", output=output).text
    assert text == Attempt(case="1", output=turned_round).text
    assert json.loads(text) == output


def test_an_attempt_with_an_error_has_failed():
    assert Attempt(case="1", error="why").failed
    assert not Attempt(case="1", output="").failed
