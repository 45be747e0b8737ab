"""Rubrics, their dimensions, criteria and examples, and the templates of prompts.

In a template ``{name}`` is a placeholder, ``{{`` and ``}}`` are braces. Inserted text is never parsed again,
so braces in it have no meaning.
"""

import re
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, get_args

import msgspec
from msgspec import Meta

from trivium.errors import suggest
from trivium.values import FileRecord, resolved

Name = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z][A-Za-z0-9_]*$",
        extra={"words": "a name of letters, digits and _, a letter first"},
    ),
]
Filled = Annotated[str, Meta(min_length=1)]
Weight = Annotated[float, Meta(gt=0, le=1e6)]
Share = Annotated[float, Meta(ge=0, le=1)]
Step = Annotated[float, Meta(ge=0.1, le=1)]
Scale = Literal["ratio", "minmax"]

InputName = Literal[
    "input",
    "output",
    "conversation",
    "user",
    "source",
    "references",
    "facts",
    "sources",
    "contexts",
    "aspects",
    "workflow",
    "trace",
]
"""Inputs of a dimension; those that a case or an attempt lacks are left out."""

Names = Annotated[tuple[InputName, ...], Meta(extra={"also": "single"}, extra_json_schema={"also": "string"})]
"""Several inputs. A file may have a single one instead of a list."""

Point = Annotated[
    str,
    Meta(
        pattern=r"^[0-9]+(\.[0-9]+)?$",
        extra={"also": "number", "words": "a value of the scale, such as 1, 3 or 5"},
    ),
]
"""A value of a Likert scale, as text; the key of its anchor."""

PASS_MARK = 0.7
LIKERT_MOST = 5


class Level(FileRecord, frozen=True, kw_only=True):
    """A level of a dimension, with its anchor.

    Attributes:
        value: The score, in [0, 1].
        means: Anchor: what an output of this level looks like. The judge sees it.
    """

    value: Share
    means: Filled


LEVELS: dict[str, float | Level] = {
    "excellent": Level(value=1.0, means="It meets what is asked in full; there is nothing to improve."),
    "good": Level(
        value=0.8, means="It meets what is asked, with small flaws that change nothing of substance."
    ),
    "acceptable": Level(value=0.6, means="It meets what is asked in its main points, with gaps."),
    "poor": Level(value=0.3, means="It misses main points of what is asked, or has serious flaws."),
    "failed": Level(value=0.0, means="It does not meet what is asked at all."),
}

ANCHORS: dict[str, str] = {
    "1": "It does not meet this at all.",
    "3": "It meets this in the main, with flaws that a reader notices.",
    "5": "It meets this in full; there is nothing to improve.",
}
"""Default anchors of a criterion."""


class Criterion(FileRecord, frozen=True, kw_only=True):
    """One criterion of a dimension, scored from 1 to 5.

    Attributes:
        name: Name in the judge's answer.
        asks: What the judge looks for.
        weight: Weight within the dimension, rescaled over its criteria.
        anchors: What an output with each value looks like, for at least 1, 3 and 5. The judge sees them.
    """

    name: Name
    asks: Filled
    weight: Weight = 1.0
    anchors: dict[Point, Filled] = msgspec.field(default_factory=lambda: dict(ANCHORS))


class Dimension(FileRecord, frozen=True, kw_only=True):
    """One quality that a judge scores.

    Attributes:
        name: Name of its metric.
        asks: What the judge assesses.
        criteria: Criteria, each scored from 1 to 5; without criteria the judge chooses one of the levels.
        levels: Value of each level, in [0, 1], or value and anchor (``value``, ``means``).
        claims: Whether the judge extracts and verifies the output's claims instead.
        aspects: Whether the judge marks each requested aspect as covered, partly covered or missing instead;
            the score is the covered share.
        sees: Inputs that the judge sees.
        needs: Inputs of which at least one must be present; otherwise the dimension is skipped.
        weight: Weight in the rubric's overall score.
    """

    name: Name
    asks: Filled
    criteria: tuple[Criterion, ...] = ()
    levels: dict[Filled, Share | Level] = msgspec.field(default_factory=lambda: dict(LEVELS))
    claims: bool = False
    aspects: bool = False
    sees: Annotated[Names, Meta(min_length=1)] = ("input", "output")
    needs: Names = ()
    weight: Weight = 1.0

    def applies_to(self, texts: Mapping[str, str]) -> bool:
        """Whether an input that the dimension needs is present.

        Args:
            texts: Text of each input, by name.
        """
        return not self.needs or any(texts.get(name) for name in self.needs)

    @property
    def level_values(self) -> dict[str, float]:
        """Value of each level, in [0, 1]."""
        return {
            name: level.value if isinstance(level, Level) else level for name, level in self.levels.items()
        }


class Example(FileRecord, frozen=True, kw_only=True):
    """A judged example that the judge sees before it judges.

    Attributes:
        shows: Text of each input, by name.
        scores: Correct scores by dimension: values by criterion, or a level.
        reason: Why these scores are correct.
    """

    shows: Annotated[dict[InputName, str], Meta(min_length=1)]
    scores: Annotated[dict[str, dict[str, float] | str], Meta(min_length=1)]
    reason: Filled


