"""Turns the answers of a judge into the judgement of one dimension, with a score in [0, 1]."""

from collections.abc import Mapping, Sequence
from statistics import median, median_low
from typing import Any, Literal, NamedTuple

import msgspec

from trivium.metrics.judge.client.providers import Cause
from trivium.metrics.judge.client.structured_output import StructuredAnswer
from trivium.metrics.judge.evidence import (
    EvidenceSimilarity,
    Quote,
    find_quotes,
    quoted_document,
    retrieval,
    turn_of,
)
from trivium.metrics.judge.prompts.answer import VERDICTS, Answer, Aspect, Claim
from trivium.metrics.judge.prompts.context import Context
from trivium.metrics.judge.signals import consistency, token_signals
from trivium.suites.rubrics.rubric import LIKERT_MOST, Dimension, Scale
from trivium.suites.settings import JudgeSettings
from trivium.values import JsonObject


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """The judgement of one dimension of one attempt.

    Attributes:
        status: ok, abstained, skipped (does not apply), or failed (no judge answered).
        value: Score in [0, 1] if ``status`` is ok.
        raw: The answer in the unit of its scale.
        reason: The judge's reason, or why there is no judgement.
        method: The models that judged, if not all of a panel or the first of a list.
        detail: The recorded details, such as ``signals``.
        missing: Whether a skipped judgement counts as missing.
    """

    status: Literal["ok", "abstained", "skipped", "failed"]
    value: float | None = None
    raw: Any = None
    reason: str
    method: str | None = None
    detail: JsonObject = {}
    missing: bool = False


def unjudged(model: str, why: str, cause: Cause = "unusable") -> Judgement:
    """The judgement of one model that gave none."""
    return Judgement(status="failed", reason=why, detail={"model": model, "unjudged": cause})


def _recorded(quote: Quote, context: Context) -> dict[str, object]:
    """A quote as recorded, with the turn of the conversation that it is from."""
    turn = turn_of(quote.text, context.texts.get("conversation"))
    return quote.recorded() | ({} if turn is None else {"turn": turn})


def judgement_of(
    dimension: Dimension,
    samples: Sequence[StructuredAnswer],
    context: Context,
    facts: Mapping[str, Any],
    *,
    key: str,
    scale: Scale,
    settings: JudgeSettings,
    similar: EvidenceSimilarity,
) -> Judgement:
    """Combine the samples of one judge into the judgement of one dimension.

    Args:
        dimension: The dimension.
        samples: The samples; those without the dimension are left out. The score is their median, the reason
            that of the sample nearest to it (docs/definitions/judge.md#samples).
        context: The texts that the judge was shown.
        facts: Model and usage, to record.
        key: Key of the dimension in the answers.
        scale: How a Likert value becomes a score.
        settings: The suite's settings.
        similar: Compares quotes with passages of the source.
    """
    errors = [sample.errors[dimension.name] for sample in samples if dimension.name in sample.errors]
    samples = [sample for sample in samples if dimension.name in sample.answer]
    if not samples:
        return unjudged(facts["model"], f"{facts['model']} {errors[0]}")
    answers = [sample.answer[dimension.name] for sample in samples]
    values = [value_of(each, dimension, scale=scale) for each in answers]
    value, raw, nearest = combine_samples(answers, dimension, scale=scale)
    answer, response = answers[nearest], samples[nearest].response_of[dimension.name]
    quotes = find_quotes(answer.evidence, context.texts.values())
    signals: dict[str, float | None] = {
        "llm_evidence_count": sum(quote.counts for quote in quotes),
        "verbalized_confidence": answer.confidence,
        **retrieval([quote.text for quote in quotes], quoted_document(context.texts), similar=similar),
        **token_signals(response.logprobs, response.text, key, tokens=settings.tokens),
        **consistency(values),
    }
    detail = {
        **facts,
        "reason": answer.reason,
        "evidence": [_recorded(quote, context) for quote in quotes],
        "evidence_similarity": similar.kind,
        "signals": signals,
    }
    if isinstance(raw, dict) and dimension.criteria:
        detail["criteria"] = {
            name: {"score": score, "explanation": answer.explanations[name]} for name, score in raw.items()
        }
    if answer.not_given:
        detail["not_given"] = list(answer.not_given)
    if shown := {name: part for name, part in context.cut.items() if name in dimension.sees}:
        detail["shown"] = msgspec.to_builtins(shown)
    if dimension.claims or dimension.aspects:
        detail |= _parts(dimension, answer, value)
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


