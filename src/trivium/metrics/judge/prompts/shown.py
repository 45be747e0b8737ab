"""Shown: the texts that a judge is given, bounded."""

from collections.abc import Iterable
from typing import Literal, NamedTuple

import msgspec

from trivium.metrics.judge.pairs.pair import Pair
from trivium.metrics.judge.prompts.digest import digest
from trivium.metrics.judge.prompts.excerpts import Cut, Excerpt, head, retrieved
from trivium.metrics.metric import Subject
from trivium.suites.door import clean

MOST_CHARS = 100_000
"""Of a text that is neither a document nor a trace."""


class Shown(NamedTuple):
    """What a judge may be shown of a case and an attempt.

    Attributes:
        texts: By name; what is not there is left out.
        cut: Of those that are shown in part, how much.
    """

    texts: dict[str, str]
    cut: dict[str, Cut]


def shown(subject: Subject, *, excerpt_chars: int, excerpts: Literal["head", "retrieval"] = "head") -> Shown:
    """What there is to show of a case and an attempt.

    Args:
        subject: The case and the attempt.
        excerpt_chars: Characters of the source, of each reference and of the trace that are shown.
        excerpts: Which of a document: its first ones, or the passages that the output's sentences lead to.
    """

    def excerpt(text: str) -> Excerpt:
        if excerpts == "head":
            return head(text, excerpt_chars)
        return retrieved(text, "\n".join(outputs.values()), excerpt_chars)

    case, attempt = subject.case, subject.attempt
    outputs = {"output": attempt.text}
    if isinstance(subject, Pair):
        outputs = {"first": attempt.text, "second": subject.second.text}
    expect = case.expect
    aspects = "\n".join(f"{number}. {_entry(text)}" for number, text in enumerate(expect.aspects, 1))
    found = {
        "input": head(_text(case.input), MOST_CHARS),
        "source": excerpt(case.source or ""),
        "references": _joined(excerpt(text) for text in case.references),
        "facts": head(_lines(expect.facts), MOST_CHARS),
        "sources": head(_lines(expect.sources), MOST_CHARS),
        "aspects": head(aspects, MOST_CHARS),
        "workflow": head(" → ".join(expect.workflow or ()), MOST_CHARS),
        "trace": Excerpt("", None) if attempt.trace is None else digest(attempt.trace, excerpt_chars),
    }
    found = {name: each for name, each in found.items() if each.text.strip()}
    found |= {name: head(text, MOST_CHARS) for name, text in outputs.items()}
    # What no request can carry is replaced, as everywhere at the door.
    texts: dict[str, str] = clean({name: each.text for name, each in found.items()})[0]
    return Shown(texts, {name: each.cut for name, each in found.items() if each.cut is not None})


def _joined(excerpts: Iterable[Excerpt]) -> Excerpt:
    """Excerpts one after the other, and what is cut of all of them together."""
    each = list(excerpts)
    text = "\n---\n".join(excerpt.text for excerpt in each)
    if all(excerpt.cut is None for excerpt in each):
        return Excerpt(text, None)
    cuts = [excerpt.cut or Cut(len(excerpt.text), len(excerpt.text)) for excerpt in each]
    return Excerpt(text, Cut(sum(cut.shown for cut in cuts), sum(cut.of for cut in cuts)))


def _text(value: object) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return msgspec.json.encode(clean(value)[0], order="deterministic").decode()


def _lines(texts: tuple[str, ...]) -> str:
    return "\n".join(f"- {_entry(text)}" for text in texts)


def _entry(text: str) -> str:
    """A text as one entry of a list, its further lines indented, so that none of them passes for another."""
    return "\n  ".join(text.splitlines())
