"""Rubrics, their dimensions, criteria and examples, and the templates of prompts.

In a template ``{name}`` is a placeholder, ``{{`` and ``}}`` are braces. Inserted text is never parsed again,
so braces in it have no meaning.
"""

import re
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, Self, get_args

import msgspec
from msgspec import Meta

from trivium.errors import suggest

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
    "input", "output", "source", "references", "facts", "sources", "aspects", "workflow", "trace"
]
"""What a dimension may look at; what a case or an attempt does not have is left out."""

Names = Annotated[tuple[InputName, ...], Meta(extra={"also": "single"}, extra_json_schema={"also": "string"})]
"""Several of these; in a file a single one will do."""

Point = Annotated[
    str,
    Meta(
        pattern=r"^[0-9]+(\.[0-9]+)?$",
        extra={"also": "number", "words": "a value of the scale, such as 1, 3 or 5"},
    ),
]
"""A value of a Likert scale, as the key of its anchor."""

PASS_MARK = 0.7
LIKERT_MOST = 5


class Level(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A level with its anchor.

    Attributes:
        value: The score, in [0, 1].
        means: What an output of this level looks like; the judge is shown it.
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
"""Of a criterion that has no words of its own."""


class Criterion(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One thing that a Likert dimension is scored by.

    Attributes:
        name: How the answer calls it.
        asks: What the judge is to look for.
        weight: Share of the dimension's score, rescaled over its criteria.
        anchors: What an output of a value looks like, of 1, 3 and 5 at least: the judge is shown it.
    """

    name: Name
    asks: Filled
    weight: Weight = 1.0
    anchors: dict[Point, Filled] = msgspec.field(default_factory=lambda: dict(ANCHORS))


class Dimension(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One thing that is judged and has a score.

    Attributes:
        name: How metrics call it.
        asks: What it is about.
        criteria: Scored 1 to 5 each; a dimension without criteria is scored by one of its levels.
        levels: Names of levels and their values, in [0, 1], or value and anchor (``value``, ``means``).
        claims: Whether the output's claims are extracted and verified instead (T2.4).
        aspects: Whether the aspects that were asked for are gone through instead: each is covered, partly
            covered or not, and the score is the share that is (T2.4).
        sees: What the judge is shown for it.
        needs: What must be there, one of them at least; without it the dimension is skipped.
        weight: Share of the rubric's overall score.
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
        """Whether there is something of what it needs, among texts by the names of what dimensions see."""
        return not self.needs or any(texts.get(name) for name in self.needs)

    @property
    def level_values(self) -> dict[str, float]:
        """The value of each level."""
        return {
            name: level.value if isinstance(level, Level) else level for name, level in self.levels.items()
        }


class Example(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Something judged before, shown to the judge as an example.

    Attributes:
        shows: Its texts, by the names of what dimensions see.
        scores: What it deserves, by dimension: values by criterion, or a level.
        reason: Why.
    """

    shows: Annotated[dict[InputName, str], Meta(min_length=1)]
    scores: Annotated[dict[str, dict[str, float] | str], Meta(min_length=1)]
    reason: Filled


class Rubric(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a judge is asked to look at: dimensions, and how they are asked about.

    Attributes:
        name: How metrics call it: ``name.dimension``.
        dimensions: At least one. In a file ``review.clarity`` stands for a built-in dimension, ``review``
            for all of a rubric's, and a dimension that ``extends`` one changes only what it says.
        pass_mark: The overall score that passes.
        scale: How a Likert value becomes a score, v/5 or (v−1)/4; None leaves it to ``judge.scale``.
        step: Distance of two neighbouring Likert values; None leaves it to ``judge.step``.
        examples: Shown to the judge before it judges.
        instructions: Template of the instructions, with ``{rubric}``, ``{examples}`` and, on wish, our own
            ``{rules}`` on evidence, explanations and abstaining (default: all three).
        material: Template of what is judged, with ``{output}``, ``{source}``, … and ``{material}`` for all
            that has no place of its own (default: ``{material}``).
    """

    name: Name
    dimensions: Annotated[tuple[Dimension, ...], Meta(min_length=1)]
    pass_mark: Share = PASS_MARK
    scale: Scale | None = None
    step: Step | None = None
    examples: tuple[Example, ...] = ()
    instructions: str | None = None
    material: str | None = None

    @classmethod
    def load(cls, source: str | Path) -> Self:
        """A rubric from a .yaml, .json or .toml file, or a built-in one by its name.

        Raises:
            SuiteError: With every mistake found.
        """
        # The one import that closes a circle: the loader builds rubrics, and users load one from here.
        from trivium.suites.rubrics.loader import load_rubric

        return load_rubric(cls, source)

    @property
    def digest(self) -> str:
        """Hash of all of it."""
        raw = msgspec.json.encode(self, order="deterministic")
        return blake2b(raw, digest_size=8).hexdigest()


INSTRUCTION_PLACES = ("rules", "rubric", "examples")
INPUT_NAMES: tuple[str, ...] = get_args(InputName)
MATERIAL = "material"
"""Placeholder of all texts that have none of their own."""

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
    """Mistakes in a template of instructions.

    Args:
        template: As the user wrote it.
        examples: Whether there are examples to show.
    """
    parts, wrong = parse_template(template)
    for part in parts:
        if isinstance(part, Placeholder) and part.name not in INSTRUCTION_PLACES:
            if part.name in (*INPUT_NAMES, MATERIAL):
                said = f'"{{{part.name}}}" is judged: its place is in the template "material", never here'
            else:
                said = _unknown(part.name, INSTRUCTION_PLACES)
            wrong.append(f"line {part.line}: {said}")
    there = placeholders(template)
    if "rubric" not in there:
        wrong.append('"{rubric}" is missing, which says what is scored and how')
    if examples and "examples" not in there:
        wrong.append('"{examples}" is missing, and the rubric has examples')
    return wrong


def material_problems(template: str, seen: Mapping[str, str] | None) -> list[str]:
    """Mistakes in a template of the material.

    Args:
        template: As the user wrote it.
        seen: What dimensions look at, each with the name of one that does; None where that is not known.
    """
    parts, wrong = parse_template(template)
    for part in parts:
        if isinstance(part, Placeholder):
            if part.name not in (*INPUT_NAMES, MATERIAL):
                wrong.append(f"line {part.line}: {_unknown(part.name, (*INPUT_NAMES, MATERIAL))}")
            elif seen is not None and part.name not in (*seen, MATERIAL):
                wrong.append(f'line {part.line}: no dimension sees "{part.name}"')
    there = placeholders(template)
    if seen is not None and MATERIAL not in there:
        wrong += [
            f'"{{{name}}}" is missing, which {by} sees (or "{{material}}" for all that has no place)'
            for name, by in seen.items()
            if name not in there
        ]
    return wrong


def _unknown(name: str, known: tuple[str, ...]) -> str:
    hint = suggest(name, known) or f" Known: {', '.join(known)}"
    return f'unknown placeholder "{{{name[:60]}}}".{hint}'