def _parts(dimension: Dimension, answer: Answer, value: float | None) -> dict[str, object]:
    """The claims or aspects of an answer, and the level that is nearest to their value."""
    each = "claims" if dimension.claims else "aspects"
    level = {} if value is None else {"level": nearest_level(value, dimension.level_values)}
    return {each: msgspec.to_builtins(getattr(answer, each))} | level


def nearest_level(value: float, levels: dict[str, float]) -> str:
    """Return the level whose value is nearest; a tie goes to the lower one.

    Definition: docs/definitions/judge.md#levels.
    """
    return min(levels, key=lambda name: (round(abs(levels[name] - value), DIGITS), levels[name]))


def usage_of(samples: Sequence[StructuredAnswer], dimensions: int) -> dict[str, object]:
    """Sum up the usage of the samples, which the judged dimensions share."""
    results = [result for sample in samples for result in sample.results]
    responses = [result.response for result in results]
    known = [response.cost_usd for response in responses if response.cost_usd is not None]
    return {
        "tokens": {
            "input": sum(response.input_tokens for response in responses),
            "output": sum(response.output_tokens for response in responses),
        },
        "cost_usd": sum(known) if len(known) == len(responses) else None,
        "latency_seconds": max(sample.seconds for sample in samples),
        "requests": sum(result.requests for result in results),
        "shared_by": dimensions,
    }


VERDICT_VALUES = {"supported": 1.0, "partly": 0.5, "contradicted": 0.0, "unverifiable": 0.0}
"""Scores of verdicts. A claim about a part that was not shown is left out."""

COVERED_VALUES = {"yes": 1.0, "partly": 0.5, "no": 0.0}
IMPORTANCE_WEIGHTS = {"major": 2.0, "minor": 1.0}

DIGITS = 12
"""Decimals to which scores are rounded, so that equal scores are equal numbers."""


def likert_scale(step: float) -> tuple[float, ...]:
    """Return the values of a criterion from 1 to 5; integers for a step of 1, as the schema needs them."""
    count = round((LIKERT_MOST - 1) / step)
    values = [round(1 + index * step, 9) for index in range(count + 1)]  # without rounding errors
    return tuple(int(value) for value in values) if step == 1 else tuple(float(value) for value in values)


def value_of(answer: Answer, dimension: Dimension, *, scale: Scale) -> float | None:
    """Score of an answer in [0, 1]; None if the judge abstains, or finds no claim or aspect.

    Definitions: docs/definitions/judge.md#likert, docs/definitions/judge.md#levels,
    docs/definitions/judge.md#claims, docs/definitions/judge.md#aspects.
    """
    if dimension.claims:
        return _claims_score(answer.claims)
    if dimension.aspects:
        return _aspects_score(answer.aspects)
    if dimension.criteria:
        return _criteria_score(answer, dimension, scale)
    return None if answer.level is None else dimension.level_values[answer.level]


class CombinedSamples(NamedTuple):
    """Several answers to one question, combined.

    Attributes:
        value: The score, or None for an abstention.
        raw: The score in its natural unit, see :func:`raw_of`.
        nearest: Index of the answer nearest to the score, whose reason is shown.
    """

    value: float | None
    raw: object
    nearest: int


