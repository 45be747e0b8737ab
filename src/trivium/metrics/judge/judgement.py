"""The judgement of one dimension, and how answers become scores in [0, 1]."""

from collections.abc import Mapping, Sequence
from statistics import median, median_low
from typing import Any, Literal, NamedTuple

import msgspec

from trivium.metrics.judge.client.structured_output import Answered
from trivium.metrics.judge.evidence import EvidenceSimilarity, quotes_found, retrieval
from trivium.metrics.judge.prompts.answer import VERDICTS, Answer, Aspect, Claim
from trivium.metrics.judge.prompts.context import Cut
from trivium.metrics.judge.signals import consistency, token_signals
from trivium.suites.rubrics.rubric import LIKERT_MOST, Dimension, Scale
from trivium.suites.settings import JudgeSettings


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """The judgement of one dimension of one attempt.

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
    """Combine the samples of one judge into the judgement of one dimension.

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
    """Usage of the request, which its dimensions share."""
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


VERDICT_VALUES = {"supported": 1.0, "partly": 0.5, "contradicted": 0.0, "unverifiable": 0.0}
"""Of a claim about what was not shown nothing is known: it has no part in the score."""

COVERED_VALUES = {"yes": 1.0, "partly": 0.5, "no": 0.0}
DIGITS = 12
"""Decimals of a score: without the rest, which is rounding, equal scores are equal numbers."""

IMPORTANCE_WEIGHTS = {"major": 2.0, "minor": 1.0}


def likert_values(step: float) -> tuple[float, ...]:
    """The values of a criterion, 1 to 5; whole numbers stay whole, as a schema wants them."""
    count = round((LIKERT_MOST - 1) / step)
    values = [round(1 + index * step, 9) for index in range(count + 1)]  # 1.6, not a hair more
    return tuple(int(value) for value in values) if step == 1 else tuple(float(value) for value in values)


def value_of(answer: Answer, dimension: Dimension, *, scale: Scale) -> float | None:
    """The score of an answer in [0, 1]; None when the judge abstains, or found no claim or aspect."""
    if dimension.claims:
        return _of_claims(answer.claims)
    if dimension.aspects:
        return _of_aspects(answer.aspects)
    if dimension.criteria:
        return _of_criteria(answer, dimension, scale)
    return None if answer.level is None else dimension.level_values[answer.level]


class Combined(NamedTuple):
    """Several answers to one question, combined.

    Attributes:
        value: The score, None where they abstain.
        raw: In its natural unit, see :func:`raw_of`.
        nearest: Which of the answers is nearest to it, the first of them: its words explain the score.
    """

    value: float | None
    raw: object
    nearest: int


def combined_samples(answers: Sequence[Answer], dimension: Dimension, *, scale: Scale) -> Combined:
    """The median of several samples of one judge (spec: metrics, T2.5).

    Of each criterion the median over the samples that scored it, then the weighted mean; of levels the lower
    middle one; of claims and aspects, which every sample finds for itself, the median of the scores. What not
    more than half of the samples scored is abstained from, as by a panel. One sample stays as it is.

    Args:
        answers: One at least.
        dimension: What was judged.
        scale: How a Likert value becomes a score.
    """
    values = [value_of(answer, dimension, scale=scale) for answer in answers]
    if dimension.claims or dimension.aspects:
        value = _middle(values, len(values))
        nearest = _nearest(values, value)
        return Combined(value, raw_of(answers[nearest], dimension), nearest)
    if dimension.criteria:
        criteria = {
            each.name: _middle([answer.criteria[each.name] for answer in answers], len(answers))
            for each in dimension.criteria
        }
        together = msgspec.structs.replace(answers[0], criteria=criteria)
    else:
        chosen = [answer.level for answer in answers if answer.level is not None]
        level = None
        if 2 * len(chosen) > len(answers):
            level = _level_of(
                median_low([dimension.level_values[each] for each in chosen]), chosen, dimension
            )
        together = msgspec.structs.replace(answers[0], level=level)
    value = value_of(together, dimension, scale=scale)
    return Combined(value, raw_of(together, dimension), _nearest(values, value))


def _middle(values: Sequence[float | None], asked: int) -> float | None:
    """The median of the values that are there, None where these are not more than half of those asked for."""
    there = [value for value in values if value is not None]
    return round(float(median(there)), DIGITS) if 2 * len(there) > asked else None


def _level_of(value: float, chosen: Sequence[str], dimension: Dimension) -> str:
    return next(level for level in chosen if dimension.level_values[level] == value)


def _nearest(values: Sequence[float | None], value: float | None) -> int:
    """Where the first value stands that is nearest to another; None is nearest to None."""
    if value is None:
        return values.index(None)
    there = [(abs(each - value), place) for place, each in enumerate(values) if each is not None]
    return min(there)[1] if there else 0


def raw_of(answer: Answer, dimension: Dimension) -> object:
    """The answer in its natural unit: values 1 to 5, a level, or verdicts counted."""
    if dimension.aspects:
        return {
            covered: sum(each.covered == covered for each in answer.aspects) for covered in COVERED_VALUES
        }
    if dimension.claims:
        return {verdict: sum(claim.verdict == verdict for claim in answer.claims) for verdict in VERDICTS}
    return answer.criteria or answer.level


def _of_criteria(answer: Answer, dimension: Dimension, scale: Scale) -> float | None:
    total = sum(criterion.weight for criterion in dimension.criteria)
    mean = 0.0
    for criterion in dimension.criteria:
        value = answer.criteria[criterion.name]
        if value is None:
            return None
        mean += criterion.weight / total * value
    score = mean / LIKERT_MOST if scale == "ratio" else (mean - 1) / (LIKERT_MOST - 1)
    return round(score, DIGITS)


def _of_claims(claims: Sequence[Claim]) -> float | None:
    claims = [claim for claim in claims if claim.verdict in VERDICT_VALUES]
    total = sum(IMPORTANCE_WEIGHTS[claim.importance] for claim in claims)
    if not claims:
        return None
    found = sum(IMPORTANCE_WEIGHTS[claim.importance] * VERDICT_VALUES[claim.verdict] for claim in claims)
    return round(found / total, DIGITS)


def _of_aspects(aspects: Sequence[Aspect]) -> float | None:
    """The share that is covered; an aspect that is partly covered counts half."""
    if not aspects:
        return None
    return round(sum(COVERED_VALUES[each.covered] for each in aspects) / len(aspects), DIGITS)
