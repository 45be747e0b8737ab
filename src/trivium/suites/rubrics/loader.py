"""Reads rubrics from files or by name and lists every mistake in them."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from trivium.errors import Problem, SuiteError, placed, suggest
from trivium.records.documents import read_document
from trivium.records.validation import at, convert, describe, problem
from trivium.suites.rubrics.built_in import NAMES, built_in_rubrics
from trivium.suites.rubrics.rubric import (
    LEVELS,
    LIKERT_MOST,
    Criterion,
    Dimension,
    Example,
    Level,
    Rubric,
    instruction_problems,
    material_problems,
)
from trivium.values import JsonObject

IS_NAME = re.compile(r"[A-Za-z]\w*", re.ASCII).fullmatch
"""Matches the name of a built-in rubric; any other text names a file."""


def load_rubric(source: str | Path) -> Rubric:
    """Read a rubric file, or a built-in rubric; see ``Rubric.load``."""
    name = str(source)
    if IS_NAME(name):
        if name not in NAMES:
            raise SuiteError("", unknown_rubric(name))
        return built_in_rubrics()[name]
    rubric, problems = rubric_of(read_document(Path(source)), "", step=1)
    if rubric is None:
        raise SuiteError(name, problems)
    return rubric


def load_judge_rubrics(raw: Any, folder: Path, *, step: float) -> tuple[Any, list[Problem]]:
    """Replace the files named in ``judge.rubric`` by their contents, and list every mistake.

    Args:
        raw: A name, a file, a rubric, or a list of these; any other value is returned unchanged.
        folder: Base folder of relative paths.
        step: Default distance between neighbouring Likert values.
    """
    entries = [raw] if isinstance(raw, str | Mapping | Rubric) else raw
    if not isinstance(entries, list | tuple):
        return raw, []
    made: list[Any] = []
    problems: list[Problem] = []
    for index, entry in enumerate(entries):
        where = f"judge.rubric[{index}]"
        if isinstance(entry, str) and not IS_NAME(entry):
            where = f"{folder / entry}:"
            try:
                entry = read_document(folder / entry)  # noqa: PLW2901 - the file is replaced by its content
            except SuiteError as error:
                problems += placed(error)
                continue
        if isinstance(entry, str):
            if entry not in NAMES:
                problems.append(Problem("judge.rubric", unknown_rubric(entry)))
            made.append(entry)
            continue
        raw_keys = msgspec.to_builtins(entry) if isinstance(entry, Rubric) else entry
        rubric, wrong = rubric_of(raw_keys, where, step=step)
        problems += wrong
        if rubric is not None:
            made.append(msgspec.to_builtins(rubric))
    names = [each if isinstance(each, str) else each["name"] for each in made]
    twice = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    problems += [Problem("judge.rubric", f'two rubrics are called "{name}"') for name in twice]
    return made, problems


def unknown_rubric(name: str) -> str:
    """The message for an unknown rubric."""
    return f'no rubric is called "{name}".{suggest(name, NAMES)} (known: {", ".join(NAMES)}, or a file)'


def rubric_of(raw: Any, where: str, *, step: float) -> tuple[Rubric | None, list[Problem]]:
    """Convert raw keys to a rubric, or list every mistake."""
    problems: list[Problem] = []
    expanded: list[list[Any]] = []
    if isinstance(raw, Mapping) and isinstance(raw.get("dimensions"), list | tuple):
        expanded = [
            _expanded(entry, at(at(where, "dimensions"), index), problems)
            for index, entry in enumerate(raw["dimensions"])
        ]
        # One dimension for each entry, so that messages name the user's indices.
        raw = {**raw, "dimensions": [entry[0] for entry in expanded]}
    rubric, wrong = convert(raw, Rubric, where)
    problems += wrong
    if rubric is None or problems:
        if isinstance(raw, Mapping):
            problems += template_problems(raw, where)
        return None, problems
    dimensions: list[Dimension] = []
    for first, entry in zip(rubric.dimensions, expanded, strict=True):
        dimensions += [first, *msgspec.convert(entry[1:], list[Dimension])]
    rubric = msgspec.structs.replace(rubric, dimensions=tuple(dimensions))
    places = [index for index, entry in enumerate(expanded) for _ in entry]
    problems = list(semantic_problems(rubric, where, places=places, step=rubric.step or step))
    return (None, problems) if problems else (rubric, [])


def _expanded(entry: Any, where: str, problems: list[Problem]) -> list[Any]:
    """Expand an entry of ``dimensions``: a name or ``extends`` refers to built-in dimensions."""
    if isinstance(entry, str):
        if entry in NAMES:
            return [msgspec.to_builtins(each) for each in built_in_rubrics()[entry].dimensions]
        return [_built_in(entry, where, problems)]
    if not isinstance(entry, Mapping) or "extends" not in entry:
        return [entry]
    own = {key: value for key, value in entry.items() if key != "extends"}
    return [_built_in(entry["extends"], at(where, "extends"), problems) | own]


def _built_in(name: Any, where: str, problems: list[Problem]) -> JsonObject:
    known = {
        f"{rubric.name}.{dimension.name}": dimension
        for rubric in built_in_rubrics().values()
        for dimension in rubric.dimensions
    }
    if not isinstance(name, str) or name not in known:
        hint = suggest(name, known) if isinstance(name, str) else ""
        problems.append(
            Problem(
                where, f"found {describe(name)}, expected a built-in dimension such as review.clarity.{hint}"
            )
        )
        name = "review.clarity"  # a placeholder, so that the other mistakes are found, too
    raw: JsonObject = msgspec.to_builtins(known[name])
    return raw


OVERALL = "overall"
"""Name of the metric of a whole rubric; no dimension may have it."""


def step_problem(step: float) -> str | None:
    """The message if a scale from 1 to 5 cannot have this step, else None."""
    whole = _is_whole((LIKERT_MOST - 1) / step)
    return None if whole else f"1 to 5 is no whole number of steps of {step:g}"


def _is_whole(number: float) -> bool:
    return abs(number - round(number)) < 1e-9  # in binary, 4 steps of 0.2 are slightly more than 0.8


def semantic_problems(rubric: Rubric, where: str, *, places: Sequence[int], step: float) -> Iterator[Problem]:
    """Yield the mistakes in a rubric whose types are correct.

    Args:
        rubric: The rubric.
        where: Place of the rubric in messages.
        places: Index of each dimension in the user's list.
        step: Distance between neighbouring Likert values.
    """
    if rubric.name in NAMES:
        yield Problem(at(where, "name"), f'"{rubric.name}" is built in: give yours a name of its own')
    if rubric.step is not None and (wrong := step_problem(rubric.step)):
        yield Problem(at(where, "step"), wrong)
    names = Counter(dimension.name for dimension in rubric.dimensions)
    for dimension, index in zip(rubric.dimensions, places, strict=True):
        place = at(at(where, "dimensions"), index)
        if names[dimension.name] > 1:
            yield Problem(place, f'"{dimension.name}" occurs {names[dimension.name]} times')
        yield from _dimension_problems(dimension, place, step)
    for index, example in enumerate(rubric.examples):
        yield from _example_problems(example, rubric, at(at(where, "examples"), index), step)
    inputs: dict[str, str] = {name: each.name for each in reversed(rubric.dimensions) for name in each.sees}
    raw = {"instructions": rubric.instructions, "material": rubric.material, "examples": rubric.examples}
    yield from template_problems(raw, where, inputs=inputs)


def template_problems(
    raw: Mapping[str, Any], where: str, *, inputs: Mapping[str, str] | None = None
) -> Iterator[Problem]:
    """Yield the mistakes in the templates of a rubric.

    Args:
        raw: Keys of the rubric.
        where: Place of the rubric in messages.
        inputs: Inputs that its dimensions see, each with the name of one such dimension; None if unknown.
    """
    if isinstance(instructions := raw.get("instructions"), str):
        for message in instruction_problems(instructions, examples=bool(raw.get("examples"))):
            yield Problem(at(where, "instructions"), message)
    if isinstance(material := raw.get("material"), str):
        for message in material_problems(material, inputs):
            yield Problem(at(where, "material"), message)


def _dimension_problems(dimension: Dimension, where: str, step: float) -> Iterator[Problem]:
    ways = [way for way in ("criteria", "claims", "aspects") if getattr(dimension, way)]
    if dimension.name == OVERALL:
        yield Problem(at(where, "name"), f'"{OVERALL}" is the rubric\'s score as a whole')
    if len(ways) > 1:
        yield problem(where, f"is scored by {' and '.join(ways)}, expected one of them at most")
    if dimension.criteria and dimension.levels != LEVELS:
        yield problem(where, "has criteria and levels, expected one of them")
    yield from _level_problems(dimension.levels, at(where, "levels"))
    for index, criterion in enumerate(dimension.criteria):
        yield from _anchor_problems(criterion, at(at(at(where, "criteria"), index), "anchors"), step)
    criteria = Counter(criterion.name for criterion in dimension.criteria)
    for name, count in criteria.items():
        if count > 1:
            yield Problem(at(where, "criteria"), f'"{name}" occurs {count} times')
    for name in dimension.needs:
        if name not in dimension.sees:
            yield Problem(at(where, "needs"), f'"{name}" is not among what it sees')


def _level_problems(levels: Mapping[str, float | Level], where: str) -> Iterator[Problem]:
    if len(levels) < 2:
        yield Problem(where, f"found {describe(levels)}, expected two at least")
    bare = [name for name, level in levels.items() if not isinstance(level, Level)]
    if len(bare) < len(levels):
        for name in bare:
            yield Problem(at(where, name), 'has no "means", which other levels have')


def _anchor_problems(criterion: Criterion, where: str, step: float) -> Iterator[Problem]:
    values = [float(point) for point in criterion.anchors]
    for point, value in zip(criterion.anchors, values, strict=True):
        if not _is_on_the_scale(value, step):
            yield Problem(where, f"found {point}, expected 1 to 5 in steps of {step:g}")
        elif values.count(value) > 1:
            yield Problem(where, f"{value:g} occurs {values.count(value)} times")
    if missing := [f"{value}" for value in (1, 3, LIKERT_MOST) if value not in values]:
        verb = "is" if len(missing) == 1 else "are"
        yield Problem(where, f"{' and '.join(missing)} {verb} missing, expected 1, 3 and 5 at least")


def _is_on_the_scale(value: float, step: float) -> bool:
    return 1 <= value <= LIKERT_MOST and _is_whole((value - 1) / step)


def _example_problems(example: Example, rubric: Rubric, where: str, step: float) -> Iterator[Problem]:
    inputs = {name for dimension in rubric.dimensions for name in dimension.sees}
    for shown in example.shows:
        if shown not in inputs:
            yield Problem(at(at(where, "shows"), shown), "no dimension of the rubric sees this")
    by_name = {dimension.name: dimension for dimension in rubric.dimensions}
    for name, given in example.scores.items():
        place = at(at(where, "scores"), name)
        if name not in by_name:
            yield Problem(place, f"no dimension of the rubric is called that.{suggest(name, by_name)}")
        else:
            yield from _score_problems(given, by_name[name], place, step)


def _score_problems(
    given: dict[str, float] | str, dimension: Dimension, where: str, step: float
) -> Iterator[Problem]:
    if dimension.claims or dimension.aspects:
        by = "claims" if dimension.claims else "aspects"
        yield Problem(where, f"is scored by {by}, which an example cannot show")
    elif dimension.criteria:
        names = [criterion.name for criterion in dimension.criteria]
        if not isinstance(given, dict):
            yield Problem(where, f"found {describe(given)}, expected values of {', '.join(names)}")
            return
        for name in given:
            if name not in names:
                yield Problem(at(where, name), f"no criterion is called that.{suggest(name, names)}")
            elif not _is_on_the_scale(given[name], step):
                found = describe(given[name])
                yield Problem(at(where, name), f"found {found}, expected 1 to 5 in steps of {step:g}")
    elif not isinstance(given, str) or given not in dimension.levels:
        hint = suggest(given, dimension.levels) if isinstance(given, str) else ""
        known = ", ".join(dimension.levels)
        yield Problem(where, f"found {describe(given)}, expected one of {known}.{hint}".removesuffix("."))
