"""From a file, or from what stands in a suite, to a Rubric: built-in dimensions put in, mistakes found."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from trivium.errors import Problem, SuiteError, suggest
from trivium.suites.files.reading import read_document
from trivium.suites.rubrics.built_in import BUILT_IN
from trivium.suites.rubrics.checking import nonsense, wrong_templates
from trivium.suites.rubrics.rubric import Dimension, Rubric
from trivium.suites.validation import at, convert, describe

R = TypeVar("R", bound=Rubric)

IS_NAME = re.compile(r"[A-Za-z]\w*", re.ASCII).fullmatch
"""Of a built-in rubric; anything else names a file."""

_DIMENSIONS = {
    f"{rubric.name}.{dimension.name}": dimension
    for rubric in BUILT_IN.values()
    for dimension in rubric.dimensions
}


def load(kind: type[R], source: str | Path) -> R:
    """See ``Rubric.load``."""
    name = str(source)
    if IS_NAME(name):
        if name not in BUILT_IN:
            raise SuiteError("", no_rubric(name))
        raw: Any = msgspec.to_builtins(BUILT_IN[name])
        return msgspec.convert(raw, kind)
    rubric, problems = rubric_of(read_document(Path(source)), "", step=1)
    if rubric is None:
        raise SuiteError(name, problems)
    return msgspec.convert(msgspec.to_builtins(rubric), kind)


def chosen(raw: Any, folder: Path, *, step: float) -> tuple[Any, list[Problem]]:
    """What ``judge.rubric`` names, files replaced by what they hold, and every mistake found in it.

    Args:
        raw: A name, a file, or a list of these and of rubrics; anything else is given back as it is.
        folder: Where relative paths start.
        step: Of Likert values, where a rubric states none.
    """
    entries = [raw] if isinstance(raw, str) else raw
    if not isinstance(entries, list | tuple):
        return raw, []
    made: list[Any] = []
    problems: list[Problem] = []
    for index, entry in enumerate(entries):
        where = f"judge.rubric[{index}]"
        if isinstance(entry, str) and not IS_NAME(entry):
            where = f"{folder / entry}:"
            try:
                entry = read_document(folder / entry)  # noqa: PLW2901 - the file stands for what it holds
            except SuiteError as error:
                problems += [
                    Problem(f"{error.source}: {each.where}".removesuffix(": "), each.what)
                    for each in error.problems
                ]
                continue
        if isinstance(entry, str):
            if entry not in BUILT_IN:
                problems.append(Problem("judge.rubric", no_rubric(entry)))
            made.append(entry)
            continue
        rubric, wrong = rubric_of(entry, where, step=step)
        problems += wrong
        if rubric is not None:
            made.append(msgspec.to_builtins(rubric))
    names = [each if isinstance(each, str) else each["name"] for each in made]
    twice = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    problems += [Problem("judge.rubric", f'two rubrics are called "{name}"') for name in twice]
    return made, problems


def no_rubric(name: str) -> str:
    """What is said of a name that no rubric has."""
    return f'no rubric is called "{name}".{suggest(name, BUILT_IN)} (known: {", ".join(BUILT_IN)}, or a file)'


def rubric_of(raw: Any, where: str, *, step: float) -> tuple[Rubric | None, list[Problem]]:
    """A rubric of raw keys, or every mistake in them."""
    problems: list[Problem] = []
    expanded: list[list[Any]] = []
    if isinstance(raw, Mapping) and isinstance(raw.get("dimensions"), list | tuple):
        expanded = [
            _expanded(entry, at(at(where, "dimensions"), index), problems)
            for index, entry in enumerate(raw["dimensions"])
        ]
        # One stands for each entry, so that places are those of the user.
        raw = {**raw, "dimensions": [entry[0] for entry in expanded]}
    rubric, wrong = convert(raw, Rubric, where)
    problems += wrong
    if rubric is None or problems:
        if isinstance(raw, Mapping):
            problems += wrong_templates(raw, where)
        return None, problems
    dimensions: list[Dimension] = []
    for first, entry in zip(rubric.dimensions, expanded, strict=True):
        dimensions += [first, *msgspec.convert(entry[1:], list[Dimension])]
    rubric = msgspec.structs.replace(rubric, dimensions=tuple(dimensions))
    places = [index for index, entry in enumerate(expanded) for _ in entry]
    problems = nonsense(rubric, where, places=places, step=step)
    return (None, problems) if problems else (rubric, [])


def _expanded(entry: Any, where: str, problems: list[Problem]) -> list[Any]:
    """What an entry of ``dimensions`` stands for: itself, or what is built in."""
    if isinstance(entry, str):
        if entry in BUILT_IN:
            return [msgspec.to_builtins(dimension) for dimension in BUILT_IN[entry].dimensions]
        return [_built_in(entry, where, problems)]
    if not isinstance(entry, Mapping) or "extends" not in entry:
        return [entry]
    own = {key: value for key, value in entry.items() if key != "extends"}
    return [_built_in(entry["extends"], at(where, "extends"), problems) | own]


def _built_in(name: Any, where: str, problems: list[Problem]) -> dict[str, Any]:
    if not isinstance(name, str) or name not in _DIMENSIONS:
        hint = suggest(name, _DIMENSIONS) if isinstance(name, str) else ""
        problems.append(
            Problem(
                where, f"found {describe(name)}, expected a built-in dimension such as review.clarity.{hint}"
            )
        )
        name = "review.clarity"  # stands in, so that the other mistakes are found too
    raw: dict[str, Any] = msgspec.to_builtins(_DIMENSIONS[name])
    return raw
