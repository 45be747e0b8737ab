"""Score: one figure about one attempt, never silently made up (spec: metrics, statuses)."""

from typing import Any, Literal

import msgspec

Tier = Literal["text", "judge", "trace"]
Status = Literal["ok", "fallback", "abstained", "skipped", "error"]
STATUSES: tuple[Status, ...] = ("ok", "fallback", "abstained", "skipped", "error")


class Score(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One figure about one attempt.

    Attributes:
        name: The metric.
        tier: text, judge or trace.
        value: In [0, 1], higher is better; None unless status is ok or fallback. An ``ok`` score
            without value is a figure that is reported, not scored.
        status: ok, fallback, abstained, skipped or error.
        raw: The figure in its natural unit.
        reason: Why it is not ok.
        method: What was used when it was not the defined way, or which of several ways it was.
        detail: Anything a report may show.
    """

    name: str
    tier: Tier
    value: float | None = None
    status: Status = "ok"
    raw: Any = None
    reason: str | None = None
    method: str | None = None
    detail: dict[str, Any] = {}

    @property
    def has_value(self) -> bool:
        """Whether there is a number that may enter an average."""
        return self.value is not None
