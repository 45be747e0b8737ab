"""The posterior of a difference: its limits, its symmetry, and how often it is right in drawn worlds."""

import numpy as np
import pytest
from scipy import integrate, stats

from trivium.trust.case_model import (
    CasePosterior,
    NormalMixture,
    Tally,
    case_posterior,
    expected_saving,
)


def drawn(base: np.ndarray, head: np.ndarray, attempts: int, rng: np.random.Generator) -> tuple[Tally, Tally]:
    many = np.full(base.size, attempts)
    sums = [rng.binomial(attempts, rates).astype(float) for rates in (base, head)]
    return Tally(many, sums[0], sums[0]), Tally(many, sums[1], sums[1])


def posterior(base: Tally, head: Tally) -> CasePosterior:
    return case_posterior(base, head, np.arange(base.sums.size))


def test_a_mixture_is_that_of_scipy() -> None:
    mixture = NormalMixture(np.array([0.3, 0.7]), np.array([-0.2, 0.1]), np.array([0.01, 0.04]))
    rng = np.random.default_rng(0)
    which = rng.random(400_000) < 0.3
    sample = np.where(which, rng.normal(-0.2, 0.1, which.size), rng.normal(0.1, 0.2, which.size))
    assert mixture.mean == pytest.approx(sample.mean(), abs=0.002)
    assert mixture.variance == pytest.approx(sample.var(), abs=0.002)
    below = 0.3 * stats.norm.cdf(0.05, -0.2, 0.1) + 0.7 * stats.norm.cdf(0.05, 0.1, 0.2)
    assert mixture.below(0.05) == pytest.approx(below)
    assert mixture.quantile(below) == pytest.approx(0.05, abs=1e-5)


def test_a_mixture_may_have_a_certain_part() -> None:
    mixture = NormalMixture(np.array([0.5, 0.5]), np.array([0.0, 1.0]), np.array([0.0, 0.0]))
    assert (mixture.below(0.0), mixture.below(0.5), mixture.below(2)) == (0.0, 0.5, 1.0)


def test_with_many_attempts_the_difference_of_the_means_is_known() -> None:
    rng = np.random.default_rng(1)
    rates = rng.beta(2, 1, (2, 40))
    base, head = drawn(rates[0], rates[1], 4000, rng)
    found = posterior(base, head)
    assert found.these.mean == pytest.approx((rates[1] - rates[0]).mean(), abs=0.01)
    # Cases like these remain as uncertain as the spread of the differences makes them.
    spread = (rates[1] - rates[0]).std(ddof=1) / np.sqrt(40)
    assert np.sqrt(found.like_these.variance) == pytest.approx(spread, rel=0.15)
    assert found.these.variance < found.like_these.variance / 20


def test_groups_make_cases_like_these_less_certain() -> None:
    rng = np.random.default_rng(2)
    shift = np.repeat([0.0, 0.4], 20)
    base, head = drawn(np.full(40, 0.8), 0.8 - shift, 200, rng)
    alone = case_posterior(base, head, np.arange(40)).like_these.variance
    grouped = case_posterior(base, head, np.repeat(np.arange(4), 10)).like_these.variance
    assert grouped > 4 * alone


def plus(tally: Tally, case: int, value: float) -> Tally:
    """The tally with one more attempt at the case at a position."""
    at = np.arange(tally.attempts.size) == case
    return Tally(tally.attempts + at, tally.sums + at * value, tally.squares + at * value**2)


def test_sides_exchanged_the_difference_has_the_other_sign() -> None:
    rng = np.random.default_rng(3)
    base, head = drawn(rng.beta(2, 1, 30), rng.beta(1, 1, 30), 2, rng)
    one, other = posterior(base, head), posterior(head, base)
    assert one.these.mean == pytest.approx(-other.these.mean)
    assert one.like_these.variance == pytest.approx(other.like_these.variance)
    assert one.gains == pytest.approx(other.gains[::-1])


def test_gains_are_what_one_more_attempt_takes_away() -> None:
    """Against enumeration: the variance of the mean over both values that the attempt can have."""
    base = Tally.of([[1.0]] * 16 + [[0.0]] * 4)
    head = Tally.of([[1.0]] * 12 + [[0.0]] * 8)
    found = posterior(base, head)
    for case, side in ((0, 1), (13, 1), (13, 0), (18, 0)):
        after = [
            posterior(base, plus(head, case, y)) if side else posterior(plus(base, case, y), head)
            for y in (0, 1)
        ]
        means = [part.these.mean for part in after]
        # The probability of a 1 follows from the mean of the means, which is the mean now.
        share = (found.these.mean - means[0]) / (means[1] - means[0])
        taken = share * (1 - share) * (means[1] - means[0]) ** 2
        assert found.gains[side, case] == pytest.approx(taken, rel=0.15, abs=2e-6)
    assert found.gains.max() == found.gains[0, 13]  # most is learned where a case moved


