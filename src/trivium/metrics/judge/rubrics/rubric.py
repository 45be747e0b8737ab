"""Rubric: the dimensions that a judge scores, and their scales (spec: metrics, T2.1)."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

Name = Annotated[str, Meta(pattern=r"^[A-Za-z][A-Za-z0-9_]*$")]
Weight = Annotated[float, Meta(gt=0)]
Share = Annotated[float, Meta(ge=0, le=1)]

Seen = Literal["input", "output", "source", "references", "facts", "sources", "aspects", "workflow", "trace"]
"""What a dimension may look at; what a case or an attempt does not have is left out."""

LEVELS: dict[str, float] = {"excellent": 1.0, "good": 0.8, "acceptable": 0.6, "poor": 0.3, "failed": 0.0}

PASS_MARK = 0.7
LIKERT_MOST = 5


class Criterion(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One thing that a Likert dimension is scored by.

    Attributes:
        name: How the answer calls it.
        asks: What the judge is to look for.
        weight: Share of the dimension's score, rescaled over its criteria.
    """

    name: Name
    asks: str
    weight: Weight = 1.0


class Dimension(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One thing that is judged and has a score.

    Attributes:
        name: How metrics call it.
        asks: What it is about.
        criteria: Scored 1 to 5 each; a dimension without criteria is scored by one of its levels.
        levels: Names of levels and their values, in [0, 1].
        claims: Whether the output's claims are extracted and verified instead (T2.4).
        sees: What the judge is shown for it.
        needs: What must be there, one of them at least; without it the dimension is skipped.
        weight: Share of the rubric's overall score.
    """

    name: Name
    asks: str
    criteria: tuple[Criterion, ...] = ()
    levels: dict[str, Share] = msgspec.field(default_factory=lambda: dict(LEVELS))
    claims: bool = False
    sees: tuple[Seen, ...] = ("input", "output")
    needs: tuple[Seen, ...] = ()
    weight: Weight = 1.0


class Rubric(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Dimensions that are judged together, in one request.

    Attributes:
        name: How metrics call it: ``name.dimension``.
        dimensions: At least one.
    """

    name: Name
    dimensions: Annotated[tuple[Dimension, ...], Meta(min_length=1)]
