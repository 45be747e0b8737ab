"""Estimates the difference between two versions from repeated attempts at the same cases.

Definition: docs/definitions/decisions.md#case-model.
"""

from functools import cache
from math import hypot, sqrt
from statistics import NormalDist
from typing import Self

import msgspec
import numpy as np
import numpy.typing as npt

from trivium.trust.arrays import Floats, check_lengths

_STANDARD = NormalDist()

_RATES = np.concatenate([[0.0, 0.02], np.linspace(0.05, 0.95, 19), [0.98, 1.0]])
"""Rates that a case can have on a side."""

_PRIOR_COUNTS = np.full(_RATES.size, 0.04)
_PRIOR_COUNTS[[0, -1]] = 0.3, 0.6
"""Cases that the distribution of the rates is taken to have been seen with: most cases are steady."""

_UNCHANGED = 0.2
_FREE = 0.03
"""Share of the cases of a changed version that may have any rate, whatever the change is."""

_KINDS = {"lose": 0.2, "win": 0.2, "both": 0.1, "flaky": 0.1, "down": 0.2, "up": 0.2}
_SHARES = (0.05, 0.1, 0.2, 0.4, 0.7, 1.0)
_SIZES = (0.1, 0.25, 0.5, 1.0)
_SHIFTS = (0.05, 0.1, 0.2)
_STEPS = 30
_LEAST_DISPERSION = 0.05
_LEAST_VARIANCE = 1e-18
_MOST_PATTERNS = 400
_LEAST_LIKELIHOOD = 1e-150
"""Two of them multiplied are no 0 yet, by which evidence could not be compared."""


class Tally(msgspec.Struct, frozen=True):
    """The attempts of one side at each case.

    Attributes:
        attempts: Number of attempts, shape (n,).
        sums: Sum of their values in [0, 1], higher is better, shape (n,).
        squares: Sum of the squares of their values, shape (n,).
    """

    attempts: npt.NDArray[np.int64]
    sums: Floats
    squares: Floats

    @classmethod
    def of(cls, values: list[list[float]]) -> Self:
        """Tally the values of each case."""
        return cls(
            np.array([len(case) for case in values], np.int64),
            np.array([sum(case) for case in values], np.float64),
            np.array([sum(value * value for value in case) for case in values], np.float64),
        )


class NormalMixture(msgspec.Struct, frozen=True):
    """A mixture of normal distributions, those with variance 0 included.

    Attributes:
        weights: Shape (k,), with sum 1.
        means: Shape (k,).
        variances: Shape (k,), 0 or more.
    """

    weights: Floats
    means: Floats
    variances: Floats

    @property
    def mean(self) -> float:
        """The mean."""
        return float(self.weights @ self.means)

    @property
    def variance(self) -> float:
        """The variance."""
        return float(self.weights @ (self.variances + (self.means - self.mean) ** 2))

    def below(self, value: float) -> float:
        """Probability of less than a value; differences below 1e-9 count as none."""
        return self.up_to(value - 1e-9)

    def up_to(self, value: float) -> float:
        """Probability of at most a value."""
        total = 0.0
        for weight, mean, variance in zip(self.weights, self.means, self.variances, strict=True):
            if variance > _LEAST_VARIANCE:
                total += weight * NormalDist(mean, sqrt(variance)).cdf(value)
            elif mean <= value + 1e-12:
                total += weight
        return min(1.0, float(total))

    def quantile(self, share: float) -> float:
        """The value below which a share in (0, 1) lies, to 1e-6."""
        reach = 8 * np.sqrt(self.variances)
        low, high = float((self.means - reach).min()), float((self.means + reach).max())
        while high - low > 1e-6:
            middle = (low + high) / 2
            low, high = (middle, high) if self.below(middle) < share else (low, middle)
        return (low + high) / 2


class CasePosterior(msgspec.Struct, frozen=True):
    """The posterior of the difference after all attempts.

    Attributes:
        these: Distribution of the mean difference of the rates of these very cases, head minus base.
        like_these: Distribution of the mean difference over all cases of the kind, of which these (or their
            groups) are a sample.
        gains: Variance of ``these`` that one more attempt is expected to take away, shape (2, n): of base,
            of head.
        rates: Expected rate of each case, shape (2, n): of base, of head.
    """

    these: NormalMixture
    like_these: NormalMixture
    gains: Floats
    rates: Floats


