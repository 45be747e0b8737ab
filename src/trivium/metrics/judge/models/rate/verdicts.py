"""Verdicts: of which requests it is known whether they were let through, in the order of sending."""

from collections import deque
from collections.abc import Iterator
from typing import Literal

Fate = Literal["open", "admitted", "rejected"]

MARGIN = 0.005
"""Seconds on top of what a refusal usually takes."""

DOUBTFUL = 4
"""Refusals that are judged before more is sent."""


class Sent:
    """A request under way: when it was sent, and whether it was turned away for being one too many."""

    __slots__ = ("epoch", "fate", "judged", "time")

    def __init__(self, time: float, epoch: int) -> None:
        self.time = time
        self.epoch = epoch
        self.fate: Fate = "open"
        self.judged = False


class Verdicts:
    """Requests until it is known what became of them.

    Refusals are heard of before answers, so that to take each as it comes would make refusals seem frequent.
    A request that was not refused in the time that refusals take counts as let through.
    """

    def __init__(self) -> None:
        self._waiting: deque[Sent] = deque()
        self._took: float | None = None
        self._spread = 0.0

    @property
    def hearing(self) -> float:
        """Seconds within which a refusal is heard of; 0 while none was."""
        return 0.0 if self._took is None else self._took + 4 * self._spread + MARGIN

    def sent(self, now: float, epoch: int) -> Sent:
        """A request leaves."""
        sent = Sent(now, epoch)
        self._waiting.append(sent)
        return sent

    def heard(self, took: float) -> None:
        """A refusal took so many seconds."""
        if self._took is None:
            self._took, self._spread = took, took / 8
        else:
            self._spread += 0.25 * (abs(took - self._took) - self._spread)
            self._took += 0.125 * (took - self._took)

    def doubtful(self, share: float) -> bool:
        """Whether so many of those not yet judged were refused that it is better to judge them first."""
        refused = sum(each.fate == "rejected" for each in self._waiting) if self._took is not None else 0
        return refused >= DOUBTFUL and refused > share * len(self._waiting)

    def until_known(self, now: float) -> float:
        """Seconds until it is known of the first that is not yet judged."""
        return max(0.0, self._waiting[0].time + self.hearing - now) if self._waiting else 0.0

    def due(self, now: float) -> Iterator[Sent]:
        """Those of which it is known by now, once each."""
        waiting = self._waiting
        hearing = None if self._took is None else self.hearing
        while waiting:
            first = waiting[0]
            if first.fate == "open" and (hearing is None or now - first.time < hearing):
                return
            waiting.popleft()
            first.judged = True
            yield first