@resolved
class Rubric(FileRecord, frozen=True, kw_only=True):
    """The dimensions that a judge scores, and the templates of its prompt.

    Attributes:
        name: Name of the rubric; its metrics are called ``name.dimension``.
        dimensions: At least one. In a file, ``review.clarity`` stands for a built-in dimension, ``review``
            for all dimensions of a rubric, and a dimension that ``extends`` another changes only the keys it
            has.
        pass_mark: Lowest overall score that passes, in [0, 1].
        scale: How a Likert value v becomes a score: v/5 (``ratio``) or (v−1)/4 (``minmax``); None for
            ``judge.scale``.
        step: Distance between neighbouring Likert values; None for ``judge.step``.
        examples: Judged examples that the judge sees first.
        instructions: Template of the instructions, with ``{rubric}``, ``{examples}`` and, optionally,
            Trivium's ``{rules}`` on evidence, explanations and abstaining (default: all three).
        material: Template of the material to judge, with ``{output}``, ``{source}``, … and ``{material}`` for
            all inputs without a placeholder of their own (default: ``{material}``).
    """

    name: Name
    dimensions: Annotated[tuple[Dimension, ...], Meta(min_length=1)]
    pass_mark: Share = PASS_MARK
    scale: Scale | None = None
    step: Step | None = None
    examples: tuple[Example, ...] = ()
    instructions: str | None = None
    material: str | None = None

    @staticmethod
    def load(source: str | Path) -> "Rubric":
        """Load a rubric from a .yaml, .json or .toml file, or a built-in one by name.

        Raises:
            SuiteError: With every mistake found.
        """
        # Imported late, because the loader imports this module.
        from trivium.suites.rubrics.loader import load_rubric

        return load_rubric(source)

    @property
    def digest(self) -> str:
        """Hash of the whole rubric."""
        raw = msgspec.json.encode(self, order="deterministic")
        return blake2b(raw, digest_size=8).hexdigest()


INSTRUCTION_PLACES = ("rules", "rubric", "examples")
INPUT_NAMES: tuple[str, ...] = get_args(InputName)
MATERIAL = "material"
"""Placeholder for all inputs without a placeholder of their own."""

_TOKEN = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")


class Placeholder(NamedTuple):
    """A placeholder of a template; ``line`` counts from 1."""

    name: str
    line: int


def parse_template(template: str) -> tuple[list[str | Placeholder], list[str]]:
    """Split a template into texts and placeholders, and list its unmatched braces."""
    parts: list[str | Placeholder] = []
    wrong: list[str] = []
    end = 0
    for found in _TOKEN.finditer(template):
        parts.append(template[end : found.start()])
        end = found.end()
        token, name = found.group(), found.group(1)
        line = template.count("\n", 0, found.start()) + 1
        if name is not None:
            parts.append(Placeholder(name.strip(), line))
        elif len(token) == 2:
            parts.append(token[0])
        else:
            wrong.append(f'line {line}: a lone "{token}"; a brace is written twice')
    parts.append(template[end:])
    return [part for part in parts if part != ""], wrong


def fill_template(template: str, texts: Mapping[str, str]) -> str:
    """Fill the placeholders of a template in a single pass.

    Raises:
        KeyError: If a placeholder has no text.
    """
    parts, _ = parse_template(template)
    return "".join(texts[part.name] if isinstance(part, Placeholder) else part for part in parts)


def placeholders(template: str) -> list[str]:
    """The names of a template's placeholders, each once."""
    parts, _ = parse_template(template)
    return list(dict.fromkeys(part.name for part in parts if isinstance(part, Placeholder)))


def instruction_problems(template: str, *, examples: bool) -> list[str]:
    """List the mistakes in a template of instructions.

    Args:
        template: The user's template.
        examples: Whether the rubric has examples.
    """
    parts, wrong = parse_template(template)
    for part in parts:
        if isinstance(part, Placeholder) and part.name not in INSTRUCTION_PLACES:
            if part.name in (*INPUT_NAMES, MATERIAL):
                message = f'"{{{part.name}}}" is judged: its place is in the template "material", never here'
            else:
                message = _unknown(part.name, INSTRUCTION_PLACES)
            wrong.append(f"line {part.line}: {message}")
    present = placeholders(template)
    if "rubric" not in present:
        wrong.append('"{rubric}" is missing, which says what is scored and how')
    if examples and "examples" not in present:
        wrong.append('"{examples}" is missing, and the rubric has examples')
    return wrong


def material_problems(template: str, inputs: Mapping[str, str] | None) -> list[str]:
    """List the mistakes in a template of the material.

    Args:
        template: The user's template.
        inputs: Inputs that the dimensions see, each with the name of one such dimension; None if unknown.
    """
    parts, wrong = parse_template(template)
    for part in parts:
        if isinstance(part, Placeholder):
            if part.name not in (*INPUT_NAMES, MATERIAL):
                wrong.append(f"line {part.line}: {_unknown(part.name, (*INPUT_NAMES, MATERIAL))}")
            elif inputs is not None and part.name not in (*inputs, MATERIAL):
                wrong.append(f'line {part.line}: no dimension sees "{part.name}"')
    present = placeholders(template)
    if inputs is not None and MATERIAL not in present:
        wrong += [
            f'"{{{name}}}" is missing, which {by} sees (or "{{material}}" for all other inputs)'
            for name, by in inputs.items()
            if name not in present
        ]
    return wrong


def _unknown(name: str, known: tuple[str, ...]) -> str:
    hint = suggest(name, known) or f" Known: {', '.join(known)}"
    return f'unknown placeholder "{{{name[:60]}}}".{hint}'
