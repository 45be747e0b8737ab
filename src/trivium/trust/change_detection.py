"""Detects that a mean has fallen below a reference by more than a tolerance, with rare false alarms.

An e-detector (Shin, Ramdas & Rinaldo 2024) of Shiryaev-Roberts type. With every value a new gambler starts,
who bets that values lie below the limit from then on; the evidence is the total capital of the gamblers. As
long as the mean is at or above the limit nobody expects to win, so the evidence is not expected to grow
faster than new capital comes in, and the mean time until it reaches a level is at least that level. After a
change the capital of those who started then grows exponentially.

Nothing is estimated but the reference: no variance, no model of the values, no assumption on when the change
comes or how large it is.
"""

from collections.abc import Mapping
from math import isfinite
from typing import Any

import msgspec

from trivium.errors import TrustError
from trivium.trust.gamblers import MOST, STAKES, ClusterWeight, Gamblers

_STATE_VERSION = 1


class ChangeDetector:
    """Watches values in [0, 1] for a fall of their mean below ``reference`` - ``tolerance``.

    Definition: docs/definitions/monitoring.md#change.

    Let L be that limit, w the weight of a value x (see :mod:`trivium.trust.level_sequence`) and dt the
    time since the value before. Each stake f multiplies its evidence by a factor of mean at most 1:

        M_f ← (M_f + dt / k) · (1 + f w (L - x) / (1 - L))

    with k stakes, all starting at 0. The evidence is the sum M. While the mean of each value, given the past,
    is at least L, M minus the time elapsed is a supermartingale; so if T is the time of the first M >= A,
    A <= E[M] <= E[T]. Where the true mean is above L by a margin, false alarms are much rarer still.

    Values of one session are not independent: give their weighted mean and the sum of their weights, one bet
    a cluster. For a figure that should not rise give 1 - x. The reference must be known, or a lower
    confidence bound of the mean before: see :func:`~trivium.trust.weighted_means.reference_level`.

    Attributes:
        reference: The mean that is expected, in [0, 1].
        tolerance: A fall by at most this is no change.
        mean_time_between_false_alarms: Lower bound of the mean time to a false alarm, in the unit of
            ``elapsed``.
        limit: ``reference`` - ``tolerance``, in (0, 1).
        n: Number of values since the beginning or the last :meth:`reset`.
        elapsed: Time since then, up to the last value.
    """

    def __init__(self, reference: float, tolerance: float, mean_time_between_false_alarms: float) -> None:
        """Begin to watch.

        Args:
            reference: In [0, 1].
            tolerance: At least 0, and such that the limit lies in (0, 1).
            mean_time_between_false_alarms: Above 0, in the unit of ``elapsed``: samples, hours or days.

        Raises:
            TrustError: If an argument is out of range.
        """
        limit = reference - tolerance
        if not 0 <= reference <= 1:
            raise TrustError(f"reference must lie in [0, 1]; found {reference}")
        if not (tolerance >= 0 and 0 < limit < 1):
            raise TrustError(
                "tolerance must be at least 0 and leave a limit (reference - tolerance) between 0 and 1; "
                f"found {tolerance}, with the reference {reference}"
            )
        if not (isfinite(mean_time_between_false_alarms) and mean_time_between_false_alarms > 0):
            raise TrustError(
                f"mean_time_between_false_alarms must be above 0; found {mean_time_between_false_alarms}"
            )
        self.reference, self.tolerance, self.limit = float(reference), float(tolerance), limit
        self.mean_time_between_false_alarms = float(mean_time_between_false_alarms)
        self.reset()

    def reset(self) -> None:
        """Forget all values, as after a deployment or an alarm that was dealt with."""
        self.n, self.elapsed = 0, 0.0
        self._scale = ClusterWeight()
        self._gamblers = Gamblers.none()

    def update(self, value: float, elapsed: float = 1.0, weight: float = 1.0) -> bool:
        """Add a value.

        Args:
            value: In [0, 1]; the weighted mean of a cluster, if values come in clusters.
            elapsed: Time since the value before (or the beginning), at least 0; 1 counts values. It must not
                depend on the value.
            weight: Smallest sampling probability of the rules divided by that of the value; the sum of these
                over a cluster. Above 0; see :class:`~trivium.trust.gamblers.ClusterWeight`.

        Returns:
            Whether there is an alarm now: the evidence has reached ``mean_time_between_false_alarms``.

        Raises:
            TrustError: If an argument is out of range.
        """
        if not 0 <= value <= 1:
            raise TrustError(f"a value must lie in [0, 1]; found {value}")
        if not 0 <= elapsed < MOST:
            raise TrustError(f"elapsed must be a time of at least 0; found {elapsed}")
        weight = self._scale.scaled(weight)
        self.n += 1
        self.elapsed += elapsed
        brought = [elapsed / len(STAKES)] * len(STAKES)
        gamblers = self._gamblers
        self._gamblers = gamblers.bet(self.limit, value, weight, brought=brought, time=self.elapsed)
        return self.alarm

    @property
    def evidence(self) -> float:
        """The evidence for a fall, in the unit of ``elapsed``; at least 0."""
        return self._gamblers.capital

    @property
    def alarm(self) -> bool:
        """Whether the evidence has reached ``mean_time_between_false_alarms``."""
        return self.evidence >= self.mean_time_between_false_alarms

    @property
    def since(self) -> float | None:
        """When the fall probably began, on the axis of ``elapsed``: the start of the best product of factors.

        ``elapsed`` - ``since`` is how long ago that was at the last value. None if no start gives evidence.
        """
        return self._gamblers.since

    def to_state(self) -> dict[str, Any]:
        """What :meth:`from_state` needs, as plain values that JSON can hold; about 500 bytes."""
        return {
            "version": _STATE_VERSION,
            "reference": self.reference,
            "tolerance": self.tolerance,
            "mean_time_between_false_alarms": self.mean_time_between_false_alarms,
            "n": self.n,
            "elapsed": self.elapsed,
            "largest_weight": self._scale.largest,
            **msgspec.to_builtins(self._gamblers),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> "ChangeDetector":
        """Go on where :meth:`to_state` left off, with the same figures.

        Raises:
            TrustError: If the state is not one of this version.
        """
        try:
            if state["version"] != _STATE_VERSION:
                raise ValueError(f"version {state['version']}")
            detector = cls(state["reference"], state["tolerance"], state["mean_time_between_false_alarms"])
            detector.n, detector.elapsed = int(state["n"]), float(state["elapsed"])
            detector._scale = ClusterWeight(float(state["largest_weight"]))
            detector._gamblers = msgspec.convert(state, Gamblers)
        except (KeyError, TypeError, ValueError, msgspec.ValidationError) as error:
            raise TrustError(f"not the state of a ChangeDetector: {error}") from error
        return detector
