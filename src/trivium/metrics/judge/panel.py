"""Combines the votes of several judges into one judgement."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean, median_low
from typing import Any

from trivium.metrics.judge.evidence import quote_parts
from trivium.metrics.judge.judgement import DIGITS, Judgement, majority_median, nearest_level, nearest_place
from trivium.metrics.judge.signals import consistency
from trivium.metrics.metric import Score
from trivium.suites.rubrics.rubric import Dimension

TOKEN_SIGNALS = ("token_msp", "token_pe", "token_energy")

_SHARED_FIELDS = frozenset({"prompt", "shared_by", "evidence_similarity", "reason", "shown"})
"""Details that all votes share, or that a vote records elsewhere."""


def no_judgement(failures: Sequence[Judgement]) -> Judgement:
    """Combine the judgements of models of which none judged, to why there is no judgement."""
    why_not = "; ".join(each.reason for each in failures) or "judge.models names none"
    causes = [each.detail["unjudged"] for each in failures]
    # Of several, the one that may pass: then it is worth asking again.
    cause = "failing" if "failing" in causes else causes[0] if causes else "unavailable"
    detail = {"unjudged": cause} | ({"cut": True} if "cut" in causes else {})
    return Judgement(status="failed", reason=f"no judge: {why_not}", detail=detail)


def combine_votes(
    dimension: Dimension,
    judgements: Sequence[Judgement],
    *,
    retrieval_signals: Callable[[Sequence[str]], Mapping[str, float | None]],
) -> Judgement:
    """Combine the judgements of a panel's models, their votes, on one dimension.

    Definition: docs/definitions/judge.md#panel.

    The score is the median of the scores; a level needs a strict majority of the votes. The panel abstains if
    half of the votes or fewer have a score, or if no level has a majority. Reason and explanations come from
    the vote nearest to the median, the first if there are several.

    Args:
        dimension: The dimension.
        judgements: One of each model, in their order; those that failed have no vote.
        retrieval_signals: Computes the evidence signals of some quotes.
    """
    votes = [each for each in judgements if each.status != "failed"]
    failures = [each for each in judgements if each.status == "failed"]
    if not votes:
        return no_judgement(failures)
    value = _value(dimension, votes)
    chosen = votes[nearest_place([vote.value for vote in votes], value)]
    quotes = _quotes(votes)
    criteria = _criteria(votes, chosen)
    detail = {
        "model": " + ".join(vote.detail["model"] for vote in votes),
        "prompt": chosen.detail.get("prompt"),
        **_usage(votes),
        "panel": {
            "asked": len(judgements),
            "voted": len(votes),
            "failed": [
                {"model": each.detail["model"], "reason": each.reason, "cause": each.detail["unjudged"]}
                for each in failures
            ],
        },
        "reason": chosen.detail.get("reason"),
        "reason_by": chosen.detail["model"],
        "evidence": quotes,
        "evidence_similarity": chosen.detail.get("evidence_similarity"),
        "signals": _signals(votes, quotes, retrieval_signals),
        "votes": [_vote_record(vote) for vote in votes],
    }
    left_out = ", ".join(each.detail["model"] for each in failures)
    method = f"{detail['model']} without {left_out}" if failures else None
    raw: Any = None if value is None else chosen.raw
    if criteria:
        detail["criteria"] = criteria
        raw = {name: each["score"] for name, each in criteria.items()}
    for each in ("claims", "aspects", "shown", "not_given"):
        if each in chosen.detail:
            detail[each] = chosen.detail[each]
    if value is None:
        unscored = {vote.status for vote in votes if vote.value is None}
        skipped = unscored == {"skipped"}
        return Judgement(
            status="skipped" if skipped else "abstained",
            raw=raw,
            reason=chosen.reason if skipped else _why_not(dimension, votes),
            method=method,
            detail=detail,
        )
    if not dimension.criteria:
        detail["level"] = nearest_level(value, dimension.level_values)
    return Judgement(status="ok", value=value, raw=raw, reason=chosen.reason, method=method, detail=detail)


def _value(dimension: Dimension, votes: Sequence[Judgement]) -> float | None:
    middle = majority_median([vote.value for vote in votes], len(votes))
    if middle is None or dimension.criteria or dimension.claims or dimension.aspects:
        return middle
    level, count = Counter(vote.raw for vote in votes if vote.value is not None).most_common(1)[0]
    return dimension.level_values[level] if 2 * count > len(votes) else None


def _why_not(dimension: Dimension, votes: Sequence[Judgement]) -> str:
    scored = sum(vote.value is not None for vote in votes)
    if 2 * scored <= len(votes):
        return f"{len(votes) - scored} of {len(votes)} judges abstained"
    counts = Counter(str(vote.raw) for vote in votes if vote.value is not None)
    told = ", ".join(f"{count} for {level}" for level, count in counts.most_common())
    return f"no level of {dimension.name} has a majority of {len(votes)} judges: {told}"


def _criteria(votes: Sequence[Judgement], chosen: Judgement) -> dict[str, dict[str, float | str | None]]:
    """Median of each criterion over the judges that scored it, with the explanation of one of them."""
    found: dict[str, dict[str, float | str | None]] = {}
    for name, each in chosen.detail.get("criteria", {}).items():
        given = [vote.detail["criteria"][name]["score"] for vote in votes]
        found[name] = {
            "score": majority_median(given, len(votes)),
            "explanation": each["explanation"],
        }
    return found


def _quotes(votes: Sequence[Judgement]) -> list[dict[str, object]]:
    """Distinct quotes of all judges, with whether each was found."""
    found: dict[tuple[str, ...], dict[str, object]] = {}
    for vote in votes:
        for each in vote.detail.get("evidence", ()):
            found.setdefault(quote_parts(each["quote"]), each)
    return list(found.values())


def _signals(
    votes: Sequence[Judgement],
    quotes: Sequence[Mapping[str, Any]],
    retrieval_signals: Callable[[Sequence[str]], Mapping[str, float | None]],
) -> dict[str, float | None]:
    """Compute the signals of the panel as a whole.

    Definition: docs/definitions/judge.md#panel-signals.

    Evidence signals use the quotes of all judges, and consistency uses all their samples. The stated
    confidence is the lower median; a token signal is the mean over the judges that have it. Agreement among
    judges is measured over the votes as consistency is over samples.
    """
    each = [vote.detail.get("signals", {}) for vote in votes]
    told = [stated for signals in each if (stated := signals.get("verbalized_confidence")) is not None]
    signals: dict[str, float | None] = {
        "llm_evidence_count": sum(each["found"] and not each.get("too_short") for each in quotes),
        "verbalized_confidence": median_low(told) if told else None,
        **retrieval_signals([each["quote"] for each in quotes]),
    }
    for name in TOKEN_SIGNALS:
        known = [one[name] for one in each if one.get(name) is not None]
        signals[name] = fmean(known) if known else None
    samples = [value for vote in votes for value in vote.detail.get("samples", [vote.value])]
    signals |= consistency(samples)
    among = consistency([vote.value for vote in votes])
    return signals | {
        "panel_agreement": among["consistency_modal_confidence"],
        "panel_score_std": among["consistency_score_std"],
        "panel_na_rate": among["consistency_na_rate"],
    }


def _usage(votes: Sequence[Judgement]) -> dict[str, object]:
    """Sum the usage of all votes; the cost is unknown if one is."""
    each = [vote.detail for vote in votes]
    costs = [detail.get("cost_usd") for detail in each]
    known = [cost for cost in costs if cost is not None]
    return {
        "tokens": {way: sum(detail["tokens"][way] for detail in each) for way in ("input", "output")},
        "cost_usd": sum(known) if len(known) == len(costs) else None,
        "latency_seconds": max(detail["latency_seconds"] for detail in each),
        "requests": sum(detail["requests"] for detail in each),
        "shared_by": each[0]["shared_by"],
    }


def _vote_record(vote: Judgement) -> dict[str, object]:
    """A vote as it is recorded in the score's detail."""
    detail = {name: value for name, value in vote.detail.items() if name not in _SHARED_FIELDS}
    own = {name: getattr(vote, name) for name in ("status", "value", "raw", "reason")}
    return detail | own


def by_judge(scores: Mapping[str, Score], weights: Mapping[str, float]) -> dict[str, float]:
    """Weighted mean score of each judge of a panel over the dimensions that it scored.

    Args:
        scores: Scores of a rubric's dimensions, by name.
        weights: Weights of the same dimensions.

    Returns:
        Means in [0, 1] by model; empty without a panel.
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