@cache
def _scenarios() -> tuple[Floats, Floats]:
    """Prior probability of each scenario, and its transitions from a rate to that of the changed side."""
    changes: list[tuple[float, Floats]] = [(_UNCHANGED, np.eye(_RATES.size))]
    free = np.full((_RATES.size, _RATES.size), 1 / _RATES.size)

    def add(weight: float, share: float, *moved: Floats) -> None:
        kept = (1 - share) * np.eye(_RATES.size) + share * sum(map(_to, moved)) / len(moved)
        changes.append(((1 - _UNCHANGED) * weight, (1 - _FREE) * kept + _FREE * free))

    everything = {share: 0.5 if share == 1 else 0.5 / (len(_SHARES) - 1) for share in _SHARES}
    sizes = {size: 1 / size / sum(1 / other for other in _SIZES) for size in _SIZES}
    for share, of_share in everything.items():
        for size, of_size in sizes.items():
            weight = of_share * of_size
            lose, win = _RATES * (1 - size), _RATES + size * (1 - _RATES)
            add(_KINDS["lose"] * weight, share, lose)
            add(_KINDS["win"] * weight, share, win)
            add(_KINDS["both"] * weight, share, lose, win)
        add(_KINDS["flaky"] * of_share, share, np.full(_RATES.size, 0.5))
    for shift in _SHIFTS:
        add(_KINDS["down"] / len(_SHIFTS), 1.0, _RATES - shift)
        add(_KINDS["up"] / len(_SHIFTS), 1.0, _RATES + shift)
    priors, transitions = zip(*changes, strict=True)
    return np.array(priors), np.stack(transitions)


def _to(rates: Floats) -> Floats:
    """Transitions to given rates, shape (rates, rates), each shared by its two neighbours on the grid."""
    rates = np.clip(rates, 0, 1)
    above = np.clip(np.searchsorted(_RATES, rates), 1, _RATES.size - 1)
    share = (rates - _RATES[above - 1]) / (_RATES[above] - _RATES[above - 1])
    result = np.zeros((_RATES.size, _RATES.size))
    result[np.arange(_RATES.size), above - 1] = 1 - share
    result[np.arange(_RATES.size), above] += share
    return result


def case_posterior(base: Tally, head: Tally, groups: npt.ArrayLike) -> CasePosterior:
    """Infer the difference of two versions from all attempts at the same cases.

    Cases may be attempted any number of times on each side, also because of what was seen before: given all
    attempts, the reason for them tells nothing more.

    Definition: docs/definitions/decisions.md#case-model.

    Args:
        base: The attempts of base.
        head: Those of head, at the same cases.
        groups: Group of each case, shape (n,).

    Raises:
        ValueError: If the shapes differ, or there is no case.
    """
    group = np.unique(np.asarray(groups), return_inverse=True)[1]
    check_lengths(base=base.sums, head=head.sums, groups=group)
    n = group.size
    if not n:
        raise ValueError("there is no case")
    dispersion = _dispersion(base, head)
    patterns, place, counts = _patterns(base, head)
    likelihoods = [_likelihood(patterns[:, side : side + 2], dispersion) for side in (0, 2)]
    priors, transitions = _scenarios()
    parts = []
    for changed, (before, after) in enumerate((likelihoods, likelihoods[::-1])):
        evidence, moments = _fitted(before, after, counts, transitions)
        if changed:  # head's rates come first, so that base is the side that changed
            moments = moments[:, [1, 0, 3, 2, 4]]
        parts.append((evidence + np.log(priors / 2), moments))
    log_weights = np.concatenate([part[0] for part in parts])
    weights = np.exp(log_weights - log_weights.max())
    weights /= weights.sum()
    kept = weights > 1e-6
    weights = weights[kept] / weights[kept].sum()
    moments = np.concatenate([part[1] for part in parts])[kept]
    return _posterior(weights, moments, place, counts, group, dispersion)


