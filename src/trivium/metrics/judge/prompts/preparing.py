"""Preparing: what is sent to a judge for some dimensions of one attempt, and how its answer is read."""

from collections.abc import Collection, Mapping, Sequence
from hashlib import blake2b

import msgspec

from trivium.metrics.judge.prompts.answer import Answer, Schema, key_of, parse, schema
from trivium.metrics.judge.prompts.excerpts import Cut
from trivium.metrics.judge.prompts.fence import between_marks, code_of, harmless
from trivium.metrics.judge.prompts.prompt import MATERIAL, static_and_ask
from trivium.metrics.judge.prompts.shown import Shown
from trivium.metrics.judge.rubrics.scoring import likert_values
from trivium.suites.case import Case
from trivium.suites.rubrics.rubric import Dimension, Rubric
from trivium.suites.rubrics.template import SEEN, filled, places
from trivium.suites.settings import JudgeSettings


class Prepared(msgspec.Struct, frozen=True, kw_only=True):
    """One request, before a model is chosen for it.

    It is sent as ``static``, ``case`` and ``ask``, one after the other, so that requests share as long a
    beginning as can be, which providers cache: all cases have the same ``static`` and ``schema``, all samples
    of a case the same ``case``, and so have all of its dimensions that look at the same texts.

    Attributes:
        dimensions: What the answer is about.
        static: The instructions, which are the system's words; nothing that is judged is in them.
        case: What is judged, fenced: how the user's words begin.
        ask: What is asked of it: how they end. Never empty.
        texts: What is judged, by name, as it is shown; evidence is looked up in it.
        cut: What of them is shown in part, and how much.
        schema: JSON schema of the answer.
        scores: The values that a Likert criterion may have, rising.
        aspects: How many aspects the case names; 0 where the judge finds them in the input.
        prompt: Digest of everything that is said but what is judged.
        alone: Whether the answer calls its one dimension and its criteria by neutral keys.
    """

    dimensions: tuple[Dimension, ...]
    static: str
    case: str
    ask: str
    texts: dict[str, str]
    cut: dict[str, Cut]
    schema: Schema
    scores: tuple[float, ...]
    aspects: int
    prompt: str
    alone: bool

    def key(self, dimension: Dimension) -> str:
        """What the answer calls a dimension."""
        return key_of(dimension, alone=self.alone)

    def parse(self, text: str, names: Collection[str]) -> dict[str, Answer]:
        """The answer to each dimension of some names.

        Raises:
            MalformedAnswer: If the text is not what was asked for.
        """
        asked = [each for each in self.dimensions if each.name in names]
        return parse(
            text,
            asked,
            self.scores,
            aspects=self.aspects,
            shown=self.texts.values(),
            cut=self.cut,
            alone=self.alone,
        )


def prepare(
    rubric: Rubric, due: Sequence[Dimension], case: Case, texts: Shown, settings: JudgeSettings
) -> list[Prepared]:
    """The requests that are due for one attempt: one, or one a dimension (``judge.together: false``).

    Args:
        rubric: Whose dimensions they are.
        due: Those that have something to look at.
        case: Which the attempt is of.
        texts: What there is to show.
        settings: The suite's.
    """
    scores = likert_values(rubric.step or settings.step)
    asked = [tuple(due)] if settings.together else [(dimension,) for dimension in due]
    alone = not settings.together and rubric.instructions is None
    return [_prepared(rubric, dimensions, case, texts, scores, alone) for dimensions in asked]


def _prepared(
    rubric: Rubric,
    dimensions: tuple[Dimension, ...],
    case: Case,
    shown: Shown,
    scores: tuple[float, ...],
    alone: bool,
) -> Prepared:
    seen: set[str] = {name for dimension in dimensions for name in dimension.sees}
    visible = {name: harmless(text) for name, text in shown.texts.items() if name in seen}
    static, ask = static_and_ask(rubric, dimensions, scores, alone=alone)
    template = rubric.material or MATERIAL
    return Prepared(
        dimensions=dimensions,
        static=static,
        case=material(template, visible, code_of(shown.texts)),
        ask=ask,
        texts=visible,
        cut={name: part for name, part in shown.cut.items() if name in seen},
        schema=schema(dimensions, scores, alone=alone),
        scores=scores,
        aspects=len(case.expect.aspects),
        prompt=blake2b(f"{static}\0{template}\0{ask}".encode(), digest_size=8).hexdigest(),
        alone=alone,
    )


def material(template: str, texts: Mapping[str, str], code: str) -> str:
    """What is judged, each text between its marks wherever the template puts it.

    Args:
        template: Of the material, checked before.
        texts: By name; a place whose text is not there says so.
        code: Of the marks: a digest of all there is of the case, whichever texts of it are shown.
    """
    between = {name: between_marks(name, text, code) for name, text in texts.items()}
    placed = places(template)
    rest = "\n\n".join(text for name, text in between.items() if name not in placed)
    absent = {name: f"(there is no {name})" for name in SEEN}
    return f"CODE is {code}.\n\n{filled(template, {**absent, **between, 'material': rest})}"
