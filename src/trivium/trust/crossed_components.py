"""Splits the variance of scores between cases, user models, attempts and judges that are crossed.

Definition: docs/definitions/conversations.md#spread.

A score of attempt k of case c with user u by judge j is taken as μ + C_c + U_u + CU_cu + A_cuk + J_j + R_cukj
with uncorrelated parts. Half the mean squared difference of two scores is the sum of the variances of the
parts that they do not share. Such means over pairs of each kind, of which the variances are differences, are
unbiased whatever the number of scores in a cell (Koch 1967), and for equal numbers the analysis of variance.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from trivium.trust.arrays import Floats, Ints

Part = Literal["case", "user", "case × user", "attempt", "judge", "judgement"]
"""Where a variance arises: C, U, CU, A, J and R."""
PARTS: tuple[Part, ...] = get_args(Part)


Pairs = Floats
"""Sum of squared differences over pairs of scores, and the number of these pairs, shape (2, b)."""


def _half_mean(pairs: Pairs) -> Floats:
    """Half the mean square; NaN without a pair."""
    squares, number = pairs
    known = number > 0.5
    return np.where(known, squares / np.where(known, 2 * number, 1), np.nan)


class _Related(NamedTuple):
    """Half mean squares of scores of different cases and users, of one user, of one case, of one cell."""

    apart: Floats
    same_user: Floats
    same_case: Floats
    same_cell: Floats


class CrossedScores:
    """Scores of cases, users, attempts and judges, of which variances are estimated, also in resamples.

    Args:
        values: Scores, shape (n,), finite.
        cases: Codes of their cases, shape (n,), integers.
        users: Codes of their users, shape (n,), integers; at least two.
        attempts: Codes of their attempts, shape (n,), integers; an attempt has one case and one user, and at
            most one score of each judge.
        judges: Codes of their judges, shape (n,), integers; None if one judge, or none, gave all scores.
        groups: Codes of the groups that are resampled, shape (n,), integers; a case lies in one group.

    Attributes:
        groups: Number of groups.
        several_judges: Whether there is more than one judge.

    Raises:
        ValueError: If the shapes differ, a value is not finite, or there is one user.
    """

    def __init__(
        self,
        values: npt.ArrayLike,
        cases: npt.ArrayLike,
        users: npt.ArrayLike,
        attempts: npt.ArrayLike,
        judges: npt.ArrayLike | None,
        groups: npt.ArrayLike,
    ) -> None:
        y = np.asarray(values, np.float64)
        given = [cases, users, attempts, np.zeros(y.shape, np.int64) if judges is None else judges, groups]
        case, user, attempt, judge, group = (_codes(each, y) for each in given)
        if not np.isfinite(y).all():
            raise ValueError("values must be finite")
        if not user.max(initial=0):
            raise ValueError("one user tells nothing of how much users differ")
        self._y = y - y.mean()
        self._group = group
        self.groups = int(group.max()) + 1
        self._users, self._judges = int(user.max()) + 1, int(judge.max()) + 1
        self.several_judges = self._judges > 1
        cell = case * self._users + user
        self._inside = [
            self._of_groups(np.unique(key, return_inverse=True)[1])
            for key in (case, cell, attempt, case * self._judges + judge, cell * self._judges + judge)
        ]
        place = (group * self._users + user) * self._judges + judge
        size = self.groups * self._users * self._judges
        self._sums = [
            np.bincount(place, weights, size).reshape(self.groups, -1)
            for weights in (np.ones_like(y), self._y, self._y**2)
        ]

    def _of_groups(self, key: Ints) -> Floats:
        """Squares and number of the pairs of scores with one key, by group; shape (groups, 2)."""
        number, total = np.bincount(key), np.bincount(key, self._y)
        squares = number * np.bincount(key, self._y**2) - total**2
        owner = np.zeros(number.size, np.int64)
        owner[key] = self._group
        pairs = number * (number - 1) / 2
        return np.stack([np.bincount(owner, each, self.groups) for each in (squares, pairs)], axis=1)

    def estimates(self, counts: npt.NDArray[np.uint8]) -> Floats:
        """Estimate the variances in resamples.

        Args:
            counts: How often each group counts, shape (groups, b).

        Returns:
            Shape (6, b), in the order of ``PARTS``, in score²; negative by chance, NaN where the design does
            not tell. Without a second attempt of any case with a user, the part of the attempts includes
            that of case × user; with one judge, it includes both of the judge's.
        """
        weights = counts.T.astype(np.float64)
        sums = [(weights @ each).reshape(-1, self._users, self._judges) for each in self._sums]
        inside = [(weights @ each).T for each in self._inside]
        case, cell, attempt, case_judge, cell_judge = inside
        same = _related(_over(sums, (1,)), _over(sums, ()), case_judge, cell_judge, None)
        unknown = np.full(len(weights), np.nan)
        if not self.several_judges:
            return _parts(same, np.zeros(len(weights)), unknown)
        other = _related(
            _over(sums, (1, 2)) - _over(sums, (1,)),
            _over(sums, (2,)) - _over(sums, ()),
            case - case_judge,
            cell - cell_judge,
            attempt,
        )
        return _parts(other, _half_mean(attempt), other.apart - same.apart)


def _codes(given: npt.ArrayLike, like: Floats) -> Ints:
    codes = np.asarray(given)
    if like.ndim != 1 or codes.shape != like.shape:
        raise ValueError(f"expected shapes (n,); found {like.shape} and {codes.shape}")
    found: Ints = np.unique(codes, return_inverse=True)[1].astype(np.int64)
    return found


def _over(sums: Sequence[Floats], axes: tuple[int, ...]) -> Pairs:
    """The pairs of scores of all groups that agree in users and judges, but for those at the axes."""
    number, total, squares = (each.sum(axis=axes) if axes else each for each in sums)
    rest = tuple(range(1, number.ndim))
    pairs = (number * squares - total**2).sum(axis=rest), (number * (number - 1) / 2).sum(axis=rest)
    return np.stack(pairs)


def _related(every: Pairs, user: Pairs, case: Pairs, cell: Pairs, attempt: Pairs | None) -> _Related:
    """The half mean squares, from the pairs of all, and those that share user, case, cell, or attempt."""
    return _Related(
        apart=_half_mean(every - user - case + cell),
        same_user=_half_mean(user - cell),
        same_case=_half_mean(case - cell),
        same_cell=_half_mean(cell if attempt is None else cell - attempt),
    )


def _parts(related: _Related, noise: Floats, judge: Floats) -> Floats:
    """The variances, given that of judges within an attempt, and that between judges."""
    crossed = related.same_user + related.same_case - related.apart
    repeated = ~np.isnan(related.same_cell)
    return np.stack(
        [
            related.apart - related.same_case,
            related.apart - related.same_user,
            crossed - related.same_cell,
            np.where(repeated, related.same_cell, crossed) - noise,
            judge,
            noise - judge,
        ]
    )


class UserEffect(NamedTuple):
    """How much users change a mean.

    Definition: docs/definitions/conversations.md#another-user.

    Attributes:
        means: Mean with each user, shape (u,).
        variance: Variance of these means but for what the sample of cases adds, unbiased; negative by chance.
        p: p-value of no difference between the users (Hotelling's T² of groups); None for fewer groups than
            users.
    """

    means: Floats
    variance: float
    p: float | None


def user_effect(values: npt.ArrayLike, groups: npt.ArrayLike) -> UserEffect:
    """Estimate how much users change the mean of cases that each of them had.

    Args:
        values: Mean score of each case with each user, shape (n, u), finite; at least two users.
        groups: Codes of the cases' groups, shape (n,), integers.

    Raises:
        ValueError: If the shapes do not fit, a value is not finite, or there is one user or one group.
    """
    y, group = np.asarray(values, np.float64), np.asarray(groups)
    if y.ndim != 2 or y.shape[1] < 2 or group.shape != y.shape[:1] or not np.isfinite(y).all():
        raise ValueError(f"expected finite values, shapes (n, u) and (n,); found {y.shape}, {group.shape}")
    names, code = np.unique(group, return_inverse=True)
    if names.size < 2:
        raise ValueError("one group tells nothing of chance")
    n, users, count = *y.shape, names.size
    apart = y - y.mean(axis=1, keepdims=True)
    effects = apart.mean(axis=0)
    sums = np.zeros((count, users))
    np.add.at(sums, code, apart - effects)
    covariance = sums.T @ sums * count / (count - 1) / n**2
    variance = float(effects @ effects - np.trace(covariance)) / (users - 1)
    return UserEffect(y.mean(axis=0), variance, _p_of_effects(effects, covariance, count))


def _p_of_effects(effects: Floats, covariance: Floats, groups: int) -> float | None:
    """p-value of effects that are all 0 in truth, by Hotelling's T²."""
    from scipy.special import fdtrc

    if groups < effects.size:
        return None
    scales, axes = np.linalg.eigh(covariance)
    varies = scales > 1e-12 * max(1.0, float(effects @ effects))
    along = axes.T @ effects
    if np.abs(along[~varies]).max(initial=0.0) > 1e-9:
        return float(2.0 ** (1 - groups))  # the same in all groups: a sign test
    rank = int(varies.sum())
    if not rank:
        return 1.0
    squared = float((along[varies] ** 2 / scales[varies]).sum())
    return float(fdtrc(rank, groups - rank, squared * (groups - rank) / (rank * (groups - 1))))
