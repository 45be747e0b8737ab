"""Statistics refuse wrong arrays with one wording, which names the argument and the place."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from trivium.errors import TrustError
from trivium.trust.arrays import (
    check_between,
    check_binary,
    check_finite,
    check_inside_unit,
    check_lengths,
    check_positive,
    floats,
    weights_of,
    without_noise,
)
from trivium.trust.bias_correction import corrected_mean
from trivium.trust.calibration.quality import auroc
from trivium.trust.clustered import ClusteredMean
from trivium.trust.paired import holm
from trivium.trust.rater_agreement import agreement
from trivium.trust.selective.curve import risk_coverage
from trivium.trust.weighted_means import weighted_mean

NAN, INF = np.nan, np.inf
VALUES, ZEROS = np.array([0.0, 0.5, 1.0]), np.zeros(3)


@pytest.mark.parametrize(
    ("check", "message"),
    [
        (lambda: check_finite(a=VALUES, b=np.array([0.0, INF])), "b[1]: must be a finite number; found inf"),
        (lambda: check_binary(a=VALUES), "a[1]: must be 0 or 1; found 0.5"),
        (lambda: check_between(0, 0.5, a=VALUES), "a[2]: must be between 0 and 0.5; found 1.0"),
        (lambda: check_between(0, 1, a=np.array([NAN])), "a[0]: must be between 0 and 1; found nan"),
        (lambda: check_positive(a=ZEROS), "a[0]: must be above 0 and finite; found 0.0"),
        (lambda: check_positive(a=np.array([1, INF])), "a[1]: must be above 0 and finite; found inf"),
        (lambda: check_positive(1, a=np.array([2.0])), "a[0]: must be above 0 and at most 1; found 2.0"),
        (lambda: check_inside_unit(level=1.0), "level must lie between 0 and 1; found 1.0"),
        (lambda: check_inside_unit(level=NAN), "level must lie between 0 and 1; found nan"),
        (
            lambda: check_lengths(a=VALUES, b=VALUES[1:]),
            "a, b must be one-dimensional and of equal length; found (3,), (2,)",
        ),
        (lambda: check_lengths(a=VALUES[:, None]), "a must be one-dimensional; found (3, 1)"),
        (lambda: weights_of([1.0], 2), "weights must have shape (2,); found (1,)"),
        (lambda: weights_of([1.0, 0.0], 2), "weights[1]: must be above 0 and finite; found 0.0"),
    ],
)
def test_a_wrong_value_is_named_with_its_place(check, message):
    with pytest.raises(TrustError) as caught:
        check()
    assert str(caught.value) == message


def test_valid_values_pass():
    check_lengths(a=VALUES, b=ZEROS)
    check_finite(a=VALUES)
    check_between(0, 1, a=VALUES)
    check_binary(a=ZEROS)
    check_positive(1, a=VALUES[1:])
    check_inside_unit(level=0.95)
    assert floats([1, 2])[0].dtype == np.float64
    assert weights_of(None, 2).tolist() == [1.0, 1.0]
    assert weights_of([2, 0.5], 2).tolist() == [2.0, 0.5]


@pytest.mark.parametrize(
    "call",
    [
        lambda x: agreement(x, ZEROS, "abc", step=1.0),
        lambda x: corrected_mean(x, ZEROS, ZEROS, groups="abc", groups_only="abc"),
        lambda x: weighted_mean(x, np.ones(3)),
        lambda x: risk_coverage(x, ZEROS, n_items=3),
        lambda x: ClusteredMean.of(x, np.arange(3)),
        lambda x: auroc(x, ZEROS),
        holm,
    ],
)
def test_every_statistic_names_the_place_of_a_value_that_is_no_number(call):
    with pytest.raises(TrustError, match=r"\[1\]: must be .*; found nan"):
        call(np.array([0.0, NAN, 1.0]))


@example(10**11, -22, 1, -13)  # rounded up to a power of ten
@given(st.integers(10**11, 10**12 - 1), st.integers(-22, 0), st.sampled_from([-1, 1]), st.integers(-200, 200))
def test_confidences_of_12_equal_digits_are_the_same(digits, exponent, sign, ulps):
    exact = sign * float(f"{digits}e{exponent}")
    assert without_noise([exact + ulps * np.spacing(exact)]).tolist() == [exact]
    assert without_noise([sign * float(f"{digits + 1}e{exponent}")]) != [exact]


def test_rounding_leaves_what_has_no_digits():
    values = [0.0, 5e-324, 1e308, INF, -INF, NAN]
    assert np.array_equal(without_noise(values), values, equal_nan=True)
