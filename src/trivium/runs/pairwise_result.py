"""The results of pairwise judging: a verdict for each order, pair and dimension, and overall figures."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from trivium.display import RichRepr
from trivium.runs.summary import JudgeCosts
from trivium.trust.decision import probability_of_missing
from trivium.trust.intervals import mean_interval
from trivium.trust.paired import sign_test

Verdict = Literal["win", "loss", "tie"]
"""Verdict on head against base."""

VALUES: dict[Verdict, float] = {"win": 1.0, "tie": 0.5, "loss": 0.0}
"""Value of each verdict in the win rate."""


class OrderVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """The judge's verdict on a pair shown in one order.

    Attributes:
        first: The run whose output was shown first.
        verdict: Verdict on head against base, or None.
        status: ok, abstained, skipped or failed.
        reason: The judge's reason, or why there is no verdict.
        method: The models that judged; None for the full panel, or for the first model of the settings.
        detail: Details of the judgement: model, evidence, signals, votes, tokens, cost.
    """

    first: Literal["base", "head"]
    verdict: Verdict | None
    status: str
    reason: str
    method: str | None = None
    detail: dict[str, Any] = {}


class DimensionVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """The combined verdict of both orders on one dimension.

    Attributes:
        verdict: Verdict on head against base: that of both orders, a tie if they contradict each other, None
            if one of them has no verdict.
        consistent: Whether both orders agree; None without a verdict.
        orders: Base shown first, then head shown first; empty if no judge was needed.
    """

    verdict: Verdict | None
    consistent: bool | None
    orders: tuple[OrderVerdict, ...] = ()


class JudgedPair(msgspec.Struct, frozen=True, kw_only=True):
    """The verdicts on one case and repeat of both runs.

    Attributes:
        case: Id of the case.
        repeat: Number of the repeat, from 0.
        group: The cluster of the case.
        how: ``judged``; or without a judge: ``identical`` outputs tie, ``failed`` attempts lose, and there is
            no verdict where the world or the simulated user of an attempt failed (``unfair``).
        verdicts: Verdicts by dimension.
    """

    case: str
    repeat: int
    group: str
    how: Literal["judged", "identical", "failed", "unfair"]
    verdicts: dict[str, DimensionVerdict]


class PairFigure(msgspec.Struct, frozen=True, kw_only=True):
    """Wins and losses of head against base in one dimension.

    Attributes:
        win_rate: (wins + ties / 2) / pairs with a verdict, in [0, 1]; None without a verdict.
        ci95: Cluster-robust interval of the win rate, at the run's level, or None.
        probability: Probability that head wins less than half
            (docs/definitions/decisions.md#probability-limit); None without an interval.
        groups: Number of clusters.
        method: How the interval was computed.
        wins: Number of pairs that head wins.
        losses: Number of pairs that head loses.
        ties: Number of ties, including pairs whose two orders contradict each other.
        unjudged: Number of pairs without a verdict: the judge abstained in an order, or did not answer.
        inconsistent: Number of pairs whose two orders contradict each other.
        for_first: Number of inconsistent pairs in which the output shown first won both times.
        for_second: Number of inconsistent pairs in which the output shown second won both times.
        position_bias: (for_first + for_second) / pairs judged in both orders; None without such pairs.
        p: Two-sided p-value of a sign test over groups; the sign says whether head wins or loses more of the
            group's pairs. None if all groups tie.
    """

    win_rate: float | None
    ci95: tuple[float, float] | None
    probability: float | None = None
    groups: int
    method: str | None
    wins: int
    losses: int
    ties: int
    unjudged: int
    inconsistent: int
    for_first: int
    for_second: int
    position_bias: float | None
    p: float | None


class PairComparison(RichRepr, msgspec.Struct, frozen=True, kw_only=True):
    """The comparison of two runs by a judge, pair by pair.

    Attributes:
        base: Id of the baseline run.
        head: Id of the candidate run.
        suite: Name of head's suite.
        models: The judge models.
        panel: Whether all of them judge every pair.
        samples: Number of samples of each model for each order.
        level: Confidence level of the intervals.
        figures: Results by dimension, and ``overall``.
        pairs: Every judged pair, in the order of head's suite.
        identical: Pairs with equal outputs.
        failed: Pairs in which an attempt failed.
        left_out: Attempts that only one run has, and pairs left out by ``failed_attempts: skip``.
        errors: Pairs for which no judge answered in at least one order.
        spent: Costs of the comparison, including failed requests, and its budget.
        notes: Reservations that change how to read the result.
        not_asked: Pairs left unjudged because earlier ones decided the comparison (``until_decided``).
        decided: With ``until_decided``: whether head is proven to win, or lose, more than half; else None.
    """

    base: str
    head: str
    suite: str
    models: tuple[str, ...]
    panel: bool
    samples: int
    level: float
    figures: dict[str, PairFigure]
    pairs: tuple[JudgedPair, ...]
    identical: int
    failed: int
    left_out: int
    errors: int
    spent: JudgeCosts
    notes: tuple[str, ...] = ()
    not_asked: int = 0
    decided: Literal["win", "loss"] | None = None


def figure(pairs: Sequence[JudgedPair], dimension: str, *, level: float) -> PairFigure:
    """Count the wins and losses of head against base in one dimension.

    Definition: docs/definitions/judge.md#win-rate.

    Args:
        pairs: All pairs; those without the dimension count as unjudged.
        dimension: Name of the dimension.
        level: Confidence level of the interval, in (0, 1).
    """
    codes = {group: code for code, group in enumerate(dict.fromkeys(pair.group for pair in pairs))}
    values: list[float] = []
    groups: list[int] = []
    counts: Counter[str] = Counter()
    nets: Counter[int] = Counter()
    for pair in pairs:
        combined = pair.verdicts.get(dimension)
        if combined is None or combined.verdict is None:
            counts["unjudged"] += 1
            continue
        values.append(VALUES[combined.verdict])
        groups.append(codes[pair.group])
        counts[combined.verdict] += 1
        nets[codes[pair.group]] += {"win": 1, "tie": 0, "loss": -1}[combined.verdict]
        if combined.orders:
            counts["both"] += 1
            counts["inconsistent"] += not combined.consistent
            counts[_followed(combined)] += 1
    interval = mean_interval(values, groups, level=level) if values else None
    rate = sum(values) / max(1, len(values))
    return PairFigure(
        win_rate=rate if values else None,
        ci95=None if interval is None else (interval.low, interval.high),
        probability=None if interval is None else probability_of_missing(rate, interval, at_least=0.5),
        groups=len(set(groups)),
        method=None if interval is None else interval.method,
        wins=counts["win"],
        losses=counts["loss"],
        ties=counts["tie"],
        unjudged=counts["unjudged"],
        inconsistent=counts["inconsistent"],
        for_first=counts["first"],
        for_second=counts["second"],
        position_bias=(counts["first"] + counts["second"]) / counts["both"] if counts["both"] else None,
        p=sign_test(sum(net > 0 for net in nets.values()), sum(net < 0 for net in nets.values())),
    )


def _followed(combined: DimensionVerdict) -> str:
    """Return the position that won in both orders, although it held a different output each time."""
    verdicts = [order.verdict for order in combined.orders]
    return {"loss win": "first", "win loss": "second"}.get(" ".join(map(str, verdicts)), "neither")
