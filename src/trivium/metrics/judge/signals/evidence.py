"""Evidence: whether a judge's quotes are there, and what in the source they rest on (spec: metrics, T2.5)."""

import re
from collections.abc import Iterable, Sequence
from typing import Any

from trivium.metrics.judge.signals.similarity import Similar

PASSAGE_CHARS = 500
_WORDS = re.compile(r"\w+")


def quotes_found(quotes: Sequence[str], shown: Iterable[str]) -> list[bool]:
    """Whether each quote occurs in a text that the judge was shown, whitespace and case folded."""
    texts = [folded(text) for text in shown]
    return [bool(quote) and any(quote in text for text in texts) for quote in map(folded, quotes)]


NO_SOURCE: dict[str, Any] = {
    "retrieval_reference_count": None,
    "retrieval_similarity_mean": None,
    "retrieval_similarity_max": None,
}


def retrieval(quotes: Sequence[str], source: str | None, *, similar: Similar) -> dict[str, Any]:
    """How the quotes are backed by passages of the source.

    For each quote the passage that shares most words with it is retrieved.

    Args:
        quotes: What the judge cites.
        source: The document, as the judge was shown it.
        similar: How quotes are compared with their passages.

    Returns:
        ``retrieval_reference_count``, the distinct passages retrieved, and the mean and the largest
        similarity between quote and passage; null without a source, similarities also without a passage, or
        where they cannot be had.
    """
    if source is None:
        return dict(NO_SOURCE)
    parts = [(passage, set(_WORDS.findall(passage.casefold()))) for passage in passages(source)]
    retrieved: set[int] = set()
    pairs: list[tuple[str, str]] = []
    for quote in quotes:
        words = set(_WORDS.findall(quote.casefold()))
        shared = [len(words & own) for _, own in parts]
        if not any(shared):
            continue
        best = shared.index(max(shared))
        retrieved.add(best)
        pairs.append((quote, parts[best][0]))
    similarities = similar(pairs) if pairs else None
    return {
        "retrieval_reference_count": len(retrieved),
        "retrieval_similarity_mean": sum(similarities) / len(similarities) if similarities else None,
        "retrieval_similarity_max": max(similarities) if similarities else None,
    }


def passages(source: str) -> list[str]:
    """A document in passages: its paragraphs, long ones cut between words."""
    found: list[str] = []
    for paragraph in re.split(r"\n\s*\n", source):
        passage = ""
        for word in paragraph.split():
            if passage and len(passage) + 1 + len(word) > PASSAGE_CHARS:
                found.append(passage)
                passage = ""
            passage = f"{passage} {word}" if passage else word
        if passage:
            found.append(passage)
    return found


def folded(text: str) -> str:
    """A text with its case folded and every run of whitespace a single space."""
    return " ".join(text.casefold().split())
