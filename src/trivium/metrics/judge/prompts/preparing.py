"""Preparing: what is sent to a judge for some dimensions of one attempt, and how its answer is read."""

from collections.abc import Collection, Mapping, Sequence
from hashlib import blake2b

import msgspec

from trivium.metrics.judge.prompts.answer import Answer, Schema, parse, schema
from trivium.metrics.judge.prompts.fence import between_marks, code_of, harmless
from trivium.metrics.judge.prompts.prompt import MATERIAL, instructions
from trivium.metrics.judge.rubrics.scoring import likert_values
from trivium.suites.case import Case
from trivium.suites.rubrics.rubric import Dimension, Rubric
from trivium.suites.rubrics.template import SEEN, filled, places
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
        aspects: How many aspects the case names; 0 where the judge finds them in the input.
        prompt: Digest of everything that is said but what is judged.
    """

    dimensions: tuple[Dimension, ...]
    instructions: str
    body: str
    texts: dict[str, str]
    schema: Schema
    scores: tuple[float, ...]
    aspects: int
    prompt: str

    def parse(self, text: str, names: Collection[str]) -> dict[str, Answer]:
        """The answer to each dimension of some names.

        Raises:
            MalformedAnswer: If the text is not what was asked for.
        """
        asked = [each for each in self.dimensions if each.name in names]
        return parse(text, asked, self.scores, aspects=self.aspects, shown=self.texts.values())


def prepare(
    rubric: Rubric, due: Sequence[Dimension], case: Case, texts: Mapping[str, str], settings: JudgeSettings
) -> list[Prepared]:
    """The requests that are due for one attempt: one, or one a dimension (``judge.together: false``).

    Args:
        rubric: Whose dimensions they are.
        due: Those that have something to look at.
        case: Which the attempt is of.
        texts: What there is to show, by name.
        settings: The suite's.
    """
    scores = likert_values(rubric.step or settings.step)
    asked = [tuple(due)] if settings.together else [(dimension,) for dimension in due]
    return [_prepared(rubric, dimensions, case, texts, scores) for dimensions in asked]


def _prepared(
    rubric: Rubric,
    dimensions: tuple[Dimension, ...],
    case: Case,
    texts: Mapping[str, str],
    scores: tuple[float, ...],
) -> Prepared:
    seen: set[str] = {name for dimension in dimensions for name in dimension.sees}
    visible = {name: harmless(text) for name, text in texts.items() if name in seen}
    told = instructions(rubric, dimensions, scores)
    template = rubric.material or MATERIAL
    return Prepared(
        dimensions=dimensions,
        instructions=told,
        body=body(template, visible),
        texts=visible,
        schema=schema(dimensions, scores),
        scores=scores,
        aspects=len(case.expect.aspects),
        prompt=blake2b(f"{told}\0{template}".encode(), digest_size=8).hexdigest(),
    )


def body(template: str, texts: Mapping[str, str]) -> str:
    """What is judged, each text between its marks wherever the template puts it.

    Args:
        template: Of the material, checked before.
        texts: By name; a place whose text is not there says so.
    """
    code = code_of(texts)
    between = {name: between_marks(name, text, code) for name, text in texts.items()}
    placed = places(template)
    rest = "\n\n".join(text for name, text in between.items() if name not in placed)
    absent = {name: f"(there is no {name})" for name in SEEN}
    return f"CODE is {code}.\n\n{filled(template, {**absent, **between, 'material': rest})}"