def error_on_these_cases(base: Tally, head: Tally) -> float:
    """Standard error of the mean difference if these very cases were attempted again.

    Without a case that a side attempted twice it is the upper bound that leaves nothing to change: the root
    of the sum of the squared differences, over n. It supposes that attempts were not made because of what
    others showed (see :func:`case_posterior`).

    Definition: docs/definitions/decisions.md#two-questions.

    Args:
        base: The attempts of base.
        head: Those of head, at the same cases.

    Returns:
        Above 0: one more attempt might change wholly.

    Raises:
        ValueError: If no case has attempts on both sides.
    """
    both = (base.attempts > 0) & (head.attempts > 0)
    sides = [(side.attempts[both], side.sums[both], side.squares[both]) for side in (base, head)]
    n = int(np.count_nonzero(both))
    if not n:
        raise ValueError("there is no case with attempts on both sides")
    within, freedom = [], []
    for attempts, sums, squares in sides:
        within.append(np.maximum(squares - sums**2 / attempts, 0))
        freedom.append(attempts - 1)
    if not any(each.any() for each in freedom):
        variance = float(((sides[1][1] - sides[0][1]) ** 2).sum()) / n**2
    else:
        pooled = float(sum(each.sum() for each in within) / sum(each.sum() for each in freedom))
        variance = 0.0
        for spread, free, (attempts, _, _) in zip(within, freedom, sides, strict=True):
            own = np.where(free > 0, spread / np.maximum(free, 1), pooled)
            variance += float((own / attempts).sum()) / n**2
    fewest = min(int(attempts.sum()) for attempts, _, _ in sides)
    return hypot(sqrt(variance), 1 / (fewest + 1))


def _dispersion(base: Tally, head: Tally) -> float:
    """Variance within a case over that of values 0 and 1 with its mean, in [0.05, 1]."""
    within = possible = 0.0
    for side in (base, head):
        repeated = side.attempts > 1
        attempts, sums = side.attempts[repeated], side.sums[repeated]
        means = sums / attempts
        within += float((side.squares[repeated] - sums * means).sum())
        possible += float((means * (attempts - sums)).sum())
    graded = any(np.any(np.abs(side.squares - side.sums) > 1e-9) for side in (base, head))
    # Two attempts at rate 1/2 with the full variance count beside what was seen.
    return float(np.clip((within + 0.5) / (possible + 0.5), _LEAST_DISPERSION, 1)) if graded else 1.0


def _patterns(base: Tally, head: Tally) -> tuple[Floats, npt.NDArray[np.int64], Floats]:
    """Distinct (attempts, sum) of both sides, shape (p, 4); the one of each case; cases of each."""
    rows = np.stack([base.attempts, base.sums, head.attempts, head.sums], axis=1).astype(np.float64)
    result, place, counts = np.unique(rows, axis=0, return_inverse=True, return_counts=True)
    if len(result) > _MOST_PATTERNS:
        for at in (1, 3):
            attempts = np.maximum(rows[:, at - 1], 1)
            rows[:, at] = np.round(rows[:, at] / attempts * 20) / 20 * attempts
        result, place, counts = np.unique(rows, axis=0, return_inverse=True, return_counts=True)
    return result, place.reshape(-1), counts.astype(np.float64)


def _likelihood(pattern: Floats, dispersion: float) -> Floats:
    """Likelihood of the attempts of each pattern at each rate, shape (p, rates), the largest 1."""
    attempts, sums = pattern[:, :1], pattern[:, 1:]
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.where(sums > 0, sums * np.log(_RATES), 0.0)
        logs = logs + np.where(attempts - sums > 1e-12, (attempts - sums) * np.log1p(-_RATES), 0.0)
    relative: Floats = np.exp((logs - logs.max(axis=1, keepdims=True)) / dispersion)
    return np.maximum(relative, _LEAST_LIKELIHOOD)


