"""Similarity of a quote and the passage it rests on, by a metric of the text tier (spec: metrics, T2.5).

Which one is a setting of the run and recorded with each judgement. Where the encoder cannot be had the
similarities are null: the other one in its place would mean something else.
"""

import logging
from collections.abc import Callable, Sequence
from threading import Lock
from typing import Literal

from trivium.agents.attempt import Attempt
from trivium.metrics.metric import Subject, TextMetric
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
            Subject(Case(id="quote", input=None, references=(passage,)), Attempt(case="quote", output=quote))
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
