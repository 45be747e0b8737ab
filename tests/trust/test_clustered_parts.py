"""Tests that the clustered mean of parts is that of the whole."""

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trivium.trust.clustered import ClusteredMean


def in_parts(values, codes, parts):
    """The clustered mean, with values and groups dealt out to so many parts."""
    values, codes = np.array(values, float), np.array(codes, int)

    def groups(center):
        distinct = np.unique(codes)
        for some in np.array_split(distinct, parts):
            chosen = [values[codes == code] - center for code in some]
            yield np.array([each.sum() for each in chosen]), np.array([each.size for each in chosen], float)

    rate = bool(np.isin(values, [0.0, 1.0]).all())
    return ClusteredMean.of_parts(
        lambda: iter(np.array_split(values, parts)), groups, kind="rate" if rate else "mean"
    )


clustered_values = st.lists(
    st.tuples(st.integers(0, 6), st.floats(0, 1) | st.sampled_from([0.0, 0.5, 1.0])), max_size=40
)
outcomes = st.lists(st.tuples(st.integers(0, 6), st.sampled_from([0.0, 1.0])), max_size=40)


@given(clustered_values | outcomes, st.integers(1, 5))
def test_every_sum_is_that_of_all_values_together(pairs, parts):
    codes, values = [code for code, _ in pairs], [value for _, value in pairs]
    rate = all(value in {0.0, 1.0} for value in values)
    whole = ClusteredMean.of(values, codes, kind="rate" if rate else "mean")
    found = in_parts(values, codes, parts)
    if whole is None:
        assert found is None
        return
    wanted, got = msgspec.structs.asdict(whole), msgspec.structs.asdict(found)
    # Rounded down, so that a rounding error of the sums may be one degree of freedom.
    freedoms = got.pop("freedom"), wanted.pop("freedom")
    assert whole.equal or abs(freedoms[0] - freedoms[1]) <= 1
    assert got.pop("kind") == wanted.pop("kind")
    assert got == pytest.approx(wanted, rel=1e-9, abs=1e-12)


@given(outcomes.filter(lambda pairs: len({code for code, _ in pairs}) > 1), st.integers(1, 5))
def test_intervals_of_rates_do_not_depend_on_the_parts(pairs, parts):
    codes, values = [code for code, _ in pairs], [value for _, value in pairs]
    whole = ClusteredMean.of(values, codes, kind="rate").interval(0.95)
    found = in_parts(values, codes, parts).interval(0.95)
    assert found.method == whole.method
    assert (found.low, found.high) == pytest.approx((whole.low, whole.high), abs=1e-9)


def test_groups_of_a_million_values_are_summed_without_an_overflow():
    sizes = np.array([1e6, 2e6])
    values = [np.zeros(1_500_000), np.ones(1_500_000)]
    found = ClusteredMean.of_parts(
        lambda: iter(values), lambda _: iter([(np.array([-5e5, 5e5]), sizes)]), kind="rate"
    )
    assert (found.n, found.groups, found.sizes) == (3_000_000, 2, 5e12)
    assert found.freedom == 1


def test_a_value_outside_of_the_range_is_refused():
    with pytest.raises(ValueError, match=r"values must lie in \[0, 1\]; found 0 to 1.5"):
        in_parts([0.0, 1.5], [0, 1], 1)


def test_no_value_has_no_mean():
    assert in_parts([], [], 2) is None
