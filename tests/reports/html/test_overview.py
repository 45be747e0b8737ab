import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from trivium.metrics.metric import Score
from trivium.reports.html.overview import BINS, Distributions


@given(st.lists(st.integers(0, 1000).map(lambda part: part / 1000)))
def test_counts_equal_numpy(values):
    found = Distributions()
    for value in values:
        found.add({}, value)
    # The edges are placed a hair lower, so that a value on an edge belongs to the bin above it in both.
    edges = np.linspace(0, 1, BINS + 1) - 1e-9
    edges[-1] = 1
    assert found.by_name["composite"] == list(np.histogram(values, bins=edges)[0])
    assert sum(found.by_name["composite"]) == len(values)


def test_scores_without_value_are_not_counted():
    found = Distributions()
    found.add({"a": Score(name="a", tier="text", status="skipped")}, None)
    found.add({"a": Score(name="a", tier="text", value=1.0)}, 0.5)
    assert found.by_name["a"][-1] == 1
    assert sum(found.by_name["a"]) == sum(found.by_name["composite"]) == 1
