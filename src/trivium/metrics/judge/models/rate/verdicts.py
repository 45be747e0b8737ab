"""Verdicts: of which requests it is known whether they were let through, in the order of sending."""

from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from trivium.metrics.judge.models.rate.beliefs import Vector

Fate = Literal["open", "admitted", "rejected"]

OFFS = 7
"""Differences of which one of the smaller counts: busy moments make others large."""

MARGIN = 0.005
"""Seconds on top of what a refusal usually takes."""


class Sent:
    """A request under way: when it was let go, with how many others, and whether it was turned away."""

    __slots__ = ("blocked", "due", "fate", "in_flight", "judged", "left", "time", "told")

    def __init__(self, time: float, in_flight: int) -> None:
        self.time = self.due = time
        self.left: float | None = None
        """When it went out."""
        self.in_flight = in_flight
        self.fate: Fate = "open"
        self.judged = False
        self.blocked: Vector | None = None
        """How likely each limit was held to refuse it, until that is weighed."""
        self.told: float | None = None
        """Time until which a refusal asks to be left alone."""


class Verdicts:
    """Requests until it is known what became of them.

    Refusals are heard of before answers, so that to take each as it comes would make refusals seem frequent.
    A request that was not refused in the time that refusals take counts as let through.
    """

    def __init__(self) -> None:
        self._waiting: deque[Sent] = deque()
        self._took: float | None = None
        self._spread = 0.0
        self._before = 0.0
        self._offs: deque[float] = deque(maxlen=OFFS)

    @property
    def usual(self) -> float:
        """Seconds that a refusal usually takes to be heard of; 0 while none was."""
        return self._took or 0.0

    @property
    def hearing(self) -> float:
        """Seconds within which a refusal is heard of; 0 while none was."""
        return 0.0 if self._took is None else self._took + 4 * self._spread + MARGIN

    def sent(self, sent: Sent) -> None:
        """A request leaves."""
        self._waiting.append(sent)

    def heard(self, took: float) -> float:
        """A refusal took so many seconds; by how many those of late differ.

        Two that follow one another differ by chance alone, while all those of the first moments, when much is
        done at once, are slow.
        """
        if self._took is None:
            self._took, self._spread = took, took / 8
        else:
            self._offs.append(abs(took - self._before))
            self._spread += 0.25 * (abs(took - self._took) - self._spread)
            self._took += 0.125 * (took - self._took)
        self._before = took
        return sorted(self._offs)[len(self._offs) // 4] if self._offs else 0.0

    def until_known(self, now: float) -> float:
        """Seconds until it is known of the first that is not yet judged."""
        if not self._waiting:
            return 0.0
        left = self._waiting[0].left
        return self.hearing if left is None else max(0.0, left + self.hearing - now)

    def due(self, now: float) -> Iterator[Sent]:
        """Those of which it is known by now, once each."""
        waiting = self._waiting
        hearing = None if self._took is None else self.hearing
        while waiting:
            first = waiting[0]
            if first.fate == "open" and (hearing is None or first.left is None or now - first.left < hearing):
                return
            waiting.popleft()
            first.judged = True
            yield first