def combine_samples(answers: Sequence[Answer], dimension: Dimension, *, scale: Scale) -> CombinedSamples:
    """Take the median of several samples of one judge (docs/definitions/judge.md#samples).

    For criteria: the median of each over the samples that scored it, then their weighted mean. For levels:
    the lower median. For claims and aspects, which every sample lists for itself: the median of the scores.
    If half of the samples or fewer have a value, the result is an abstention. A single sample is unchanged.

    Args:
        answers: At least one answer.
        dimension: The dimension.
        scale: How a Likert value becomes a score.
    """
    values = [value_of(answer, dimension, scale=scale) for answer in answers]
    if dimension.claims or dimension.aspects:
        value = majority_median(values, len(values))
        nearest = nearest_place(values, value)
        return CombinedSamples(value, raw_of(answers[nearest], dimension), nearest)
    if dimension.criteria:
        criteria = {
            each.name: majority_median([answer.criteria[each.name] for answer in answers], len(answers))
            for each in dimension.criteria
        }
        combined = msgspec.structs.replace(answers[0], criteria=criteria)
    else:
        chosen = [answer.level for answer in answers if answer.level is not None]
        level = None
        if 2 * len(chosen) > len(answers):
            level = _level_with(
                median_low([dimension.level_values[each] for each in chosen]), chosen, dimension
            )
        combined = msgspec.structs.replace(answers[0], level=level)
    value = value_of(combined, dimension, scale=scale)
    return CombinedSamples(value, raw_of(combined, dimension), nearest_place(values, value))


def majority_median(values: Sequence[float | None], asked: int) -> float | None:
    """Median of the values that are not None; None if at most half of the requested values remain."""
    known = [value for value in values if value is not None]
    return round(float(median(known)), DIGITS) if 2 * len(known) > asked else None


def _level_with(value: float, chosen: Sequence[str], dimension: Dimension) -> str:
    return next(level for level in chosen if dimension.level_values[level] == value)


def nearest_place(values: Sequence[float | None], value: float | None) -> int:
    """Index of the first value that is nearest to ``value``; None is nearest to None, 0 if there is none."""
    if value is None:
        return next((index for index, each in enumerate(values) if each is None), 0)
    distances = [(abs(each - value), index) for index, each in enumerate(values) if each is not None]
    return min(distances)[1] if distances else 0


def raw_of(answer: Answer, dimension: Dimension) -> object:
    """The answer in its natural unit: values from 1 to 5, a level, or counts of verdicts."""
    if dimension.aspects:
        return {
            covered: sum(each.covered == covered for each in answer.aspects) for covered in COVERED_VALUES
        }
    if dimension.claims:
        return {verdict: sum(claim.verdict == verdict for claim in answer.claims) for verdict in VERDICTS}
    return answer.criteria or answer.level


def _criteria_score(answer: Answer, dimension: Dimension, scale: Scale) -> float | None:
    total = sum(criterion.weight for criterion in dimension.criteria)
    mean = 0.0
    for criterion in dimension.criteria:
        value = answer.criteria[criterion.name]
        if value is None:
            return None
        mean += criterion.weight / total * value
    score = mean / LIKERT_MOST if scale == "ratio" else (mean - 1) / (LIKERT_MOST - 1)
    return round(score, DIGITS)


def _claims_score(claims: Sequence[Claim]) -> float | None:
    claims = [claim for claim in claims if claim.verdict in VERDICT_VALUES]
    total = sum(IMPORTANCE_WEIGHTS[claim.importance] for claim in claims)
    if not claims:
        return None
    found = sum(IMPORTANCE_WEIGHTS[claim.importance] * VERDICT_VALUES[claim.verdict] for claim in claims)
    return round(found / total, DIGITS)


def _aspects_score(aspects: Sequence[Aspect]) -> float | None:
    """Share of the aspects that are covered; a partly covered one counts half."""
    if not aspects:
        return None
    return round(sum(COVERED_VALUES[each.covered] for each in aspects) / len(aspects), DIGITS)
