"""Judgement: what came of judging one dimension of one attempt, with its signals (spec: metrics, T2.5)."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from trivium.metrics.judge.models.asking import Answered
from trivium.metrics.judge.prompts.excerpts import Cut
from trivium.metrics.judge.rubrics.scoring import DIGITS, combined_samples, value_of
from trivium.metrics.judge.signals.consistency import consistency
from trivium.metrics.judge.signals.evidence import quotes_found, retrieval
from trivium.metrics.judge.signals.similarity import EvidenceSimilarity
from trivium.metrics.judge.signals.tokens import token_signals
from trivium.suites.rubrics.rubric import Dimension, Scale
from trivium.suites.settings import JudgeSettings


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """What came of judging one dimension of one attempt.

    Attributes:
        status: ok, abstained, skipped (does not apply), or failed (no judge answered).
        value: In [0, 1], when it is ok.
        raw: In the unit of its scale.
        reason: The judge's, or why there is no judgement.
        method: Who judged, where it is not all or the first of those that were named.
        detail: Everything that is recorded of it (T2.5).
    """

    status: Literal["ok", "abstained", "skipped", "failed"]
    value: float | None = None
    raw: Any = None
    reason: str
    method: str | None = None
    detail: dict[str, Any] = {}


def judgement_of(
    dimension: Dimension,
    samples: Sequence[Answered],
    texts: Mapping[str, str],
    cut: Mapping[str, Cut],
    facts: Mapping[str, Any],
    *,
    key: str,
    scale: Scale,
    settings: JudgeSettings,
    similar: EvidenceSimilarity,
) -> Judgement:
    """What the samples of one judge say of one dimension.

    Args:
        dimension: What was judged.
        samples: The answers that came; those without the dimension are left out. Their median counts, and
            the words of the sample that is nearest to it (T2.5).
        texts: What the judge was shown, by name.
        cut: What of them was shown in part, and how much.
        facts: Who judged, and what it took.
        key: What the answers call the dimension.
        scale: How a Likert value becomes a score.
        settings: The suite's.
        similar: How quotes are compared with the source.
    """
    told = [sample.wrong[dimension.name] for sample in samples if dimension.name in sample.wrong]
    samples = [sample for sample in samples if dimension.name in sample.answer]
    if not samples:
        return Judgement(status="failed", reason=f"{facts['model']} {told[0]}")
    answers = [sample.answer[dimension.name] for sample in samples]
    values = [value_of(each, dimension, scale=scale) for each in answers]
    value, raw, nearest = combined_samples(answers, dimension, scale=scale)
    answer, said = answers[nearest], samples[nearest].said[dimension.name]
    there = quotes_found(answer.evidence, texts.values())
    signals: dict[str, Any] = {
        "llm_evidence_count": sum(quote.counts for quote in there),
        "verbalized_confidence": answer.confidence,
        **retrieval([quote.text for quote in there], texts.get("source"), similar=similar),
        **token_signals(said.logprobs, said.text, key, tokens=settings.tokens),
        **consistency(values),
    }
    detail: dict[str, Any] = {
        **facts,
        "reason": answer.reason,
        "evidence": [quote.recorded() for quote in there],
        "evidence_similarity": similar.kind,
        "signals": signals,
    }
    if isinstance(raw, dict) and dimension.criteria:
        detail["criteria"] = {
            name: {"score": score, "explanation": answer.explanations[name]} for name, score in raw.items()
        }
    if shown := {name: msgspec.to_builtins(part) for name, part in cut.items() if name in dimension.sees}:
        detail["shown"] = shown
    if dimension.claims or dimension.aspects:
        each = "claims" if dimension.claims else "aspects"
        detail[each] = msgspec.to_builtins(getattr(answer, each))
        if value is not None:
            detail["level"] = nearest_level(value, dimension.level_values)
    if settings.samples > 1:
        detail["samples"] = values
        detail["samples_asked"] = settings.samples
    if answer.claims and value is None:
        why = "what the claims rest on was not shown to the judge (judge.excerpt_chars)"
        return Judgement(status="abstained", raw=raw, reason=why, detail=detail)
    if (dimension.claims or dimension.aspects) and value is None:
        why = "the output makes no claim" if dimension.claims else "nothing is asked for"
        return Judgement(status="skipped", reason=why, detail=detail)
    return Judgement(
        status="ok" if value is not None else "abstained",
        value=value,
        raw=raw,
        reason=answer.reason or "the judge gave no reason",
        detail=detail,
    )


def nearest_level(value: float, levels: dict[str, float]) -> str:
    """The level whose value is nearest; ties go down (spec: metrics, T2.4)."""
    return min(levels, key=lambda name: (round(abs(levels[name] - value), DIGITS), levels[name]))


def taken(samples: Sequence[Answered], dimensions: int) -> dict[str, Any]:
    """What the request took, which its dimensions share."""
    costs = [sample.cost_usd for sample in samples]
    known = [cost for cost in costs if cost is not None]
    return {
        "tokens": {
            "input": sum(sample.input_tokens for sample in samples),
            "output": sum(sample.output_tokens for sample in samples),
        },
        "cost_usd": sum(known) if len(known) == len(costs) else None,
        "latency_seconds": max(sample.seconds for sample in samples),
        "requests": sum(sample.requests for sample in samples),
        "shared_by": dimensions,
    }
