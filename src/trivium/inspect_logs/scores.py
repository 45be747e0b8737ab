"""Scores of Inspect AI as values: letters, words and numbers, one score or several under one name."""

from collections.abc import Iterator
from math import isfinite
from typing import Any, NamedTuple

PREFIX = "inspect."
"""Before the name of a scorer it makes the name of a metric."""

_WORDS = {"c": 1.0, "p": 0.5, "i": 0.0, "n": 0.0, "yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}
"""Correct, partial, incorrect and no answer, as Inspect counts them, and the words that it takes for them."""


class Recorded(NamedTuple):
    """One score of a sample.

    Attributes:
        name: ``inspect.SCORER``, with ``.KEY`` where the scorer gave several.
        value: In [0, 1]; None where it was not scored, or is on another scale.
        raw: As the log has it.
        answer: What the scorer took for the answer.
        explanation: What it said.
        unscored: Why there is no value, where the scorer gave none.
        edits: Who changed it, oldest first.
        original: The first value, where it was changed.
    """

    name: str
    value: float | None
    raw: Any
    answer: str | None
    explanation: str | None
    unscored: str | None
    edits: tuple[str, ...]
    original: float | None


def scores_of(raw: dict[str, Any]) -> list[Recorded]:
    """The scores of a sample as the log has it; logs before 2025 hold one, without its name."""
    scores = raw.get("scores")
    if not isinstance(scores, dict):
        scores = {"score": raw["score"]} if isinstance(raw.get("score"), dict) else {}
    return [
        found
        for scorer, score in scores.items()
        if isinstance(score, dict)
        for found in _parts(scorer, score)
    ]


def _parts(scorer: str, score: dict[str, Any]) -> Iterator[Recorded]:
    value = score.get("value")
    history = [edit for edit in _list(score.get("history")) if isinstance(edit, dict)]
    authors = tuple(author for edit in history if (author := _author(edit)))
    first = history[0].get("value") if history and authors else None
    keyed = value.items() if isinstance(value, dict) else [("", value)]
    for key, part in keyed:
        before = first.get(key) if isinstance(first, dict) else first
        number = as_number(part)
        known = number is not None and 0 <= number <= 1
        yield Recorded(
            name=f"{PREFIX}{scorer}.{key}" if key else f"{PREFIX}{scorer}",
            value=number if known else None,
            raw=part if not isinstance(part, float) or isfinite(part) else None,
            answer=_text(score.get("answer")),
            explanation=_text(score.get("explanation")),
            unscored=_unscored(score, part),
            edits=authors,
            original=as_number(before) if authors else None,
        )


def _unscored(score: dict[str, Any], part: Any) -> str | None:
    if part is not None and not (isinstance(part, float) and not isfinite(part)):
        return None
    return _text(score.get("reason")) or "the scorer gave no value"


def as_number(value: Any) -> float | None:
    """A value as Inspect's own ``value_to_float`` takes it; None where it would make up a 0."""
    if isinstance(value, bool | int | float):
        return float(value) if isinstance(value, bool) or abs(value) < 1e300 else None  # drops NaN too
    if isinstance(value, str):
        word = value.strip().lower()
        if word in _WORDS:
            return _WORDS[word]
        try:
            number = float(word)
        except ValueError:
            return None
        return number if isfinite(number) else None
    return None


def _author(edit: dict[str, Any]) -> str | None:
    provenance = edit.get("provenance")
    return _text(provenance.get("author")) if isinstance(provenance, dict) else None


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
