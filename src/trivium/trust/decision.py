"""How probable it is that a version is worse, or that a mean misses its limit.

Definition: docs/definitions/decisions.md#probability.
"""

from math import exp, hypot, log, pi, sqrt
from statistics import NormalDist

import msgspec
import numpy as np
import numpy.typing as npt

from trivium.trust.arrays import Floats, check_lengths, check_positive, floats
from trivium.trust.clustered import ClusteredMean
from trivium.trust.distributions import Interval, normal_critical_value, t_critical_value

_STANDARD = NormalDist()
_LEAST_SCALE = 1e-9
"""Standard errors below this count as this."""


class DifferencePrior(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of the difference of two versions before they are compared.

    Definition: docs/definitions/decisions.md#prior.

    Attributes:
        unchanged: Probability that the versions do not differ at all, in [0, 1].
        spread: Standard deviation of the difference if they do, in the unit of the score.
        comparisons: Number of earlier comparisons that it was learned from; 0 for the default.
    """

    unchanged: float = 0.2
    spread: float = 0.1
    comparisons: int = 0


DEFAULT_PRIOR = DifferencePrior()
"""Chosen by a rule, on public results of agents and by simulation (docs/definitions/decisions.md#prior)."""

FEWEST_COMPARISONS = 8
"""Earlier comparisons from which on a prior is learned from them."""


def standard_error(interval: Interval) -> float:
    """Standard error of a difference as its probability needs it: never 0, and larger with few groups.

    Definition: docs/definitions/decisions.md#probability.
    """
    return widened(interval.std_error, groups=interval.groups, n=interval.n, level=interval.level)


def widened(std_error: float, *, groups: int, n: int, level: float) -> float:
    """A standard error as the probability of a loss needs it; see :func:`standard_error`.

    Args:
        std_error: The cluster-robust standard error.
        groups: Number of groups.
        n: Number of cases.
        level: Level at which few groups are allowed for.
    """
    few_groups = t_critical_value(level, max(1, groups - 1)) / normal_critical_value(level)
    return hypot(std_error * few_groups, 1 / (n + 1))


def probability_of_loss(
    estimate: float, interval: Interval, *, margin: float, prior: DifferencePrior = DEFAULT_PRIOR
) -> float:
    """Probability that the true difference lies below −margin.

    Definition: docs/definitions/decisions.md#probability.

    Args:
        estimate: The difference, higher is better.
        interval: Its interval, for the standard error, the number of cases and that of groups.
        margin: The largest acceptable loss, 0 or more.
        prior: What is known of such differences.

    Returns:
        In [0, 1].
    """
    return loss_beyond(estimate, standard_error(interval), -margin, prior)


def loss_of_differences(
    differences: npt.ArrayLike,
    groups: npt.ArrayLike,
    *,
    margin: float,
    level: float = 0.95,
    prior: DifferencePrior = DEFAULT_PRIOR,
) -> float:
    """Probability that the true mean of differences lies below −margin.

    Args:
        differences: The difference of each case, in [-1, 1], shape (n,).
        groups: Whole-number code of the group of each case, shape (n,), at least two of them.
        margin: The largest acceptable loss, 0 or more.
        level: Level at which few groups are allowed for.
        prior: What is known of such differences.

    Returns:
        In [0, 1].

    Raises:
        ValueError: If there are no two groups.
    """
    mean = ClusteredMean.of(differences, groups, kind="difference")
    if mean is None:
        raise ValueError("there must be at least two groups")
    spread = 0.0 if mean.equal else sqrt(mean.variance)
    error = widened(spread, groups=int(mean.groups), n=int(mean.n), level=level)
    return loss_beyond(mean.mean, error, -margin, prior)


def loss_beyond(estimate: float, error: float, limit: float, prior: DifferencePrior = DEFAULT_PRIOR) -> float:
    """Probability that the true difference lies below a limit.

    Definition: docs/definitions/decisions.md#probability.

    Args:
        estimate: The difference, higher is better.
        error: Its standard error, above 0.
        limit: The limit, in the unit of the difference.
        prior: What is known of such differences.

    Returns:
        In [0, 1].
    """
    spread = hypot(prior.spread, error)
    loss = NormalDist(estimate * (prior.spread / spread) ** 2, prior.spread * error / spread).cdf(limit)
    # Density of the estimate if the versions are equal, over that if they differ.
    ratio = spread / error * exp(((estimate / spread) ** 2 - (estimate / error) ** 2) / 2)
    return (prior.unchanged * ratio * (limit > 0) + (1 - prior.unchanged) * loss) / (
        1 - prior.unchanged + prior.unchanged * ratio
    )


def probability_of_missing(
    estimate: float, interval: Interval, *, at_least: float | None = None, at_most: float | None = None
) -> float:
    """Probability that the true mean misses a limit, by the interval's own distribution.

    Definition: docs/definitions/decisions.md#probability-limit.

    Args:
        estimate: The mean.
        interval: Its interval, at any level.
        at_least: The lower limit of the mean, in its unit; or
        at_most: its upper limit. Exactly one is given.

    Returns:
        In [0, 1]; ½ if the mean is at the limit.

    Raises:
        ValueError: If not exactly one limit is given.
    """
    below, above = _scales(estimate, interval)
    if at_least is not None and at_most is None:
        return _STANDARD.cdf((at_least - estimate) / (below if at_least < estimate else above))
    if at_most is None or at_least is not None:
        raise ValueError("a gate has either at_least or at_most")
    return _STANDARD.cdf((estimate - at_most) / (below if at_most < estimate else above))


def _scales(estimate: float, interval: Interval) -> tuple[float, float]:
    """Standard errors below and above an estimate."""
    z = normal_critical_value(interval.level)
    return max((estimate - interval.low) / z, _LEAST_SCALE), max((interval.high - estimate) / z, _LEAST_SCALE)


def learned_prior(deltas: npt.ArrayLike, errors: npt.ArrayLike) -> DifferencePrior:
    """Learn the prior of a suite from its earlier comparisons (empirical Bayes).

    Definition: docs/definitions/decisions.md#history.

    Args:
        deltas: Differences of earlier comparisons, shape (n,).
        errors: Their standard errors by :func:`standard_error`, shape (n,), above 0.

    Returns:
        The default with fewer than ``FEWEST_COMPARISONS``.

    Raises:
        ValueError: If the shapes differ.
    """
    deltas, errors = floats(deltas, errors)
    check_lengths(deltas=deltas, errors=errors)
    check_positive(errors=errors)
    if deltas.size < FEWEST_COMPARISONS:
        return DEFAULT_PRIOR
    shares = np.linspace(0.0, 0.9, 10)[:, None, None]
    spreads = np.geomspace(0.02, 0.3, 12)[None, :, None]

    def density(scale: Floats) -> Floats:
        result: Floats = np.exp(-((deltas / scale) ** 2) / 2) / (scale * sqrt(2 * pi))
        return result

    same, changed = density(errors), density(np.hypot(spreads, errors))
    likelihood = np.log(np.maximum(shares * same + (1 - shares) * changed, 1e-300)).sum(axis=2)
    # The default counts as a weak prior: its own share and spread, each with a wide distribution around it.
    weak = -((shares[..., 0] - DEFAULT_PRIOR.unchanged) ** 2) / (2 * 0.3**2)
    weak = weak - (np.log(spreads[..., 0] / DEFAULT_PRIOR.spread) / log(2)) ** 2 / 2
    weights = np.exp(likelihood + weak - (likelihood + weak).max())
    weights /= weights.sum()
    return DifferencePrior(
        unchanged=float((weights * shares[..., 0]).sum()),
        spread=float(np.exp((weights * np.log(spreads[..., 0])).sum())),
        comparisons=int(deltas.size),
    )
