"""On which side of a limit a mean lies, value by value."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.trust.whole_sequences import whole_sequence
from trivium.errors import TrustError
from trivium.trust.sequential_mean import STAKES, SequentialMean, sequential_interval


def test_the_capital_is_that_of_the_definition():
    """By hand: after two values the mean over the stakes of the products of 1 + f (x - m) / m."""
    x, m = (1.0, 0.9), 0.6
    capital = np.mean([np.prod([1 + f * (value - m) / m for value in x]) for f in STAKES])
    for alpha, sure in ((2.0001 / capital, True), (1.9999 / capital, False)):
        if alpha < 1:
            test = SequentialMean(m, alpha=alpha)
            for value in x:
                test.bet(value)
            assert test.at_least is sure
    barely = SequentialMean(0.1, alpha=0.5)
    for value in x:
        barely.bet(value)
    capital = np.mean([np.prod([1 + f * (value - 0.1) / 0.1 for value in x]) for f in STAKES])
    assert barely.at_least is bool(capital >= 4)


@pytest.mark.parametrize("mean", [0.3, 0.97])
def test_a_wrong_answer_is_rare_however_long_one_looks(mean):
    """The limit is the true mean, where either answer is wrong: at most 5 % of worlds ever have one.

    0.16 are found by 94 draws of 100 worlds in 100.
    """
    rng = np.random.default_rng(5)
    worlds, wrong = 100, 0
    for _ in range(worlds):
        values = (rng.random(300) < mean).astype(float)
        low, high = sequential_interval(values)
        wrong += not low <= mean <= high
    assert wrong <= 0.05 * worlds + 2.6 * np.sqrt(worlds * 0.05 * 0.95)


@given(
    st.lists(st.tuples(st.floats(0, 1), st.floats(0.05, 1)), min_size=1, max_size=40),
    st.floats(0, 1),
    st.sampled_from([0.05, 0.4]),
)
def test_the_interval_agrees_with_the_test(data, limit, alpha):
    test = SequentialMean(limit, alpha=alpha)
    for value, weight in data:
        test.bet(value, weight)
    low, high = sequential_interval(*zip(*data, strict=True), alpha=alpha)
    if low < limit - 1e-9:
        assert not test.at_least or test.at_most or limit == 0
    if low > limit + 1e-9 and high > limit:
        assert test.at_least
    if high < limit - 1e-9 and low < limit:
        assert test.at_most
    assert 0 <= low <= high <= 1


def test_it_is_about_as_narrow_as_the_sequence_of_the_paper():
    rng = np.random.default_rng(2)
    widths = []
    for mean in (0.5, 0.8):
        values = (rng.random(500) < mean).astype(float)
        low, high = sequential_interval(values)
        peer = whole_sequence(values)
        widths.append((high - low) / (peer.upper[-1] - peer.lower[-1]))
    assert max(widths) < 1.15


def test_answers_stay_and_the_ends_of_the_range_are_limits_too():
    test = SequentialMean(0.5)
    for _ in range(40):
        test.bet(1.0)
    assert test.at_least
    for _ in range(100):
        test.bet(0.0)
    assert test.at_least
    never, at_once = SequentialMean(1.0), SequentialMean(0.0)
    for _ in range(1000):
        never.bet(1.0)
    assert (never.at_least, never.at_most) == (False, True)
    assert (at_once.at_least, at_once.at_most) == (True, False)
    refuted = SequentialMean(0.0)
    refuted.bet(0.1)
    assert not refuted.at_most


def test_a_small_group_says_less_than_a_large_one():
    small, large = SequentialMean(0.5), SequentialMean(0.5)
    for _ in range(12):
        small.bet(1.0, 0.2)
        large.bet(1.0)
    assert (small.at_least, large.at_least) == (False, True)


def test_the_weighted_mean_over_values_is_what_is_tested():
    """Large groups fail, small ones pass: the mean over cases is 0.2, that over groups 0.5."""
    rng = np.random.default_rng(0)
    sizes = rng.choice([1.0, 4.0], 600)
    values = (sizes == 1).astype(float)
    low, high = sequential_interval(values, sizes / 4)
    assert low < 0.2 < high < 0.4


def test_whoever_goes_over_the_oracle_finds_its_mean():
    path = Path(__file__).parents[3] / "shared" / "golden" / "confidence_sequences.jsonl"
    if not path.is_file():
        pytest.skip("no oracle here: ../shared/golden/confidence_sequences.jsonl")
    compared = 0
    for line in path.read_text().splitlines():
        values = json.loads(line).get("values") or json.loads(line).get("x")
        if values and 50 <= len(values) <= 5000:
            low, high = sequential_interval(values)
            assert low <= np.mean(values) <= high
            compared += 1
    assert compared


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: SequentialMean(1.5), "a limit must lie in"),
        (lambda: SequentialMean(0.5, alpha=0), "alpha must lie"),
        (lambda: SequentialMean(0.5).bet(2.0), r"values\[0\]: must be between 0 and 1"),
        (lambda: SequentialMean(0.5).bet(1.0, 2.0), r"weights\[0\]: must be above 0 and at most 1"),
        (lambda: sequential_interval([0.5], [0.5, 1.0]), "weights must have shape"),
    ],
)
def test_bad_input_is_named(make, said):
    with pytest.raises(TrustError, match=said):
        make()


def test_without_values_nothing_is_known():
    assert sequential_interval([]) == (0.0, 1.0)