def test_graded_scores_with_little_spread_are_worth_more() -> None:
    rng = np.random.default_rng(4)
    means = rng.uniform(0.3, 0.7, 30)
    steady = [Tally.of([list(np.clip(rng.normal(m, 0.02, 3), 0, 1)) for m in means]) for _ in range(2)]
    noisy = drawn(means, means, 3, rng)
    assert posterior(*steady).these.variance < posterior(*noisy).these.variance / 3


def test_many_different_scores_are_rounded() -> None:
    rng = np.random.default_rng(5)
    scores = rng.random((2, 1000))
    sides = [Tally(np.ones(1000, int), values, values**2) for values in scores]
    found = posterior(*sides)
    assert found.gains.shape == (2, 1000)
    assert abs(found.these.mean - (scores[1] - scores[0]).mean()) < 0.02


def test_a_case_without_attempts_on_a_side_counts_as_unknown() -> None:
    known = posterior(Tally.of([[1.0, 1.0]] * 10), Tally.of([[1.0, 1.0]] * 10))
    unknown = posterior(Tally.of([[1.0, 1.0]] * 10), Tally.of([[1.0, 1.0]] * 5 + [[]] * 5))
    assert unknown.these.variance > known.these.variance


def test_nothing_to_infer_from_is_refused() -> None:
    with pytest.raises(ValueError, match="no case"):
        posterior(Tally.of([]), Tally.of([]))
    with pytest.raises(ValueError, match="length"):
        posterior(Tally.of([[1.0]]), Tally.of([[1.0], [1.0]]))


def test_probabilities_are_right_about_as_often_as_they_say() -> None:
    """Worlds of 30 cases, half of them A/A or nearly so; attempts at cases that moved are made again."""
    rng = np.random.default_rng(6)
    said, true = [], []
    for _ in range(400):
        base = np.where(rng.random(30) < 0.6, (rng.random(30) < 0.7).astype(float), rng.beta(2, 1, 30))
        head = base.copy()
        kind = rng.integers(4)
        if kind == 1:
            head[rng.random(30) < rng.choice([0.1, 0.3])] = rng.choice([0.0, 0.5, 1.0])
        elif kind > 1:
            head = np.clip(base + rng.normal(0, 0.1), 0, 1)
        sides = list(drawn(base, head, 1, rng))
        for case in np.flatnonzero(sides[0].sums != sides[1].sums):
            for side, rates in enumerate((base, head)):
                sides[side] = plus(sides[side], int(case), float(rng.random() < rates[case]))
        said.append(posterior(sides[0], sides[1]).these.below(-0.02))
        true.append((head - base).mean() < -0.02)
    said_, true_ = np.array(said), np.array(true)
    for low, high in ((0, 0.15), (0.15, 0.5), (0.5, 0.85), (0.85, 1.01)):
        within = (said_ >= low) & (said_ < high)
        assert within.sum() >= 20
        assert true_[within].mean() == pytest.approx(said_[within].mean(), abs=0.15)


@pytest.mark.parametrize(("probability", "explained"), [(0.5, 0.5), (0.2, 0.3), (0.9, 0.9)])
def test_the_saving_is_that_of_the_integral(probability: float, explained: float) -> None:
    at = stats.norm.ppf(probability)

    def loss(z: float) -> float:
        after = stats.norm.cdf((at - np.sqrt(explained) * z) / np.sqrt(1 - explained))
        return float(min(3 * after, 1 - after) * stats.norm.pdf(z))

    expected = integrate.quad(loss, -9, 9, limit=200)[0]
    now = min(3 * probability, 1 - probability)
    assert expected_saving(probability, explained, ship=3) == pytest.approx(now - expected, abs=0.01)


def test_nothing_is_saved_where_nothing_can_change() -> None:
    assert expected_saving(0.0, 0.5) == expected_saving(1.0, 0.5) == expected_saving(0.4, 0.0) == 0.0
    assert expected_saving(0.4, 1.0) == pytest.approx(0.4, abs=0.01)
