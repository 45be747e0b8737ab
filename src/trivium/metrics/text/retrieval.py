"""Rates which documents an agent retrieved, and in which order, by those that are relevant to the case.

Definition: docs/definitions/retrieval.md#ranking.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log2
from typing import ClassVar, Self

from trivium.agents.contexts import NO_CONTEXTS, Context, contexts_of
from trivium.errors import InputError
from trivium.metrics.metric import NONE_RELEVANT, Metric, MetricInput, Score, Skip
from trivium.metrics.registry import metric
from trivium.suites.settings import Settings


@dataclass(frozen=True, kw_only=True)
class _Retrieval(Metric):
    """A figure of a ranking.

    Attributes:
        k: How many of the first documents count; None for all.
    """

    fixed_case_fields: ClassVar = ("expect.relevant",)
    k: int | None = None

    @classmethod
    def from_settings(cls, settings: Settings) -> Self:
        """Make the metric with the suite's cut-off."""
        return cls(k=settings.retrieval.k)

    def score(self, metric_input: MetricInput) -> Score:
        """Score one attempt. ``detail`` names the relevant documents that were found, and the others."""
        grades = relevant_grades(metric_input.case.expect.relevant)
        if not grades:
            raise Skip("the case names no relevant document")
        try:
            contexts = contexts_of(metric_input.attempt)
        except InputError as wrong:
            raise Skip(f"the retrieved documents cannot be read: {wrong}") from wrong
        if contexts is None:
            raise Skip(NO_CONTEXTS)
        found = ranked(contexts, grades)[: self.k]
        names = [name for name in found if name in grades]
        detail = {"retrieved": len(found), "found": names, "missed": [n for n in grades if n not in names]}
        reason = NONE_RELEVANT if found and not names else None
        value = self.figure([grades.get(name, 0.0) for name in found], grades)
        return self.ok(value, detail=detail, reason=reason)

    def figure(self, gains: Sequence[float], grades: Mapping[str, float]) -> float:
        """Compute the figure.

        Args:
            gains: Grade of each retrieved document in order, 0 if it is not relevant; at most ``k``.
            grades: Grade of each relevant document, above 0; at least one.
        """
        raise NotImplementedError


def relevant_grades(relevant: Sequence[str] | Mapping[str, float]) -> dict[str, float]:
    """Return the grade of each relevant document, above 0, by its id or text; 1 where none is stated."""
    graded = relevant if isinstance(relevant, Mapping) else dict.fromkeys(relevant, 1.0)
    return {_plain(name): float(grade) for name, grade in graded.items() if grade > 0}


def ranked(contexts: Sequence[Context], grades: Mapping[str, float]) -> list[str]:
    """Return the retrieved documents in order, each once: by its id, or by its text where that is relevant.

    A document that comes again, such as another part of it, does not count again, and takes no place.
    """
    names: dict[str, None] = {}
    for each in contexts:
        by_id, text = (None if given is None else _plain(given) for given in (each.id, each.text))
        name = text if by_id is None or (by_id not in grades and text in grades) else by_id
        names[name or ""] = None
    return list(names)


def _plain(name: str) -> str:
    return " ".join(name.split())


@metric("hit_rate")
class HitRate(_Retrieval):
    """Whether any relevant document was retrieved.

    Definition: docs/definitions/retrieval.md#hit-rate.
    """

    def figure(self, gains: Sequence[float], grades: Mapping[str, float]) -> float:
        """1 if a document is relevant, else 0."""
        return float(any(gains))


@metric("retrieval_recall")
class RetrievalRecall(_Retrieval):
    """The share of the relevant documents that was retrieved.

    Definition: docs/definitions/retrieval.md#retrieval-recall.
    """

    def figure(self, gains: Sequence[float], grades: Mapping[str, float]) -> float:
        """Relevant documents retrieved / relevant documents."""
        return sum(gain > 0 for gain in gains) / len(grades)


@metric("retrieval_precision")
class RetrievalPrecision(_Retrieval):
    """The share of the retrieved documents that is relevant.

    Definition: docs/definitions/retrieval.md#retrieval-precision.
    """

    def figure(self, gains: Sequence[float], grades: Mapping[str, float]) -> float:
        """Relevant documents retrieved / ``k``, or documents retrieved; 0 if there are none."""
        return sum(gain > 0 for gain in gains) / (self.k or len(gains) or 1)


@metric("mrr")
class ReciprocalRank(_Retrieval):
    """The reciprocal rank of the first relevant document; its mean over cases is the MRR.

    Definition: docs/definitions/retrieval.md#mrr.
    """

    def figure(self, gains: Sequence[float], grades: Mapping[str, float]) -> float:
        """1 / rank, or 0 without a relevant document."""
        return next((1 / rank for rank, gain in enumerate(gains, start=1) if gain > 0), 0.0)


@metric("ndcg")
class Ndcg(_Retrieval):
    """Normalised discounted cumulative gain: how much of the relevance that could be at the top is there.

    Definition: docs/definitions/retrieval.md#ndcg.
    """

    def figure(self, gains: Sequence[float], grades: Mapping[str, float]) -> float:
        """The gain of the ranking over that of the best one."""
        best = sorted(grades.values(), reverse=True)[: self.k]
        return _discounted(gains) / _discounted(best)


def _discounted(gains: Sequence[float]) -> float:
    return sum(gain / log2(rank + 1) for rank, gain in enumerate(gains, start=1))