def _fitted(before: Floats, after: Floats, counts: Floats, transitions: Floats) -> tuple[Floats, Floats]:
    """Fit the distribution of the rates in each scenario.

    Returns:
        Log evidence, shape (s,); moments of each pattern, shape (s, 5, p): mean of the rate before, after, of
        the squares of both, of their product.
    """
    forward = np.einsum("pj,sij->spi", after, transitions)
    weight = before * forward  # likelihood of a pattern at each rate before
    rates = np.broadcast_to(_PRIOR_COUNTS / _PRIOR_COUNTS.sum(), (len(transitions), _RATES.size))
    for _ in range(_STEPS):
        likelihood = np.einsum("spi,si->sp", weight, rates)
        rates = rates * np.einsum("sp,spi->si", counts / likelihood, weight) + _PRIOR_COUNTS
        rates = rates / rates.sum(axis=1, keepdims=True)
    likelihood = np.einsum("spi,si->sp", weight, rates)
    evidence = np.log(likelihood) @ counts + np.log(rates) @ _PRIOR_COUNTS
    first = np.einsum("pj,sij->spi", after * _RATES, transitions)
    second = np.einsum("pj,sij->spi", after * _RATES**2, transitions)
    share = before * rates[:, None, :] / likelihood[:, :, None]
    moments = np.stack(
        [
            (share * forward) @ _RATES,
            (share * first).sum(axis=2),
            (share * forward) @ _RATES**2,
            (share * second).sum(axis=2),
            (share * first) @ _RATES,
        ],
        axis=1,
    )
    return evidence, moments


def _posterior(
    weights: Floats,
    moments: Floats,
    place: npt.NDArray[np.int64],
    counts: Floats,
    group: npt.NDArray[np.int64],
    dispersion: float,
) -> CasePosterior:
    n = place.size
    base, head, base_2, head_2, product = np.moveaxis(moments, 1, 0)
    difference = head - base
    variance = np.maximum(head_2 + base_2 - 2 * product - difference**2, 0)
    means, variances = difference @ counts / n, variance @ counts / n**2
    # Sums over groups of what the cases of a group lie above the mean.
    members = np.zeros((group.max() + 1, len(counts)))
    np.add.at(members, (group, place), 1)
    above = difference @ members.T - means[:, None] * members.sum(axis=1)
    between = (above**2).sum(axis=1) * len(members) / max(1, len(members) - 1) / n**2
    like = between + 2 * variances
    covariances = np.stack(
        [product - base_2 - difference * base, head_2 - product - difference * head], axis=1
    )
    rates = np.stack([base, head], axis=1)
    rate = np.tensordot(weights, rates, 1)
    covariance = np.tensordot(weights, covariances / n, 1) + np.tensordot(
        weights * (means - weights @ means), rates - rate, 1
    )
    squares = np.tensordot(weights, np.stack([base_2, head_2], axis=1), 1)
    spread = dispersion * np.maximum(rate - squares, 0) + np.maximum(squares - rate**2, 0)
    gains = np.where(spread > 1e-12, covariance**2 / np.maximum(spread, 1e-12), 0.0)
    return CasePosterior(
        NormalMixture(weights, means, variances),
        NormalMixture(weights, means, like),
        gains[:, place],
        rate[:, place],
    )


def expected_saving(probability: float, explained: float, *, ship: float = 1.0, block: float = 1.0) -> float:
    """What more attempts are expected to save by a better decision (expected value of sample information).

    Definition: docs/definitions/decisions.md#saving.

    Args:
        probability: Probability of a loss now, in [0, 1].
        explained: Share of the variance of the difference that the attempts are expected to take away, in
            [0, 1].
        ship: Cost of shipping a loss.
        block: Cost of blocking what is none.

    Returns:
        In the unit of the costs, 0 or more.
    """
    if not 0 < probability < 1 or explained <= 0:
        return 0.0
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    left = sqrt(max(1 - explained, 1e-9))
    at = (_STANDARD.inv_cdf(probability) - sqrt(min(explained, 1.0)) * nodes) / left
    after = np.array([_STANDARD.cdf(float(value)) for value in at])
    expected = float(np.minimum(ship * after, block * (1 - after)) @ weights / weights.sum())
    return max(0.0, min(ship * probability, block * (1 - probability)) - expected)
