"""Combines the votes of several judges into one judgement."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean, median, median_low
from typing import Any

import msgspec

from trivium.metrics.judge.evidence import quote_parts
from trivium.metrics.judge.judgement import DIGITS, Judgement, nearest_level
from trivium.metrics.judge.signals import consistency
from trivium.metrics.metric import Score
from trivium.suites.rubrics.rubric import Dimension

TOKEN_SIGNALS = ("token_msp", "token_pe", "token_energy")

_OF_THE_REQUEST = frozenset({"prompt", "shared_by", "evidence_similarity", "reason", "shown"})
"""What all votes share, or what stands elsewhere in them."""


class Vote(msgspec.Struct, frozen=True, kw_only=True):
    """The vote of one judge of a panel on one dimension.

    Attributes:
        model: Who.
        judgement: What.
    """

    model: str
    judgement: Judgement

    @property
    def value(self) -> float | None:
        """The score, None where the judge abstained."""
        return self.judgement.value


class Missing(msgspec.Struct, frozen=True, kw_only=True):
    """A model without a usable answer.

    Attributes:
        model: Who.
        reason: Why not.
    """

    model: str
    reason: str

    def __str__(self) -> str:
        return self.reason


def combined(
    dimension: Dimension,
    votes: Sequence[Vote],
    missing: Sequence[Missing],
    *,
    backed: Callable[[Sequence[str]], Mapping[str, Any]],
) -> Judgement:
    """Combine the votes of a panel on one dimension.

    The score is the median of the scores, a level the one that a strict majority of the votes is for. Where
    not even a strict majority of the votes has a score, or no level has one, the panel abstains. Reason and
    explanations are those of the vote that is nearest to the median, the first of them.

    Args:
        dimension: What was judged.
        votes: One at least, in the order of the models.
        missing: The judges that gave none: the panel is smaller by them.
        backed: What the source says to quotes, as signals.
    """
    value = _value(dimension, votes)
    spokesman = _nearest(votes, value)
    own = spokesman.judgement
    quotes = _quotes(votes)
    criteria = _criteria(votes, own)
    detail: dict[str, Any] = {
        "model": " + ".join(vote.model for vote in votes),
        "prompt": own.detail.get("prompt"),
        **_taken(votes),
        "panel": {
            "asked": len(votes) + len(missing),
            "voted": len(votes),
            "failed": [msgspec.to_builtins(each) for each in missing],
        },
        "reason": own.detail.get("reason"),
        "reason_by": spokesman.model,
        "evidence": quotes,
        "evidence_similarity": own.detail.get("evidence_similarity"),
        "signals": _signals(votes, quotes, backed),
        "votes": [_kept(vote) for vote in votes],
    }
    left_out = ", ".join(each.model for each in missing)
    method = f"{detail['model']} without {left_out}" if missing else None
    raw: Any = None if value is None else own.raw
    if criteria:
        detail["criteria"] = criteria
        raw = {name: each["score"] for name, each in criteria.items()}
    for each in ("claims", "aspects", "shown"):
        if each in own.detail:
            detail[each] = own.detail[each]
    if value is None:
        without = {vote.judgement.status for vote in votes if vote.value is None}
        skipped = without == {"skipped"}
        return Judgement(
            status="skipped" if skipped else "abstained",
            raw=raw,
            reason=own.reason if skipped else _why_not(dimension, votes),
            method=method,
            detail=detail,
        )
    if not dimension.criteria:
        detail["level"] = nearest_level(value, dimension.level_values)
    return Judgement(status="ok", value=value, raw=raw, reason=own.reason, method=method, detail=detail)


def _value(dimension: Dimension, votes: Sequence[Vote]) -> float | None:
    numbers = [vote.value for vote in votes if vote.value is not None]
    if 2 * len(numbers) <= len(votes):
        return None
    if dimension.criteria or dimension.claims or dimension.aspects:
        return round(float(median(numbers)), DIGITS)
    level, count = Counter(vote.judgement.raw for vote in votes if vote.value is not None).most_common(1)[0]
    return dimension.level_values[level] if 2 * count > len(votes) else None


def _nearest(votes: Sequence[Vote], value: float | None) -> Vote:
    if value is None:
        return next((vote for vote in votes if vote.value is None), votes[0])
    there = [(abs(vote.value - value), place) for place, vote in enumerate(votes) if vote.value is not None]
    return votes[min(there)[1]]


def _why_not(dimension: Dimension, votes: Sequence[Vote]) -> str:
    scored = sum(vote.value is not None for vote in votes)
    if 2 * scored <= len(votes):
        return f"{len(votes) - scored} of {len(votes)} judges abstained"
    counts = Counter(str(vote.judgement.raw) for vote in votes if vote.value is not None)
    told = ", ".join(f"{count} for {level}" for level, count in counts.most_common())
    return f"no level of {dimension.name} has a majority of {len(votes)} judges: {told}"


def _criteria(votes: Sequence[Vote], own: Judgement) -> dict[str, dict[str, Any]]:
    """Median of each criterion over the judges that scored it, explained by one of them."""
    found: dict[str, dict[str, Any]] = {}
    for name, each in own.detail.get("criteria", {}).items():
        given = [vote.judgement.detail["criteria"][name]["score"] for vote in votes]
        scores = [score for score in given if score is not None]
        enough = 2 * len(scores) > len(votes)
        found[name] = {"score": median(scores) if enough else None, "explanation": each["explanation"]}
    return found


def _quotes(votes: Sequence[Vote]) -> list[dict[str, Any]]:
    """Every quote of every judge, once however it is written, and whether it is there."""
    found: dict[tuple[str, ...], dict[str, Any]] = {}
    for vote in votes:
        for each in vote.judgement.detail.get("evidence", ()):
            found.setdefault(quote_parts(each["quote"]), each)
    return list(found.values())


def _signals(
    votes: Sequence[Vote],
    quotes: Sequence[Mapping[str, Any]],
    backed: Callable[[Sequence[str]], Mapping[str, Any]],
) -> dict[str, Any]:
    """The signals of the panel as a whole.

    Evidence is that of all judges together, confidence in words the lower median, token signals the mean of
    the judges that have them, consistency that of all samples of all judges. How far the judges agree is
    measured as for samples, over the votes.
    """
    each = [vote.judgement.detail.get("signals", {}) for vote in votes]
    told = [signals["verbalized_confidence"] for signals in each if "verbalized_confidence" in signals]
    signals: dict[str, Any] = {
        "llm_evidence_count": sum(each["found"] and not each.get("too_short") for each in quotes),
        "verbalized_confidence": median_low(told) if told else None,
        **backed([each["quote"] for each in quotes]),
    }
    for name in TOKEN_SIGNALS:
        known = [one[name] for one in each if one.get(name) is not None]
        signals[name] = fmean(known) if known else None
    samples = [value for vote in votes for value in vote.judgement.detail.get("samples", [vote.value])]
    signals |= consistency(samples)
    among = consistency([vote.value for vote in votes])
    return signals | {
        "panel_agreement": among["consistency_modal_confidence"],
        "panel_score_std": among["consistency_score_std"],
        "panel_na_rate": among["consistency_na_rate"],
    }


def _taken(votes: Sequence[Vote]) -> dict[str, Any]:
    """Sum the usage of all votes; the cost is unknown if one is."""
    each = [vote.judgement.detail for vote in votes]
    costs = [detail.get("cost_usd") for detail in each]
    known = [cost for cost in costs if cost is not None]
    return {
        "tokens": {way: sum(detail["tokens"][way] for detail in each) for way in ("input", "output")},
        "cost_usd": sum(known) if len(known) == len(costs) else None,
        "latency_seconds": max(detail["latency_seconds"] for detail in each),
        "requests": sum(detail["requests"] for detail in each),
        "shared_by": each[0]["shared_by"],
    }


def _kept(vote: Vote) -> dict[str, Any]:
    """A vote as it is recorded."""
    judgement = vote.judgement
    detail = {name: value for name, value in judgement.detail.items() if name not in _OF_THE_REQUEST}
    return detail | {
        "model": vote.model,
        "status": judgement.status,
        "value": judgement.value,
        "raw": judgement.raw,
        "reason": judgement.reason,
    }


def by_judge(scores: Mapping[str, Score], weights: Mapping[str, float]) -> dict[str, float]:
    """The weighted mean of each judge of a panel, over the dimensions that it scored; empty without a panel.

    Args:
        scores: Of a rubric's dimensions.
        weights: Of the same dimensions.
    """
    sums: dict[str, float] = {}
    totals: dict[str, float] = {}
    for name, score in scores.items():
        for vote in score.detail.get("votes", ()):
            if vote["value"] is not None:
                model = vote["model"]
                sums[model] = sums.get(model, 0.0) + weights[name] * vote["value"]
                totals[model] = totals.get(model, 0.0) + weights[name]
    return {model: round(total / totals[model], DIGITS) for model, total in sums.items()}


def majority(verdicts: Sequence[bool]) -> bool | None:
    """Return the majority, or None if there is none."""
    passed = sum(verdicts)
    if 2 * passed == len(verdicts):
        return None
    return 2 * passed > len(verdicts)
