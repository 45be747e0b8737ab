"""Templates: the words around what a judge is shown, taken apart once and never formatted.

``{name}`` is a place that is filled, ``{{`` and ``}}`` are braces. What fills a place is never looked at
again, so that braces in it mean nothing.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple, get_args

from trivium.errors import suggest
from trivium.suites.rubrics.rubric import Seen

INSTRUCTION_PLACES = ("rules", "rubric", "examples")
SEEN: tuple[str, ...] = get_args(Seen)
MATERIAL = "material"
"""Stands for every text that has no place of its own."""

_TOKEN = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")


class Place(NamedTuple):
    """Where something is filled in; ``line`` counts from 1."""

    name: str
    line: int


def take_apart(template: str) -> tuple[list[str | Place], list[str]]:
    """The words and places of a template in order, and its lone braces in words."""
    parts: list[str | Place] = []
    wrong: list[str] = []
    end = 0
    for found in _TOKEN.finditer(template):
        parts.append(template[end : found.start()])
        end = found.end()
        token, name = found.group(), found.group(1)
        line = template.count("\n", 0, found.start()) + 1
        if name is not None:
            parts.append(Place(name.strip(), line))
        elif len(token) == 2:
            parts.append(token[0])
        else:
            wrong.append(f'line {line}: a lone "{token}"; a brace is written twice')
    parts.append(template[end:])
    return [part for part in parts if part != ""], wrong


def filled(template: str, texts: Mapping[str, str]) -> str:
    """A template with its places filled, in a single pass.

    Raises:
        KeyError: If a place has no text.
    """
    parts, _ = take_apart(template)
    return "".join(texts[part.name] if isinstance(part, Place) else part for part in parts)


def places(template: str) -> list[str]:
    """The names of a template's places, each once."""
    parts, _ = take_apart(template)
    return list(dict.fromkeys(part.name for part in parts if isinstance(part, Place)))


def wrong_instructions(template: str, *, examples: bool) -> list[str]:
    """What is wrong with a template of instructions.

    Args:
        template: As the user wrote it.
        examples: Whether there are examples to show.
    """
    parts, wrong = take_apart(template)
    for part in parts:
        if isinstance(part, Place) and part.name not in INSTRUCTION_PLACES:
            if part.name in (*SEEN, MATERIAL):
                said = f'"{{{part.name}}}" is judged: its place is in the template "material", never here'
            else:
                said = _unknown(part.name, INSTRUCTION_PLACES)
            wrong.append(f"line {part.line}: {said}")
    there = places(template)
    if "rubric" not in there:
        wrong.append('"{rubric}" is missing, which says what is scored and how')
    if examples and "examples" not in there:
        wrong.append('"{examples}" is missing, and the rubric has examples')
    return wrong


def wrong_material(template: str, seen: Mapping[str, str] | None) -> list[str]:
    """What is wrong with a template of the material.

    Args:
        template: As the user wrote it.
        seen: What dimensions look at, each with the name of one that does; None where that is not known.
    """
    parts, wrong = take_apart(template)
    for part in parts:
        if isinstance(part, Place):
            if part.name not in (*SEEN, MATERIAL):
                wrong.append(f"line {part.line}: {_unknown(part.name, (*SEEN, MATERIAL))}")
            elif seen is not None and part.name not in (*seen, MATERIAL):
                wrong.append(f'line {part.line}: no dimension sees "{part.name}"')
    there = places(template)
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
