"""Means of values sampled with known probabilities; oracles: SciPy, hand computation, simulation."""

import numpy as np
import pytest
from scipy import stats

from trivium.trust.weighted_means import reference_level, weighted_mean


@pytest.mark.parametrize(("passed", "n"), [(0, 7), (5, 9), (29, 30), (30, 30), (950, 1000)])
def test_equal_probabilities_give_clopper_and_pearsons_interval(passed, n):
    expected = stats.binomtest(passed, n).proportion_ci(0.9, method="exact")
    found = weighted_mean([1] * passed + [0] * (n - passed), [0.01] * n, confidence=0.9)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=1e-9)
    assert (found.mean, found.effective_n, found.n, found.level) == pytest.approx((passed / n, n, n, 0.9))
    assert found.std_error == pytest.approx(stats.sem([1] * passed + [0] * (n - passed)))


def test_a_value_counts_as_often_as_its_probability_says():
    """Three errors that were all taken and two of the rest, taken with 0.1: 10 passes and 10 failures."""
    found = weighted_mean([0, 0, 0, 1, 0], [1, 1, 1, 0.1, 0.1])
    assert found.mean == pytest.approx(10 / 23)
    assert found.effective_n == pytest.approx(23**2 / (3 + 200))
    size = 23 * 0.1
    expected = (
        stats.beta.ppf(0.025, 10 / 23 * size, 13 / 23 * size + 1),
        stats.beta.ppf(0.975, 10 / 23 * size + 1, 13 / 23 * size),
    )
    assert (found.low, found.high) == pytest.approx(expected, abs=1e-9)


def test_rarer_values_that_are_missing_widen_the_interval():
    found = weighted_mean([1] * 30, [1.0] * 30)
    told = weighted_mean([1] * 30, [1.0] * 30, smallest=0.01)
    assert found.low > 0.85
    assert told.low < 0.05


STRATA = {
    "one rate": [(1.0, 0.01, None)],
    "errors always": [(0.02, 1.0, 0.0), (0.98, 0.01, None)],
    "many errors always": [(0.1, 1.0, 0.0), (0.9, 0.01, None)],
    "a tag always": [(0.1, 1.0, None), (0.9, 0.01, None)],
    "a tag that passes always": [(0.1, 1.0, 1.0), (0.9, 0.01, None)],
}


def sample(rng, strata, rate, n):
    """Outcomes and probabilities of a sample from traffic whose strata have (share, probability, rate)."""
    share, probability, own = (
        np.array(part) for part in zip(*[(s, p, rate if r is None else r) for s, p, r in strata], strict=True)
    )
    at = rng.choice(len(strata), p=share * probability / (share @ probability), size=n)
    return (rng.random(n) < own[at]).astype(float), probability[at], share @ own


@pytest.mark.parametrize("rate", [0.99, 0.95, 0.05, 0.01])
@pytest.mark.parametrize("kind", STRATA)
def test_the_interval_covers_small_samples_of_rare_outcomes(kind, rate):
    rng, inside = np.random.default_rng(4), 0
    for _ in range(300):
        outcomes, probabilities, truth = sample(rng, STRATA[kind], rate, 30)
        found = weighted_mean(outcomes, probabilities, smallest=0.01)
        inside += found.low <= truth <= found.high
    assert inside / 300 >= 0.95


def test_the_estimate_has_no_bias_whatever_the_rules():
    rng, found, plain = np.random.default_rng(5), [], []
    for _ in range(400):
        outcomes, probabilities, truth = sample(rng, STRATA["errors always"], 0.9, 500)
        found.append(weighted_mean(outcomes, probabilities).mean)
        plain.append(outcomes.mean())
    assert abs(np.mean(found) - truth) < 3 * np.std(found) / 20
    assert np.mean(plain) < truth - 0.3


def sessions(rng, count, size, rate, correlation):
    rates = rng.beta(rate * (1 / correlation - 1), (1 - rate) * (1 / correlation - 1), count)
    groups = np.repeat(np.arange(count), rng.integers(1, size + 1, count))
    return (rng.random(groups.size) < rates[groups]).astype(float), groups


@pytest.mark.parametrize(("count", "rate"), [(8, 0.9), (30, 0.7), (60, 0.95)])
def test_the_interval_covers_correlated_sessions(count, rate):
    rng, inside, ignored = np.random.default_rng(6), 0, 0
    for _ in range(300):
        outcomes, groups = sessions(rng, count, 8, rate, 0.5)
        equal = np.full(outcomes.size, 0.01)
        found, alone = weighted_mean(outcomes, equal, groups=groups), weighted_mean(outcomes, equal)
        inside += found.low <= rate <= found.high
        ignored += alone.low <= rate <= alone.high
        assert found.groups == count
    assert inside / 300 >= 0.95 > ignored / 300


