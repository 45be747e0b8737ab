"""Bets on a stream of values: gamblers who bet on a fall from some time on, and the weight of a bet.

As long as the mean of each value, given the past, is at least the limit, no gambler expects to win. So the
expected capital of all is at most what they brought, whenever one looks, and whatever the values look like.
"""

from collections.abc import Mapping, Sequence
from math import inf
from typing import Any

from trivium.errors import TrustError

STAKES = (0.02, 0.04, 0.08, 0.16, 0.32, 0.64)
"""Shares of the capital that are lost with a value of 1 and weight 1. A pass rate that falls to d below the
limit is noticed earliest with a share of about d / limit; so these are for falls from 0.02 upwards."""

MOST = 1e300
"""Capital above this is left out, which only lowers the evidence, so that it stays a finite number."""

LARGEST_CLUSTER = 20.0
"""Clusters of a larger weight count as if they had this one, lest a giant make all others tiny."""


class ClusterWeight:
    """Scales the weights of bets so that none is above 1, by what was met before.

    The weight of a cluster is the sum of the weights of its values, since only the sum has the right mean
    whatever the sampling rules: divided by the number of sampled values it would depend on the outcomes. A
    sum must be bounded to be staked. The bound is the largest weight of the bets before, at least 1; it is
    known before the value, so the promises hold. Only a cluster that exceeds all earlier ones is cut.

    Attributes:
        largest: The bound of the next weight, from 1 to ``LARGEST_CLUSTER``.
    """

    def __init__(self, largest: float = 1.0) -> None:
        self.largest = largest

    def scaled(self, weight: float) -> float:
        """The weight to stake, in (0, 1].

        Raises:
            TrustError: If the weight is not above 0 and finite.
        """
        if not 0 < weight < inf:
            raise TrustError(f"a weight must be above 0 and finite; found {weight}")
        staked = min(1.0, weight / self.largest)
        self.largest = max(self.largest, min(weight, LARGEST_CLUSTER))
        return staked


class Gamblers:
    """The capital of gamblers who start one after the other, for each of the stakes.

    With a stake f a value x of weight w multiplies the capital by 1 + f w (limit - x) / (1 - limit), which is
    above 0 since w <= 1, and is 1 on average if the mean of x is the limit.

    Attributes:
        limit: In (0, 1).
    """

    def __init__(self, limit: float) -> None:
        """Begin without any gambler."""
        self.limit = limit
        self._per_unit = tuple(stake / (1 - limit) for stake in STAKES)
        self._capital = [0.0] * len(STAKES)
        self._best = [0.0] * len(STAKES)  # largest product of factors up to now over all starts
        self._start = [0.0] * len(STAKES)  # time of the first value of that product

    def bet(self, value: float, weight: float, *, brought: Sequence[float], time: float) -> None:
        """Let new gamblers in, and let everyone bet on a value.

        Args:
            value: In [0, 1].
            weight: In (0, 1].
            brought: What the new gamblers of each stake bring; known before the value.
            time: Time of the value.
        """
        gain = weight * (self.limit - value)
        factors = [1 + stake * gain for stake in self._per_unit]
        self._capital = [
            min((capital + new) * factor, MOST)
            for capital, new, factor in zip(self._capital, brought, factors, strict=True)
        ]
        self._start = [
            start if best > 1 else time for start, best in zip(self._start, self._best, strict=True)
        ]
        self._best = [
            min(max(best, 1.0) * factor, MOST) for best, factor in zip(self._best, factors, strict=True)
        ]

    @property
    def capital(self) -> float:
        """What all gamblers have."""
        return sum(self._capital)

    @property
    def since(self) -> float | None:
        """Return the start time of the gambler with the largest gain; None if none has gained."""
        place = max(range(len(STAKES)), key=self._best.__getitem__)
        return self._start[place] if self._best[place] > 1 else None

    def to_state(self) -> dict[str, Any]:
        """What :meth:`from_state` needs, as plain values that JSON can hold."""
        return {"capital": list(self._capital), "best": list(self._best), "start": list(self._start)}

    @classmethod
    def from_state(cls, limit: float, state: Mapping[str, Any]) -> "Gamblers":
        """Continue from a state.

        Raises:
            KeyError, TypeError, ValueError: If it is not one.
        """
        gamblers = cls(limit)
        for name in ("capital", "best", "start"):
            numbers = [float(number) for number in state[name]]
            if len(numbers) != len(STAKES):
                raise ValueError(f"{name} has {len(numbers)} entries, not {len(STAKES)}")
            setattr(gamblers, f"_{name}", numbers)
        return gamblers
