"""Shown: the texts that a judge is given, bounded."""

from typing import Literal

import msgspec

from trivium.metrics.judge.pairs.pair import Pair
from trivium.metrics.judge.prompts.digest import digest
from trivium.metrics.judge.prompts.excerpts import head, retrieved
from trivium.metrics.metric import Subject
from trivium.suites.door import clean

EXCERPTED = ("source", "references")
"""Documents, of which the judge sees ``excerpt_chars`` characters."""

MOST_CHARS = 100_000
"""Of any other text."""


def shown(
    subject: Subject, *, excerpt_chars: int, excerpts: Literal["head", "retrieval"] = "head"
) -> dict[str, str]:
    """What there is to show of a case and an attempt, by name; what is not there is left out.

    Args:
        subject: The case and the attempt.
        excerpt_chars: Characters of a document that are shown.
        excerpts: Which: its first ones, or the passages that the output's sentences lead to.
    """

    def excerpt(text: str) -> str:
        if excerpts == "head":
            return head(text, excerpt_chars)
        return retrieved(text, "\n".join(outputs.values()), excerpt_chars)

    case, attempt = subject.case, subject.attempt
    outputs = {"output": attempt.text}
    if isinstance(subject, Pair):
        outputs = {"first": attempt.text, "second": subject.second.text}
    expect = case.expect
    found = {
        "input": _text(case.input),
        "source": excerpt(case.source or ""),
        "references": "\n---\n".join(excerpt(text) for text in case.references),
        "facts": _lines(expect.facts),
        "sources": _lines(expect.sources),
        "aspects": "\n".join(f"{number}. {_entry(text)}" for number, text in enumerate(expect.aspects, 1)),
        "workflow": " → ".join(expect.workflow or ()),
        "trace": "" if attempt.trace is None else digest(attempt.trace),
    }
    texts = {
        name: text if name in EXCERPTED else head(text, MOST_CHARS)
        for name, text in found.items()
        if text.strip()
    }
    texts |= {name: head(text, MOST_CHARS) for name, text in outputs.items()}
    # What no request can carry is replaced, as everywhere at the door.
    clean_texts: dict[str, str] = clean(texts)[0]
    return clean_texts


def _text(value: object) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return msgspec.json.encode(clean(value)[0], order="deterministic").decode()


def _lines(texts: tuple[str, ...]) -> str:
    return "\n".join(f"- {_entry(text)}" for text in texts)


def _entry(text: str) -> str:
    """A text as one entry of a list, its further lines indented, so that none of them passes for another."""
    return "\n  ".join(text.splitlines())
