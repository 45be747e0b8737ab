"""Excerpts: what of a long document a judge is shown."""

import re
from functools import cache
from typing import NamedTuple

import msgspec

from trivium.metrics.judge.signals.evidence import passages
from trivium.metrics.judge.signals.similarity import EvidenceSimilarity

BESIDE, APART = "\n\n", "\n\n[…]\n\n"
"""What stands between passages that follow each other in the document, and between those that do not."""

NEAREST = 5
"""Passages of a sentence that are compared with it: those that share most words."""

_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
_WORDS = re.compile(r"\w\w+")


class Cut(msgspec.Struct, frozen=True):
    """How much of something a judge is shown.

    Attributes:
        shown: Of it.
        of: All there is.
        unit: What is counted: characters, or steps of a trace.
    """

    shown: int
    of: int
    unit: str = "characters"


class Excerpt(NamedTuple):
    """A text as it is shown, with a note of what is left out, and how much that is; None of a whole one."""

    text: str
    cut: Cut | None


def head(text: str, most: int) -> Excerpt:
    """The first ``most`` characters."""
    if len(text) <= most:
        return Excerpt(text, None)
    note = f"\n[cut: {len(text) - most:,} more characters]"
    return Excerpt(text[:most] + note, Cut(most, len(text)))


def retrieved(text: str, output: str, most: int) -> Excerpt:
    """The passages of a document that are nearest to what an output says, in the order of the document.

    Passages are ranked by their largest similarity (T1.1) to a sentence of the output, and taken as long as
    they fit; what room is left goes to the document's beginning. Equal inputs give equal excerpts.

    Args:
        text: The document.
        output: What is judged.
        most: Characters of the excerpts, marks between them included.

    Returns:
        At most ``most`` characters and a note of how much that is of the document; its head where the
        output shares no word with it.
    """
    if len(text) <= most:
        return Excerpt(text, None)
    parts = passages(text)
    ranked = _ranked(parts, output)
    if not ranked:
        return head(text, most)
    chosen: set[int] = set()
    for index in (*ranked, *range(len(parts))):
        if index not in chosen and len(_joined(parts, chosen | {index})) <= most:
            chosen.add(index)
    shown = _joined(parts, chosen) if chosen else parts[ranked[0]][:most]
    note = f"\n[excerpts: {len(shown):,} of {len(text):,} characters]"
    return Excerpt(shown + note, Cut(len(shown), len(text)))


def _ranked(parts: list[str], output: str) -> list[int]:
    """Indices of the passages that are near to a sentence of the output, the nearest first."""
    words = [frozenset(_WORDS.findall(part.casefold())) for part in parts]
    nearest: dict[int, float] = {}
    for sentence in dict.fromkeys(_SENTENCE.split(output)):
        own = frozenset(_WORDS.findall(sentence.casefold()))
        shared = [len(own & theirs) for theirs in words]
        near = sorted((index for index in range(len(parts)) if shared[index]), key=lambda i: (-shared[i], i))
        pairs = [(sentence, parts[index]) for index in near[:NEAREST]]
        for index, similarity in zip(near, _cosine()(pairs) or (), strict=False):
            if similarity > nearest.get(index, 0.0):
                nearest[index] = similarity
    return sorted(nearest, key=lambda index: (-nearest[index], index))


@cache
def _cosine() -> EvidenceSimilarity:
    return EvidenceSimilarity("cosine")


def _joined(parts: list[str], chosen: set[int]) -> str:
    made: list[str] = []
    last = 0
    for index in sorted(chosen):
        if made or index > 0:
            made.append(BESIDE if made and index == last + 1 else APART if made else "[…]\n\n")
        made.append(parts[index])
        last = index
    return "".join(made)
