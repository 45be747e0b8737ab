"""Bets on a stream of values: gamblers who bet on a fall from some time on, and the weight of a bet.

As long as the mean of each value, given the past, is at least the limit, no gambler expects to win. So the
expected capital of all is at most what they brought, whenever one looks, and whatever the values look like.
"""

from collections.abc import Sequence
from math import inf
from typing import Annotated, Self

import msgspec

from trivium.errors import TrustError
from trivium.values import resolved

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


Numbers = Annotated[list[float], msgspec.Meta(min_length=len(STAKES), max_length=len(STAKES))]
"""One for each stake."""


@resolved
class Gamblers(msgspec.Struct, frozen=True):
    """The capital of gamblers who start one after the other, for each of the stakes.

    With a stake f a value x of weight w multiplies the capital by 1 + f w (limit - x) / (1 - limit), which is
    above 0 since w <= 1, and is 1 on average if the mean of x is the limit.

    Attributes:
        capitals: What those of each stake have.
        best: The largest product of factors up to now over all starts.
        start: Time of the first value of that product.
    """

    capitals: Numbers = msgspec.field(name="capital")
    best: Numbers
    start: Numbers

    @classmethod
    def none(cls) -> Self:
        """Begin without any gambler."""
        return cls(*([0.0] * len(STAKES) for _ in range(3)))

    def bet(
        self, limit: float, value: float, weight: float, *, brought: Sequence[float], time: float
    ) -> Self:
        """Let new gamblers in, and let everyone bet on a value; return what they have then.

        Args:
            limit: In (0, 1); always the same one.
            value: In [0, 1].
            weight: In (0, 1].
            brought: What the new gamblers of each stake bring; known before the value.
            time: Time of the value.
        """
        gain = float(weight * (limit - value))
        factors = [1 + stake / (1 - limit) * gain for stake in STAKES]
        entries = zip(self.capitals, brought, factors, strict=True)
        return type(self)(
            capitals=[min((capital + new) * factor, MOST) for capital, new, factor in entries],
            best=[min(max(best, 1.0) * each, MOST) for best, each in zip(self.best, factors, strict=True)],
            start=[start if best > 1 else time for start, best in zip(self.start, self.best, strict=True)],
        )

    @property
    def capital(self) -> float:
        """What all gamblers have."""
        return sum(self.capitals)

    @property
    def since(self) -> float | None:
        """Return the start time of the gambler with the largest gain; None if none has gained."""
        place = max(range(len(STAKES)), key=self.best.__getitem__)
        return self.start[place] if self.best[place] > 1 else None
