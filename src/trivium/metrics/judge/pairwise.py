"""Builds the rubric that compares two outputs.

For each dimension about an output the judge names the better of the two, and finally the better one overall.
The rubric is judged like any other: delimited, retried, sampled, by one judge or a panel.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from trivium.agents.attempt import Attempt
from trivium.metrics.metric import MetricInput
from trivium.suites.rubrics.rubric import Dimension, Level, Rubric


class Pair(MetricInput, frozen=True, kw_only=True):
    """Two attempts to compare: ``attempt`` is shown first, then ``second``."""

    second: Attempt


LEVELS: dict[str, float | Level] = {
    "first": Level(
        value=1.0, means="The first output is better, by a difference that a reader would notice."
    ),
    "tie": Level(value=0.5, means="Neither is better, or what one has ahead the other has elsewhere."),
    "second": Level(
        value=0.0, means="The second output is better, by a difference that a reader would notice."
    ),
}
OVERALL = "overall"

INSTRUCTIONS = """\
Two outputs for the same input stand below, called first and second. For each dimension say which of them is
better: first, second, or tie where neither is. Compare what they say, not how much: a longer output is not
better for that. Their order was drawn by lot and tells nothing; judge as if you saw them the other way round.
An empty output loses against one that is not. For each dimension:
- evidence: quote what your judgement rests on, word for word from the texts you were shown, a few words
  to two sentences each; at most five quotes. No quote is better than one that is not there.
- reason: explain before you decide.
- answer null when the texts do not hold enough to tell. Do not guess.
- confidence: how sure you are, from 1 (a guess) to 5 (certain).

Rubric
{rubric}"""

_PROCESS = frozenset({"trace", "workflow"})


def pairwise_rubric(rubrics: Sequence[Rubric]) -> Rubric | None:
    """Build the rubric for comparing two outputs; None if no dimension concerns an output.

    Args:
        rubrics: Rubrics whose dimensions are compared. Dimensions about the process are left out, because an
            output does not show it.
    """
    chosen = [
        (rubric, dimension)
        for rubric in rubrics
        for dimension in rubric.dimensions
        if "output" in dimension.sees and not _PROCESS & set(dimension.needs)
    ]
    if not chosen:
        return None
    names = [dimension.name for _, dimension in chosen]
    dimensions = [
        _compared(dimension, rubric if names.count(dimension.name) > 1 else None)
        for rubric, dimension in chosen
    ]
    if OVERALL not in names:
        seen = dict.fromkeys(name for dimension in dimensions for name in dimension.sees)
        asks = "Which is better in all, by what the input asks for and by everything above."
        dimensions.append(_levelled(name=OVERALL, asks=asks, sees=tuple(seen)))
    return Rubric(name="pairs", dimensions=tuple(dimensions), instructions=INSTRUCTIONS)


def _compared(dimension: Dimension, rubric: Rubric | None) -> Dimension:
    """Turn a dimension into one about two outputs; ``rubric`` prefixes its name if that is not unique."""
    named = [f"{each.name}: {each.asks}" for each in dimension.criteria]
    shown = [name for name in dimension.sees if name != "output" and name not in _PROCESS]
    return _levelled(
        name=dimension.name if rubric is None else f"{rubric.name}_{dimension.name}",
        asks=" ".join([dimension.asks, *(["That is,"] if named else []), "; ".join(named)]).strip(),
        sees=(*shown, "first", "second"),
        needs=dimension.needs,
    )


def _levelled(**fields: Any) -> Dimension:
    # Files may not use the names "first" and "second", so Dimension's own checks would reject them.
    return msgspec.structs.replace(
        Dimension(name=fields["name"], asks=fields["asks"], levels=LEVELS), **fields
    )
