"""Shown: the texts that a judge is given, bounded."""

import msgspec

from trivium.metrics.judge.prompts.digest import digest
from trivium.metrics.metric import Subject

EXCERPTED = ("source", "references")
"""Documents, of which the judge sees the first ``excerpt_chars`` characters."""

MOST_CHARS = 100_000
"""Of any other text."""


def shown(subject: Subject, *, excerpt_chars: int) -> dict[str, str]:
    """What there is to show of a case and an attempt, by name; what is not there is left out.

    Args:
        subject: The case and the attempt.
        excerpt_chars: Characters of a document that are shown.
    """
    case, attempt = subject.case, subject.attempt
    expect = case.expect
    found = {
        "input": _text(case.input),
        "source": case.source or "",
        "references": "\n---\n".join(_cut(text, excerpt_chars) for text in case.references),
        "facts": _lines(expect.facts),
        "sources": _lines(expect.sources),
        "aspects": "\n".join(f"{number}. {text}" for number, text in enumerate(expect.aspects, 1)),
        "workflow": " → ".join(expect.workflow or ()),
        "trace": "" if attempt.trace is None else digest(attempt.trace),
    }
    texts = {
        name: _cut(text, excerpt_chars if name == "source" else MOST_CHARS)
        for name, text in found.items()
        if text.strip()
    }
    return texts | {"output": _cut(attempt.text, MOST_CHARS)}


def _text(value: object) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return msgspec.json.encode(value, order="deterministic").decode()


def _lines(texts: tuple[str, ...]) -> str:
    return "\n".join(f"- {text}" for text in texts)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}\n[cut: {len(text) - most:,} more characters]"
