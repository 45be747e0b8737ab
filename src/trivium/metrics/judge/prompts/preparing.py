"""Preparing: what is sent to a judge for some dimensions of one attempt, and how its answer is read."""

from collections.abc import Sequence

import msgspec

from trivium.metrics.judge.prompts.answer import Answer, Schema, parse, schema
from trivium.metrics.judge.prompts.prompt import instructions
from trivium.metrics.judge.prompts.shown import fenced
from trivium.metrics.judge.rubrics.scoring import likert_values
from trivium.suites.rubrics.rubric import Dimension, Rubric
from trivium.suites.settings import JudgeSettings


class Prepared(msgspec.Struct, frozen=True, kw_only=True):
    """One request, before a model is chosen for it.

    Attributes:
        dimensions: What the answer is about.
        instructions: Of the judge; nothing that is judged is in them.
        body: What is judged, fenced.
        texts: What is judged, by name, as it is shown; evidence is looked up in it.
        schema: JSON schema of the answer.
        scores: The values that a Likert criterion may have, rising.
    """

    dimensions: tuple[Dimension, ...]
    instructions: str
    body: str
    texts: dict[str, str]
    schema: Schema
    scores: tuple[float, ...]

    def parse(self, text: str) -> dict[str, Answer]:
        """The answer to each dimension.

        Raises:
            MalformedAnswer: If the text is not what was asked for.
        """
        return parse(text, self.dimensions, self.scores)


def prepare(
    rubric: Rubric, due: Sequence[Dimension], texts: dict[str, str], settings: JudgeSettings
) -> list[Prepared]:
    """The requests that are due for one attempt: one, or one a dimension (``judge.together: false``).

    Args:
        rubric: Whose dimensions they are.
        due: Those that have something to look at.
        texts: What there is to show, by name.
        settings: The suite's.
    """
    scores = likert_values(rubric.step or settings.step)
    asked = [tuple(due)] if settings.together else [(dimension,) for dimension in due]
    return [_prepared(dimensions, texts, scores) for dimensions in asked]


def _prepared(
    dimensions: tuple[Dimension, ...], texts: dict[str, str], scores: tuple[float, ...]
) -> Prepared:
    seen: set[str] = {name for dimension in dimensions for name in dimension.sees}
    visible = {name: text for name, text in texts.items() if name in seen}
    return Prepared(
        dimensions=dimensions,
        instructions=instructions(dimensions, scores),
        body=fenced(visible),
        texts=visible,
        schema=schema(dimensions, scores),
        scores=scores,
    )
