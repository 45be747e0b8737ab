"""Splits the variance of scores between groups, cases and repeats, and says what a design would detect.

A score of repeat r of case c in group g is taken as μ + G_g + C_gc + E_gcr with independent parts. The mean
over G groups of c cases with r repeats each then has the variance

    between groups / G + between cases / (G c) + between repeats / (G c r),

so more repeats of the same cases remove the last part only, and more cases in the same groups the last two.
"""

from math import inf, sqrt

import msgspec
import numpy as np
import numpy.typing as npt

from trivium.trust.arrays import check_finite, check_lengths, floats
from trivium.trust.distributions import t_critical_value
from trivium.trust.sample_size import fewest_groups


class VarianceComponents(msgspec.Struct, frozen=True, kw_only=True):
    """The variance of scores, by where it arises.

    Definition: docs/definitions/comparisons.md#variance-components.

    Attributes:
        between_groups: Variance of the groups' means around the common mean, in score²; 0 if every group
            holds one case.
        between_cases: Variance of the cases' means around their group's, in score². Includes the variance
            between repeats if that is unknown.
        between_repeats: Variance of the repeats around their case's mean, in score²; None if no case was
            repeated.
        groups: Number of groups.
        cases: Number of cases.
        values: Number of values.
        imbalance: How much less groups of unlike size tell than as many of equal size: mean(n²) / mean(n)² of
            the cases n of a group, at least 1.
    """

    between_groups: float
    between_cases: float
    between_repeats: float | None
    groups: int
    cases: int
    values: int
    imbalance: float

    def shares(self) -> dict[str, float]:
        """Shares of the variance of a single value: between groups, cases and repeats; empty if it is 0."""
        parts = {
            "groups": self.between_groups,
            "cases": self.between_cases,
            "repeats": self.between_repeats or 0.0,
        }
        total = sum(parts.values())
        return {name: part / total for name, part in parts.items()} if total else {}

    def of_mean(self, groups: int, *, cases_per_group: float, repeats: int = 1) -> float:
        """Variance of the mean of a design, in score².

        Args:
            groups: Number of groups, at least 1.
            cases_per_group: Mean number of cases of a group, at least 1.
            repeats: Repeats of each case, at least 1; without effect if ``between_repeats`` is None.
        """
        of_case = self.between_cases + (self.between_repeats or 0.0) / repeats
        return (self.between_groups * self.imbalance + of_case / cases_per_group) / groups


def variance_components(
    values: npt.ArrayLike, cases: npt.ArrayLike, groups: npt.ArrayLike
) -> VarianceComponents:
    """Estimate the components from sums of squares (Henderson's method I; for equal sizes, the nested ANOVA).

    The estimates are unbiased up to one thing: a negative one is reported as 0.

    Args:
        values: Scores, shape (n,), finite.
        cases: Codes of their cases, shape (n,), integers.
        groups: Codes of their groups, shape (n,), integers; a case lies in one group.

    Raises:
        ValueError: If the shapes differ, a case lies in two groups, or there are fewer than two groups.
    """
    (y,), case, group = floats(values), np.asarray(cases), np.asarray(groups)
    check_lengths(values=y, cases=case, groups=group)
    check_finite(values=y)
    _, first, case = np.unique(case, return_index=True, return_inverse=True)
    if (group != group[first][case]).any():
        raise ValueError("a case lies in two groups")
    _, of_case = np.unique(group[first], return_inverse=True)
    repeats = np.bincount(case)
    case_means = np.bincount(case, y) / repeats
    size, n = np.bincount(of_case, repeats), y.size
    if size.size < 2:
        raise ValueError("one group tells nothing of how much groups differ")
    group_means = np.bincount(of_case, case_means * repeats) / size
    counts = np.bincount(of_case)
    # Σ n_c² / n_g over the cases c of each group g: the weight of the cases' variance in a group's mean.
    within = float((np.bincount(of_case, repeats.astype(np.float64) ** 2) / size).sum())
    squares_of_repeats = float(((y - case_means[case]) ** 2).sum())
    squares_of_cases = float((repeats * (case_means - group_means[of_case]) ** 2).sum())
    squares_of_groups = float((size * (group_means - y.mean()) ** 2).sum())

    n_cases, n_groups = repeats.size, size.size
    of_repeats = squares_of_repeats / (n - n_cases) if n > n_cases else None
    noise = of_repeats or 0.0
    if n_cases > n_groups:
        of_cases = max(0.0, (squares_of_cases - noise * (n_cases - n_groups)) / (n - within))
        weight = within - float((repeats.astype(np.float64) ** 2).sum()) / n
        explained = noise * (n_groups - 1) + of_cases * weight
        of_groups = max(0.0, (squares_of_groups - explained) / (n - float((size**2).sum()) / n))
    else:  # a group is a case
        of_groups = 0.0
        spread = squares_of_groups - noise * (n_groups - 1)
        of_cases = max(0.0, spread / (n - float((size**2).sum()) / n))
    return VarianceComponents(
        between_groups=of_groups,
        between_cases=of_cases,
        between_repeats=of_repeats,
        groups=n_groups,
        cases=n_cases,
        values=n,
        imbalance=float((counts**2).mean() / counts.mean() ** 2),
    )


def detectable(std_error: float, groups: int, *, level: float = 0.95, power: float = 0.8) -> float:
    """The least true difference found with probability ``power``: (t + t') · standard error.

    t and t' are the critical values of Student's distribution with G - 1 degrees of freedom for the level and
    the power.

    Args:
        std_error: Standard error of the mean difference, in its unit.
        groups: Number of groups G; with fewer than 2 nothing is found.
        level: Level of the interval that decides, in (0, 1).
        power: In (0.5, 1).
    """
    if groups < 2:
        return inf
    return (t_critical_value(level, groups - 1) + t_critical_value(2 * power - 1, groups - 1)) * std_error


def groups_by_t(
    components: VarianceComponents,
    difference: float,
    *,
    cases_per_group: float,
    repeats: int = 1,
    level: float = 0.95,
    power: float = 0.8,
) -> int | None:
    """The fewest groups with which a t interval finds a mean difference with probability ``power``.

    Args:
        components: Components of the paired differences.
        difference: The true difference, above 0.
        cases_per_group: Mean number of cases of a group, at least 1.
        repeats: Repeats of each case.
        level: Level of the interval that must leave 0 out, in (0, 1).
        power: In (0.5, 1).

    Returns:
        At least 2; None if more than ``MOST_PLANNED`` are needed.
    """
    for name, value, met in (
        ("difference", difference, difference > 0),
        ("level", level, 0 < level < 1),
        ("power", power, 0.5 < power < 1),
    ):
        if not met:
            raise ValueError(f"{name} is out of range: {value:g}")

    def finds(groups: int) -> bool:
        variance = components.of_mean(groups, cases_per_group=cases_per_group, repeats=repeats)
        return detectable(sqrt(variance), groups, level=level, power=power) <= difference

    return fewest_groups(finds)


def inflation_of_pilot(groups: int, *, share: float = 0.8) -> tuple[float, float]:
    """By what factors the variance may differ from that of a pilot, with probability ``share``.

    Variance over its estimate is distributed as (G - 1) / χ² with G - 1 degrees of freedom, if the
    groups' means are normal.

    Args:
        groups: Groups G of the pilot, at least 2.
        share: Probability that the factor lies between both, in (0, 1).
    """
    from scipy.special import chdtri

    freedom = groups - 1
    tails = (1 - share) / 2, (1 + share) / 2
    least, most = (freedom / float(chdtri(freedom, tail)) for tail in tails)
    return least, most
