"""Scores of metrics from outside: whatever their code gives back, what enters is a score or an error."""

import math
from collections.abc import Sequence
from typing import Any

import msgspec

from trivium.agents.adapter import AgentFailure
from trivium.agents.admission import admit
from trivium.agents.failing import shown
from trivium.metrics.metric import Metric
from trivium.metrics.score import STATUSES, Score

LARGEST_DETAIL = 1_000_000
"""Bytes of JSON that ``raw`` and ``detail`` of a score may have, each."""

ROUNDING = 1e-9
"""How far past 0 or 1 a value may lie by rounding; it is then 0 or 1."""


def is_from_outside(metric: Metric) -> bool:
    """Whether a metric's class is none of Trivium's own."""
    return type(metric).__module__.partition(".")[0] != "trivium"


def admitted(metric: Metric, scores: Any, count: int) -> list[Score]:
    """Scores as they may be stored; one that may not be is an error in its place.

    Args:
        metric: Whose scores they are.
        scores: What its ``score_many`` gave back.
        count: How many there should be.

    Raises:
        TypeError: If they are not that many.
    """
    if not isinstance(scores, Sequence) or len(scores) != count:
        found = f"{len(scores)} scores" if isinstance(scores, Sequence) else _kind(scores)
        raise TypeError(f"score_many gave {found}, expected a list of {count}")
    return [_admitted(metric, score) for score in scores]


def _admitted(metric: Metric, score: Any) -> Score:
    if not isinstance(score, Score):
        return metric.error(f"gave {_kind(score)}, expected a Score")
    try:
        return msgspec.structs.replace(
            score,
            name=metric.name,
            tier=metric.tier,
            value=_value(score),
            raw=admit(score.raw, limit=LARGEST_DETAIL, called="raw")[0],
            detail=admit(score.detail, limit=LARGEST_DETAIL, called="detail")[0],
            reason=None if score.reason is None else shown(str(score.reason)),
            method=None if score.method is None else shown(str(score.method)),
        )
    except (AgentFailure, ValueError) as error:
        return metric.error(shown(str(error)))


def _value(score: Score) -> float | None:
    if score.status not in STATUSES:
        raise ValueError(f'the status is "{score.status}", expected one of {", ".join(STATUSES)}')
    if score.status not in {"ok", "fallback"}:
        return None
    value: Any = score.value
    if value is None and score.raw is not None and score.raw != [None]:
        return None  # a figure that is reported, not scored
    try:
        number = float(value) if not isinstance(value, str | bytes) else math.nan
    except (TypeError, ValueError):
        number = math.nan
    if not -ROUNDING <= number <= 1 + ROUNDING:
        raise ValueError(
            f"the value is {value!r:.40}, expected a number in [0, 1] (other figures belong into raw)"
        )
    return min(1.0, max(0.0, number))


def _kind(found: Any) -> str:
    return f"something of type {type(found).__name__}"
