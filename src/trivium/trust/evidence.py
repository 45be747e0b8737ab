"""How strongly accepted verdicts speak against an error above a limit (spec: metrics, H.3)."""

from math import ceil, floor, log, log1p
from typing import Protocol

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq
from scipy.special import bdtr, betaincinv

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

STAKES = np.linspace(0.05, 1.0, 20)
"""Shares of the largest bet that cannot ruin a bettor more than once; the capital is the mean over them."""


class Evidence(Protocol):
    """Gathers accepted verdicts and tests whether the error among verdicts like them is above a limit."""

    method: str

    def accept(self, codes: Ints, wrong: Floats) -> None:
        """Add accepted verdicts: the group of each, and 1 where it is wrong, else 0; both of shape (k,)."""

    def log_p(self, copies: float = 1) -> float:
        """Log of the p-value of "the error is above the limit", at most 0.

        Args:
            copies: Had there been so many times the verdicts, with errors at the same rate; at least 1.
        """

    def bound(self, delta: float) -> float:
        """The smallest limit whose p-value is at most ``delta``, in [0, 1]; needs an accepted verdict."""


class ExactBinomial:
    """One verdict a group: the chance of so few errors, were each verdict wrong with the limit's chance."""

    method = "exact binomial"

    def __init__(self, epsilon: float) -> None:
        self._epsilon, self._taken, self._lost = epsilon, 0, 0

    def accept(self, codes: Ints, wrong: Floats) -> None:
        """See ``Evidence``."""
        self._taken += codes.size
        self._lost += int(wrong.sum())

    def log_p(self, copies: float = 1) -> float:
        """See ``Evidence``."""
        lost, taken = ceil(self._lost * copies), floor(self._taken * copies)
        if lost == 0:
            return taken * log1p(-self._epsilon)
        tail = float(bdtr(lost, taken, self._epsilon))
        return log(tail) if tail else -np.inf

    def bound(self, delta: float) -> float:
        """See ``Evidence``."""
        if self._lost == self._taken:
            return 1.0
        return float(betaincinv(self._lost + 1, self._taken - self._lost, 1 - delta))


class Clustered:
    """Several verdicts a group: groups are independent, verdicts of one group need not be.

    With at most ``size`` verdicts a group, (errors + limit · (size - accepted)) / size lies in [0, 1], and
    its mean over groups is at most the limit exactly where the error among accepted verdicts is.
    """

    def __init__(self, epsilon: float, *, groups: int, size: int) -> None:
        self._epsilon, self._size = epsilon, size
        self._taken, self._lost = np.zeros(groups), np.zeros(groups)

    def accept(self, codes: Ints, wrong: Floats) -> None:
        """See ``Evidence``."""
        np.add.at(self._taken, codes, 1)
        np.add.at(self._lost, codes, wrong)

    def bound(self, delta: float) -> float:
        """See ``Evidence``."""

        def excess(limit: float) -> float:  # falls as the limit rises
            return self._log_p_of(limit) - log(delta)

        lowest, highest = 1e-12, 1 - 1e-9
        return 1.0 if excess(highest) > 0 else float(brentq(excess, lowest, highest, xtol=1e-9))

    def log_p(self, copies: float = 1) -> float:
        """See ``Evidence``."""
        return self._log_p_of(self._epsilon, copies)

    def _log_p_of(self, limit: float, copies: float = 1) -> float:
        raise NotImplementedError


class Hoeffding(Clustered):
    """Hoeffding's inequality on the group means."""

    method = "hoeffding"

    def _log_p_of(self, limit: float, copies: float = 1) -> float:
        gain = float((limit * self._taken - self._lost).mean()) / self._size
        return -2 * copies * self._taken.size * gain**2 if gain > 0 else 0.0


class Betting(Clustered):
    """Bets against the error being above the limit (Waudby-Smith and Ramdas 2024).

    Starting with 1, a bettor stakes a fixed share on each group's mean lying below the limit. Were the error
    above the limit, the expected capital would be at most 1, so it reaches 1 / p with a chance of at most p
    (Markov), whatever the order of the groups. The capital is the mean over a grid of stakes.
    """

    method = "betting"

    def __init__(self, epsilon: float, *, groups: int, size: int) -> None:
        super().__init__(epsilon, groups=groups, size=size)
        self._terms = np.zeros((groups, STAKES.size))
        self._sums = np.zeros(STAKES.size)

    def accept(self, codes: Ints, wrong: Floats) -> None:
        """See ``Evidence``."""
        super().accept(codes, wrong)
        touched = np.unique(codes)
        fresh = self._log_growth(self._epsilon, touched)
        self._sums += (fresh - self._terms[touched]).sum(axis=0)
        self._terms[touched] = fresh

    def log_p(self, copies: float = 1) -> float:
        """See ``Evidence``."""
        return _log_p_of_capital(copies * self._sums)

    def _log_p_of(self, limit: float, copies: float = 1) -> float:
        growth = self._log_growth(limit, np.arange(self._taken.size)).sum(axis=0)
        return _log_p_of_capital(copies * growth)

    def _log_growth(self, limit: float, at: Ints) -> Floats:
        """Log of the factor by which each group changes the capital at each stake."""
        gain = (limit * self._taken[at] - self._lost[at]) / (self._size * (1 - limit))
        gain = np.maximum(gain, -1)  # where rounding says that more than all is lost
        with np.errstate(divide="ignore"):  # a group that is all wrong ruins whoever staked all
            return np.asarray(np.log1p(gain[:, None] * STAKES), dtype=np.float64)


def _log_p_of_capital(log_capitals: Floats) -> float:
    return min(0.0, float(log(STAKES.size) - np.logaddexp.reduce(log_capitals)))