def test_the_interval_of_sessions_is_exact_on_the_effective_number_of_values():
    outcomes, groups = sessions(np.random.default_rng(3), 60, 8, 0.7, 0.5)
    found = weighted_mean(outcomes, np.full(outcomes.size, 0.2), groups=groups)
    rate, n = outcomes.mean(), outcomes.size
    variance = sum((outcomes[groups == group] - rate).sum() ** 2 for group in range(60)) / n**2
    assert found.std_error == pytest.approx(np.sqrt(variance * 60 / 59))
    wider = (stats.t.ppf(0.975, 59) / stats.norm.ppf(0.975)) ** 2
    size = rate * (1 - rate) / variance / wider
    assert size < 0.7 * n
    expected = (
        stats.beta.ppf(0.025, rate * size, (1 - rate) * size + 1),
        stats.beta.ppf(0.975, rate * size + 1, (1 - rate) * size),
    )
    assert (found.low, found.high) == pytest.approx(expected, abs=1e-9)


def test_two_sessions_have_a_standard_error():
    found = weighted_mean([1, 1, 0], [0.5, 0.5, 0.5], groups=[0, 0, 1])
    assert found.std_error == pytest.approx(np.sqrt(2 * 2 * (2 / 3) ** 2) / 3)


def test_uncorrelated_sessions_cost_little():
    rng = np.random.default_rng(7)
    outcomes = (rng.random(600) < 0.8).astype(float)
    together = weighted_mean(outcomes, [0.1] * 600, groups=np.arange(600) // 4)
    alone = weighted_mean(outcomes, [0.1] * 600)
    assert together.high - together.low < 1.3 * (alone.high - alone.low)


def test_a_single_session_counts_as_one_value():
    found = weighted_mean([1, 1, 1, 1], [0.5] * 4, groups=[3, 3, 3, 3])
    assert (found.low, found.high) == pytest.approx((0.025, 1.0))


def test_scores_have_a_betting_interval_that_covers_and_uses_their_small_spread():
    rng, inside, widths = np.random.default_rng(8), 0, []
    for _ in range(40):
        scores = rng.beta(18, 2, 200)
        found = weighted_mean(scores, rng.choice([1.0, 0.25], p=[0.3, 0.7], size=200), groups=np.arange(200))
        inside += found.low <= 0.9 <= found.high
        widths.append(found.high - found.low)
    assert inside / 40 >= 0.95
    assert np.mean(widths) < 0.06  # Clopper and Pearson's would be 0.1
    assert found.method == "betting, weighted"


@pytest.mark.parametrize("shape", ["step", "slope", "two steps"])
def test_an_interval_of_scores_whose_level_moved_surrounds_their_mean(shape):
    """It covers the mean of the levels, and never ends at its own mean."""
    n, rng, inside = 400, np.random.default_rng(14), 0
    level = {
        "step": np.where(np.arange(n) < 280, 0.95, 0.3),
        "slope": np.linspace(0.95, 0.3, n),
        "two steps": np.where((np.arange(n) // 130) % 2 == 0, 0.9, 0.2),
    }[shape]
    for _ in range(60):
        scores = np.clip(level + rng.normal(0, 0.05, n), 0, 1)
        found = weighted_mean(scores, np.full(n, 0.5))
        assert found.low < found.mean - 0.01
        assert found.mean + 0.01 < found.high
        assert found.high - found.low < 0.2
        inside += found.low <= level.mean() <= found.high
    assert inside / 60 >= 0.95


def test_codes_of_groups_are_only_names():
    scores = np.random.default_rng(9).random(40)
    codes = np.arange(40) // 4
    one = weighted_mean(scores, [0.3] * 40, groups=codes)
    other = weighted_mean(scores, [0.3] * 40, groups=1000 - 7 * codes)
    assert one.std_error == pytest.approx(other.std_error)
    assert (one.low, one.high) == (other.low, other.high)


def test_no_values_give_no_estimate():
    assert weighted_mean([], []) is None
    assert reference_level([], []) is None


def test_the_reference_is_a_lower_bound():
    rng, above = np.random.default_rng(10), 0
    for _ in range(400):
        outcomes, probabilities, truth = sample(rng, STRATA["errors always"], 0.97, 400)
        above += reference_level(outcomes, probabilities) > truth
    assert above / 400 <= 0.05
    one_sided = stats.binomtest(95, 100, alternative="greater").proportion_ci(0.99).low
    found = reference_level([1] * 95 + [0] * 5, [0.1] * 100, alpha=0.01)
    assert found == pytest.approx(one_sided, abs=1e-9)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"values": [2.0]}, r"values\[0\]"),
        ({"probabilities": [0.0]}, r"probabilities\[0\]"),
        ({"probabilities": [-0.5]}, r"probabilities\[0\]"),
        ({"probabilities": [0.5, 0.5]}, "equal length"),
        ({"groups": [1, 2]}, "equal length"),
        ({"confidence": 1.0}, "confidence"),
        ({"smallest": 0.6}, "smallest"),
        ({"smallest": 0.0}, "smallest"),
    ],
)
def test_what_is_out_of_range_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        weighted_mean(**({"values": [1.0], "probabilities": [0.5]} | change))


def test_a_reference_needs_a_level_below_one_half():
    with pytest.raises(ValueError, match="alpha"):
        reference_level([1.0], [0.5], alpha=0.5)
