"""Score: one figure about one attempt, never silently made up (spec: metrics, statuses)."""

from typing import Any, Literal, Protocol

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
        missing: Whether a skipped score was due: the metric applies, and what it needs could not be had
            (no judge answered, and ``on_failure`` is ``skip``).
    """

    name: str
    tier: Tier
    value: float | None = None
    status: Status = "ok"
    raw: Any = None
    reason: str | None = None
    method: str | None = None
    detail: dict[str, Any] = {}
    missing: bool = False

    @property
    def has_value(self) -> bool:
        """Whether there is a number that may enter an average."""
        return self.value is not None

    @property
    def shown(self) -> Any:
        """Which of the texts that it rests on were shown to a judge in part, and how much of them."""
        return self.detail.get("shown")


class ScoreLike(Protocol):
    """What a score and its outline have in common; see :class:`Score`."""

    @property
    def tier(self) -> str:
        """text, judge or trace."""

    @property
    def value(self) -> float | None:
        """In [0, 1], or None."""

    @property
    def status(self) -> str:
        """ok, fallback, abstained, skipped or error."""

    @property
    def missing(self) -> bool:
        """Whether a skipped score was due."""


def stands_in(score: ScoreLike) -> bool:
    """Whether the value stands in for a judgement: another quantity, which decides nothing."""
    return score.tier == "judge" and score.status == "fallback"


def is_unavailable(score: ScoreLike) -> bool:
    """Whether it was due and is not there because of an error, or because no judge could be had."""
    return score.status == "error" or score.missing or stands_in(score)


def is_missing(score: ScoreLike) -> bool:
    """Whether it was due and is not there, for whatever reason (spec: metrics, "What was due …")."""
    return score.status == "abstained" or is_unavailable(score)
