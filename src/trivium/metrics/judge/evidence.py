"""Finds a judge's quotes in the texts that it was shown, and measures how similar they are to the source.

The similarity measure (words or encoder) is a setting of the run and recorded with each judgement. Without
the encoder the similarities are null, because the other measure means something else.
"""

import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from threading import Lock
from typing import Literal, NamedTuple

from trivium.errors import EncoderUnavailable
from trivium.metrics.metric import TextMetric
from trivium.metrics.registry import metric_class
from trivium.suites.settings import Settings

log = logging.getLogger(__name__)

Similar = Callable[[Sequence[tuple[str, str]]], list[float] | None]
"""Similarities in [0, 1] of (quote, passage) pairs, in order; None if they are not available."""

METRICS = {"cosine": "cosine", "encoder": "semantic"}
"""Text metric by kind of similarity."""

PASSAGE_CHARS = 500
"""Length of a passage of a document, characters."""

MIN_QUOTE_WORDS = 3
"""Words that a quote needs to count as evidence: shorter ones occur by chance."""

QUOTATION_MARKS = frozenset("\"'`´‘’‚‛“”„‟«»‹›「」『』＂＇")
"""Marks, apostrophes included, in which a quote may differ from its text."""


class EvidenceSimilarity:
    """Compares quotes with passages: by words, or by the encoder of the text tier.

    Definition: docs/definitions/judge.md#retrieval-similarity.

    Args:
        kind: The measure, as recorded with a judgement.
        encoder: The suite's encoder, or None for the default one.
    """

    def __init__(self, kind: Literal["cosine", "encoder"], *, encoder: str | None = None) -> None:
        self.kind = kind
        made = metric_class(METRICS[kind]).from_settings(Settings(encoder=encoder))
        if not isinstance(made, TextMetric):
            raise TypeError(f"{METRICS[kind]} compares texts")
        self._metric = made
        self._lock = Lock()
        self._off = False

    def __call__(self, pairs: Sequence[tuple[str, str]]) -> list[float] | None:
        """Return similarities in [0, 1]; None without the encoder, which is logged once."""
        try:
            with self._lock:  # all threads share one encoder
                return self._metric.compare_many(pairs)
        except EncoderUnavailable as why:
            if not self._off:
                self._off = True
                log.warning("evidence is not compared with the source: %s", why)
            return None


_MARKS = re.compile(f"[{''.join(QUOTATION_MARKS)}]")
_ELLIPSIS = re.compile(r"[\[(]?(?:\.{3,}|…)[\])]?")
_STOPS = " .,;:!?…"
_WORDS = re.compile(r"\w+")
_COUNTED = re.compile(
    r"[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff]|[^\W\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff]+"
)
"""A word, or a character of a script without spaces between words."""


class Quote(NamedTuple):
    """A quote in a judge's answer.

    Attributes:
        text: The quote as the judge wrote it.
        found: Whether it occurs in a text that the judge was shown.
        counts: Whether it is found and long enough to count as evidence.
    """

    text: str
    found: bool
    counts: bool

    def recorded(self) -> dict[str, str | bool]:
        """The quote as recorded in a judgement's detail."""
        short = {"too_short": True} if self.found and not self.counts else {}
        return {"quote": self.text, "found": self.found, **short}


def find_quotes(quotes: Sequence[str], shown: Iterable[str]) -> list[Quote]:
    """Return the distinct quotes, and whether each occurs in a text that the judge was shown.

    Case, whitespace, quotation marks and a final stop are ignored; the parts of a quote around an ellipsis
    must occur in order. A quote of fewer than three words counts only if the whole text is as short
    (docs/definitions/judge.md#evidence-count).

    Args:
        quotes: The judge's quotes.
        shown: The texts.
    """
    texts = [_folded_once(text) for text in shown]
    distinct: dict[tuple[str, ...], str] = {}
    for quote in quotes:
        if parts := quote_parts(quote):
            distinct.setdefault(parts, quote)
    found = []
    for parts, quote in distinct.items():
        within = [text for text in texts if places(parts, text)]
        long = len(_COUNTED.findall(" ".join(parts))) >= MIN_QUOTE_WORDS
        counts = any(long or len(_COUNTED.findall(text)) < MIN_QUOTE_WORDS for text in within)
        found.append(Quote(quote, bool(within), counts))
    return found


_TURN = re.compile(r"^turn (\d+), ", re.MULTILINE)


def turn_of(quote: str, conversation: str | None) -> int | None:
    """The first turn of a conversation, as a judge was shown it, with a quote in it; None if in none."""
    if conversation is None:
        return None
    parts, begins = quote_parts(quote), list(_TURN.finditer(conversation))
    ends = [*(each.start() for each in begins[1:]), len(conversation)]
    for begin, end in zip(begins, ends, strict=False):
        if parts and places(parts, fold_text(conversation[begin.end() : end])):
            return int(begin[1])
    return None


def quote_parts(quote: str) -> tuple[str, ...]:
    """Fold a quote and split it at ellipses."""
    parts = (fold_text(part).strip(_STOPS) for part in _ELLIPSIS.split(quote))
    return tuple(part for part in parts if part)


def places(parts: Sequence[str], text: str, start: int = 0) -> list[tuple[int, int]]:
    """Find the parts of a quote in a folded text, one after the other.

    Args:
        parts: Parts as returned by :func:`quote_parts`.
        text: The folded text.
        start: Index at which to begin.

    Returns:
        Start and end index of each part; empty unless all parts are found.
    """
    found: list[tuple[int, int]] = []
    for part in parts:
        first = text.find(part, start)
        if first < 0:
            return []
        start = first + len(part)
        found.append((first, start))
    return found


def quoted_document(texts: Mapping[str, str]) -> str | None:
    """The document that quotes are compared with: the source, else the contexts; None without both."""
    return texts.get("source") or texts.get("contexts")


def retrieval(quotes: Sequence[str], source: str | None, *, similar: Similar) -> dict[str, float | None]:
    """Measure how well passages of the source support the quotes.

    Definition: docs/definitions/judge.md#retrieval-similarity.

    For each quote, the passage that shares most words with it is retrieved.

    Args:
        quotes: The judge's quotes.
        source: The document as the judge was shown it, or None.
        similar: Compares quotes with passages.

    Returns:
        ``retrieval_reference_count``, the number of distinct passages retrieved, and the mean and maximum
        similarity of quote and passage. All are null without a source; similarities are null, too, without a
        passage or an encoder.
    """
    parts = [] if source is None else _passages_and_words(source)
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
        "retrieval_reference_count": None if source is None else len(retrieved),
        "retrieval_similarity_mean": sum(similarities) / len(similarities) if similarities else None,
        "retrieval_similarity_max": max(similarities) if similarities else None,
    }


@lru_cache(maxsize=16)
def _passages_and_words(source: str) -> list[tuple[str, set[str]]]:
    return [(passage, set(_WORDS.findall(passage.casefold()))) for passage in passages(source)]


def passages(source: str) -> list[str]:
    """Split a document into passages: its paragraphs, long ones split between words."""
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


def fold_text(text: str) -> str:
    """Fold case, remove quotation marks and collapse whitespace."""
    return " ".join(_MARKS.sub("", text.casefold()).split())


@lru_cache(maxsize=64)
def _folded_once(text: str) -> str:
    """Cached :func:`fold_text`, as several dimensions show the same text."""
    return fold_text(text)
