"""Outlines: as much of a record as a summary needs; the rest is skipped where it is read."""

from typing import Any

import msgspec

from trivium.metrics.composite import Composite
from trivium.metrics.score import Status, Tier


class CaseOutline(msgspec.Struct, frozen=True, kw_only=True):
    """As much of a case as tells its cluster."""

    id: str
    group: str | None = None


class ScoreOutline(msgspec.Struct, frozen=True, kw_only=True):
    """A score without its name, which is its key, and without its detail. Fields are those of a Score."""

    tier: Tier
    value: float | None = None
    status: Status = "ok"
    raw: Any = None
    reason: str | None = None
    method: str | None = None


class Outline(msgspec.Struct, frozen=True, kw_only=True):
    """An evaluation without details. Fields are those of an Evaluation."""

    case: str
    repeat: int
    scores: dict[str, ScoreOutline]
    composite: Composite
    passed: bool | None = None
    failed: str | None = None
