"""Confidence sequences; oracles: the reference implementation, closed forms, simulated lives."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.goldens import golden
from tests.trust.whole_sequences import whole_sequence
from trivium.trust.level_sequence import LevelSequence
from trivium.trust.weighted_means import weighted_mean

LINES = golden("confidence_sequences.jsonl")
DATA = {line["data"]: line["x"] for line in LINES if "x" in line}
VALUES = st.lists(st.floats(0, 1, allow_subnormal=False), max_size=30)
WEIGHTS = st.lists(st.floats(0.001, 1) | st.floats(0.001, 30), min_size=30, max_size=30)


@pytest.mark.parametrize(
    "line", [line for line in LINES if line["method"] == "hedged_cs"], ids=lambda each: each["data"]
)
def test_the_ends_are_those_of_the_reference_implementation(line):
    sequence, values = LevelSequence(), DATA[line["data"]]
    whole = whole_sequence(values)
    for value in values[: max(map(int, line["at"]))]:
        sequence.update(value)
        if ends := line["at"].get(str(sequence.n)):
            assert (sequence.lower, sequence.upper) == pytest.approx(ends, abs=1e-6)
            assert (whole.lower[sequence.n - 1], whole.upper[sequence.n - 1]) == pytest.approx(ends, abs=1e-6)


@pytest.mark.parametrize(
    "line", [line for line in LINES if line["method"] == "betting_cs"], ids=lambda each: each["data"]
)
def test_the_ends_without_those_before_are_those_of_the_reference_implementation(line):
    found = whole_sequence(DATA[line["data"]], running=False)
    for n, ends in line["at"].items():
        assert (found.lower[int(n) - 1], found.upper[int(n) - 1]) == pytest.approx(ends, abs=1e-6)


def lives(rate, lives=1000, looks=400, seed=7):
    return (np.random.default_rng(seed).random((lives, looks)) < rate).astype(float)


def missed(found, mean):
    """Whether any interval misses the mean, which is a grid point: excluded points are ends."""
    return bool((found.lower >= mean).any() or (found.upper <= mean).any())


@pytest.mark.parametrize("rate", [0.5, 0.95])
def test_at_most_one_life_in_twenty_has_an_interval_that_misses(rate):
    found = [missed(whole_sequence(life, grid=20), rate) for life in lives(rate)]
    assert np.mean(found) <= 0.05


def test_a_sequence_with_a_plug_in_variance_misses_in_most_lives_of_rare_failures():
    """The same lives show what betting is for: mean ± 1.96 errors at every look."""
    wrong = 0
    for life in lives(0.95):
        n = np.arange(1, life.size + 1)
        mean = np.cumsum(life) / n
        wrong += (np.abs(mean - 0.95) > 1.96 * np.sqrt(mean * (1 - mean) / n))[10:].any()
    assert wrong / 1000 > 0.5


ERRORS, ALWAYS, SELDOM = 0.04, 1.0, 0.01


def sampled_traffic(rng, taken):
    """Outcomes and weights: all of the errors (which fail) are taken, and 1 % of the rest (1 % fail)."""
    share = ERRORS * ALWAYS / (ERRORS * ALWAYS + (1 - ERRORS) * SELDOM)
    error = rng.random(taken) < share
    outcomes = np.where(error, 0.0, rng.random(taken) >= 0.0104166667)
    return outcomes, np.where(error, SELDOM / ALWAYS, 1.0)


def test_errors_that_are_always_sampled_do_not_pull_the_level_down():
    rng, misses, widths = np.random.default_rng(11), 0, []
    for _ in range(200):
        outcomes, weights = sampled_traffic(rng, 1500)
        found = whole_sequence(outcomes, weights=weights, grid=20)
        misses += missed(found, 0.95)
        widths.append(found.upper[-1] - found.lower[-1])
    assert misses / 200 <= 0.05
    assert np.mean(widths) <= 0.2
    unweighted = whole_sequence(outcomes, grid=20)
    assert unweighted.upper[-1] < 0.95


def test_a_planned_stake_is_the_one_of_the_formula():
    """One value 0: the capital against m is 1 + m √(2 ln(2 / alpha) / (planned / 4)), against 2 / alpha."""
    alpha, planned = 0.9, 3
    stake = np.sqrt(2 * np.log(2 / alpha) / (planned * 0.25))
    found = whole_sequence([0.0], alpha=alpha, planned=planned)
    assert found.upper[0] == pytest.approx((2 / alpha - 1) / stake, abs=1e-3)


def test_planning_the_number_of_values_gives_a_narrower_interval_there():
    values = lives(0.9, lives=1, looks=300)[0]
    ends = [whole_sequence(values, planned=n) for n in (None, 300)]
    widths = [found.upper[-1] - found.lower[-1] for found in ends]
    assert widths[1] < 0.9 * widths[0]


@given(VALUES.filter(bool), WEIGHTS)
def test_the_interval_of_a_weighted_mean_is_the_last_of_the_sequence_planned_for_it(values, weights):
    """The clusters bet in an order of their own, and with their share of the largest weight."""
    weights = np.minimum(1, weights[: len(values)])
    found = weighted_mean([*values, 0.5], [*(0.001 / weights), 1.0], smallest=0.001, confidence=0.9)
    order = np.random.default_rng(0).permutation(len(values) + 1)
    means, shares = np.append(values, 0.5)[order], np.append(weights, 0.001)[order]
    whole = whole_sequence(means, weights=shares / shares.max(), alpha=0.1, planned=means.size, running=False)
    ends = sorted((whole.lower[-1], whole.upper[-1]))
    assert (found.low, found.high) == pytest.approx((min(ends[0], found.mean), max(ends[1], found.mean)))


@pytest.mark.parametrize("rate", [0.02, 0.5, 0.97])
def test_the_interval_for_one_look_is_found_wherever_it_lies(rate):
    values = np.append(lives(rate, lives=1, looks=299)[0], 0.5)
    whole = whole_sequence(values[np.random.default_rng(0).permutation(300)], planned=300, running=False)
    found = weighted_mean(values, np.ones(300))
    assert (found.low, found.high) == (whole.lower[-1], whole.upper[-1])
    assert found.high - found.low < 0.2


def sampled_sessions(rng, sessions, sampled=0.1):
    """Mean and weight of sessions of up to 4; errors come together, fail and are always sampled.

    4 % of the interactions are errors; of the rest, 1 % fail and a tenth is sampled: the mean is 0.95.
    """
    error = rng.random((sessions, 4)) < rng.beta(0.04, 0.96, (sessions, 1))
    passed = ~error & (rng.random((sessions, 4)) >= 0.0104166667)
    there = np.arange(4) < rng.integers(1, 5, (sessions, 1))
    taken = there & (rng.random((sessions, 4)) < np.where(error, 1.0, sampled))
    weights = taken * np.where(error, sampled, 1.0)
    some = taken.any(axis=1)
    total = weights.sum(axis=1)[some]
    return (weights * passed).sum(axis=1)[some] / total, total, taken.sum(axis=1)[some]


def test_sessions_bet_with_the_sum_of_their_weights():
    rng, misses, misses_by_mean = np.random.default_rng(12), 0, 0
    for _ in range(100):
        means, weights, counts = sampled_sessions(rng, 8000)
        misses += missed(whole_sequence(means, weights=weights, grid=20), 0.95)
        misses_by_mean += missed(whole_sequence(means, weights=weights / counts, grid=20), 0.95)
    assert misses / 100 <= 0.05
    assert misses_by_mean / 100 > 0.5
