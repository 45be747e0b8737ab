"""Records of pairwise judging: verdicts of each order, pair and dimension."""

from typing import Any, Literal

import msgspec

from trivium.display import RichRepr
from trivium.runs.summary import JudgeCosts

Verdict = Literal["win", "loss", "tie"]
"""Of head against base."""


class OrderVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """What the judge said when it was shown a pair in one order.

    Attributes:
        first: Whose output stood first.
        verdict: Of head against base; None where there is none.
        status: ok, abstained, skipped or failed.
        reason: The judge's, or why there is no verdict.
        method: Who judged, where it is not all or the first of those that were named.
        detail: Everything that is recorded of a judgement: model, evidence, signals, votes, tokens, cost.
    """

    first: Literal["base", "head"]
    verdict: Verdict | None
    status: str
    reason: str
    method: str | None = None
    detail: dict[str, Any] = {}


class DimensionVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """What both orders say of one dimension together.

    Attributes:
        verdict: Of head against base: what both orders say, a tie where they contradict each other, None
            where one of them has no verdict.
        consistent: Whether both orders say the same; None without a verdict.
        orders: Base shown first, then head shown first; none where nobody had to be asked.
    """

    verdict: Verdict | None
    consistent: bool | None
    orders: tuple[OrderVerdict, ...] = ()


class JudgedPair(msgspec.Struct, frozen=True, kw_only=True):
    """One case and repeat of both runs.

    Attributes:
        case: Id of the case.
        repeat: Which attempt.
        group: The cluster of the case.
        how: ``judged``; ``identical`` outputs tie and ``failed`` attempts lose without anybody being asked.
        verdicts: By dimension.
    """

    case: str
    repeat: int
    group: str
    how: Literal["judged", "identical", "failed"]
    verdicts: dict[str, DimensionVerdict]


class PairFigure(msgspec.Struct, frozen=True, kw_only=True):
    """How head does against base in one dimension.

    Attributes:
        win_rate: (wins + ties / 2) / pairs with a verdict; None without any.
        ci95: Interval of the win rate by groups, or None; at the run's level.
        groups: Clusters that it rests on.
        method: Of the interval.
        wins: Pairs that head wins.
        losses: Pairs that it loses.
        ties: Pairs that it ties, those with contradicting orders among them.
        unjudged: Pairs without a verdict: an order abstained, or no judge answered.
        inconsistent: Ties because the orders contradict each other.
        for_first: Inconsistent pairs in which the output that stood first won both times.
        for_second: Those in which the one that stood second did.
        position_bias: (for_first + for_second) / pairs judged in both orders; None without any.
        p: Two-sided sign test over the groups, by whether head won or lost more of a group's pairs; None
            where all groups tie.
    """

    win_rate: float | None
    ci95: tuple[float, float] | None
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
    """Two runs compared by a judge, pair by pair.

    Attributes:
        base: The run that is compared with.
        head: The run in question.
        suite: Their suite.
        models: Who judged.
        panel: Whether all of them did.
        samples: Answers asked of each for each order.
        level: Of the intervals.
        figures: By dimension; ``overall`` is the better in all.
        pairs: Every pair, in the order of head's suite.
        identical: Pairs with equal outputs.
        failed: Pairs in which an attempt failed.
        left_out: Attempts that only one run has, and pairs left out by ``failed_attempts: skip``.
        errors: Pairs of which an order got no answer from any judge.
        spent: What it took, requests that came to nothing included, and the budget that it had.
        notes: What a reader must know.
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
