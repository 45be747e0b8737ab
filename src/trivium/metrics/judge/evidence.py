"""Finds a judge's quotes in the texts it was shown, and measures how similar they are to the source.

The similarity (by words or by encoder) is a setting of the run and recorded with each judgement. Without the
encoder the similarities are null: the other measure in its place would mean something else.
"""

import logging
import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from threading import Lock
from typing import Any, Literal, NamedTuple

from trivium.agents.attempt import Attempt
from trivium.metrics.metric import MetricInput, TextMetric
from trivium.metrics.registry import metric_class
from trivium.suites.case import Case
from trivium.suites.settings import Settings

log = logging.getLogger(__name__)

Similar = Callable[[Sequence[tuple[str, str]]], list[float] | None]
"""Similarities of (quote, passage) pairs, in order; None where they cannot be had."""

METRICS = {"cosine": "cosine", "encoder": "semantic"}


class EvidenceSimilarity:
    """Compares quotes with passages: by words (T1.1), or by the encoder of the text tier (T1.3).

    Args:
        kind: Which; also how a judgement records it.
        encoder: The suite's, or None for the default one.
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
        """Similarities in [0, 1]; None without the encoder, which is said once."""
        if self.kind == "cosine":
            return [self._metric.compare(quote, passage) for quote, passage in pairs]
        subjects = [
            MetricInput(
                Case(id="quote", input=None, references=(passage,)), Attempt(case="quote", output=quote)
            )
            for quote, passage in pairs
        ]
        with self._lock:  # an encoder is one for all threads
            scores = [] if self._off else self._metric.score_many(subjects)
            values = [score.value for score in scores if score.value is not None]
            if len(values) == len(pairs):
                return values
            if not self._off:
                self._off = True
                log.warning("evidence is not compared with the source: %s", scores[0].reason)
        return None


PASSAGE_CHARS = 500
LEAST_WORDS = 3
"""Of a quote that counts as evidence: shorter ones occur by chance."""

QUOTATION_MARKS = frozenset("\"'`´‘’‚‛“”„‟«»‹›「」『』＂＇")
"""Which texts and quotes may have unlike; apostrophes are written with the same characters."""

_MARKS = re.compile(f"[{''.join(QUOTATION_MARKS)}]")
_ELLIPSIS = re.compile(r"[\[(]?(?:\.{3,}|…)[\])]?")
_STOPS = " .,;:!?…"
_WORDS = re.compile(r"\w+")
_COUNTED = re.compile(
    r"[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff]|[^\W\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff]+"
)
"""A word; of a script that has no spaces between words, a character."""


class Quote(NamedTuple):
    """A quote of a judge.

    Attributes:
        text: In its words.
        found: Whether it occurs in what the judge was shown.
        counts: Whether it is evidence, too: it is not too short.
    """

    text: str
    found: bool
    counts: bool

    def recorded(self) -> dict[str, Any]:
        """As it stands in a judgement's detail."""
        short = {"too_short": True} if self.found and not self.counts else {}
        return {"quote": self.text, "found": self.found, **short}


def quotes_found(quotes: Sequence[str], shown: Iterable[str]) -> list[Quote]:
    """Each distinct quote, and whether it occurs in a text that the judge was shown.

    Case, whitespace, quotation marks and a final stop make no difference; of a quote with an ellipsis the
    parts occur one after the other. A quote of fewer than three words counts only where the text that it
    stands in has no more (spec: metrics, T2.5).

    Args:
        quotes: What the judge cites.
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
        long = len(_COUNTED.findall(" ".join(parts))) >= LEAST_WORDS
        counts = any(long or len(_COUNTED.findall(text)) < LEAST_WORDS for text in within)
        found.append(Quote(quote, bool(within), counts))
    return found


def quote_parts(quote: str) -> tuple[str, ...]:
    """What has to occur of a quote, folded: all of it, or what stands between ellipses."""
    parts = (fold_text(part).strip(_STOPS) for part in _ELLIPSIS.split(quote))
    return tuple(part for part in parts if part)


def places(parts: Sequence[str], text: str, start: int = 0) -> list[tuple[int, int]]:
    """Where the parts of a quote stand in a folded text one after the other; nowhere unless all do.

    Args:
        parts: As :func:`quote_parts` gives them.
        text: Folded.
        start: Where to begin.
    """
    found: list[tuple[int, int]] = []
    for part in parts:
        first = text.find(part, start)
        if first < 0:
            return []
        start = first + len(part)
        found.append((first, start))
    return found


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
    parts = _passages_and_words(source)
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


@lru_cache(maxsize=16)
def _passages_and_words(source: str) -> list[tuple[str, set[str]]]:
    return [(passage, set(_WORDS.findall(passage.casefold()))) for passage in passages(source)]


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


def fold_text(text: str) -> str:
    """A text with its case folded, no quotation marks, and every run of whitespace a single space."""
    return " ".join(_MARKS.sub("", text.casefold()).split())


@lru_cache(maxsize=64)
def _folded_once(text: str) -> str:
    """The same, once for all dimensions that show a text."""
    return fold_text(text)
