"""Says how much of the spread of a run's scores comes from cases, user models, attempts and judges.

Definition: docs/definitions/conversations.md#spread.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from math import isnan
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from trivium.metrics.evaluation import Evaluation, is_judge_fallback
from trivium.metrics.metric import Score
from trivium.store.records import RunRecord
from trivium.suites.case import Case
from trivium.suites.selection import group_of
from trivium.suites.settings import Settings
from trivium.trust.arrays import Floats, Ints
from trivium.trust.crossed_components import PARTS, CrossedScores, Part

if TYPE_CHECKING:
    from trivium.store.store import Store

RESAMPLES = 2_000
"""Most resamples for the intervals of variances."""


class SpreadPart(msgspec.Struct, frozen=True, kw_only=True):
    """One part of the spread of scores.

    Attributes:
        part: Where it arises: case, user, case × user, attempt, judge or judgement.
        variance: Its variance, in score²; None if the run does not tell.
        ci95: Interval of the variance at the spread's level, from resampled groups.
        share: Its share of the variance of a single score, in [0, 1].
        share_ci95: Interval of the share.
        reason: Why it is unknown or 0, or None.
    """

    part: Part
    variance: float | None
    ci95: tuple[float, float] | None = None
    share: float | None = None
    share_ci95: tuple[float, float] | None = None
    reason: str | None = None


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """Where the spread of a metric comes from, in a run whose cases were held with several user models.

    Attributes:
        metric: The metric.
        users: The user models, in the order of the suite.
        judges: The judges whose votes are told apart; empty if each attempt has one score.
        cases: Number of cases; one that was held with two user models counts once.
        attempts: Number of attempts.
        groups: Number of groups that were resampled.
        level: Level of the intervals, in (0, 1).
        parts: The parts, always the same six.
    """

    metric: str
    users: tuple[str, ...]
    judges: tuple[str, ...]
    cases: int
    attempts: int
    groups: int
    level: float
    parts: tuple[SpreadPart, ...]


def user_models(settings: Settings) -> tuple[str, ...]:
    """The models of a suite with which its cases are held in turn; empty if there are not several."""
    return settings.user.model if settings.user is not None and len(settings.user.model) > 1 else ()


def user_of(case: Case, models: tuple[str, ...]) -> str | None:
    """The model of these that plays the user of a case; None if the case is held with one model only."""
    held = case.user is not None and case.user.model in models and case.base_id != case.id
    return case.user.model if held and case.user is not None else None


def spread_of(store: "Store", run: RunRecord) -> dict[str, Spread]:
    """Split the variance of each metric of a run.

    Args:
        store: The store that holds the run.
        run: The run.

    Returns:
        By metric; empty if the run's cases were not held with several user models.
    """
    settings = run.settings
    models = user_models(settings)
    if not models:
        return {}
    cells: dict[int, tuple[str, str, str]] = {}
    for position, case in enumerate(store.cases(run.suite)):
        if (user := user_of(case, models)) is not None:
            cells[position] = case.base_id, user, group_of(case, settings.group) or case.base_id
    collected: defaultdict[str, list[_Value]] = defaultdict(list)
    judged = False
    numbers = count()
    for stored in store.evaluations(run):
        one = stored.evaluation
        if stored.position in cells and not (one.failed is not None and settings.failed_attempts == "skip"):
            attempt = next(numbers)
            judged |= any(score.tier == "judge" for score in one.scores.values())
            for name, votes in _values(one):
                of, user, group = cells[stored.position]
                collected[name] += [(y, of, user, attempt, judge, group) for judge, y in votes.items()]
    found = {name: _spread(name, values, models, settings, judged) for name, values in collected.items()}
    return {name: one for name, one in found.items() if one is not None}


def _values(evaluation: Evaluation) -> Iterator[tuple[str, Mapping[str, float]]]:
    """Yield the names of metrics with their value by judge; by "" if there is one value."""
    if evaluation.passed is not None:
        yield "pass_rate", {"": float(evaluation.passed)}
    if evaluation.composite.value is not None:
        yield "composite", {"": evaluation.composite.value}
    for name, score in evaluation.scores.items():
        if (votes := _votes(score)) or (score.value is not None and not is_judge_fallback(score)):
            yield name, votes or {"": float(score.value or 0.0)}


def _votes(score: Score) -> dict[str, float]:
    """The values that the judges of a panel gave, by model; empty without a panel."""
    votes = score.detail.get("votes") if score.tier == "judge" else None
    if not isinstance(votes, list):
        return {}
    return {str(each["model"]): float(each["value"]) for each in votes if each.get("value") is not None}


_Value = tuple[float, str, str, int, str, str]
"""A value of a metric, with its case, user, attempt, judge and group."""


def _spread(
    metric: str, values: Sequence[_Value], models: tuple[str, ...], settings: Settings, judged: bool
) -> Spread | None:
    """Split the variance of values; None if they do not vary, or are of one user.

    Args:
        metric: The metric.
        values: Its values.
        models: The user models of the suite.
        settings: Its settings.
        judged: Whether a judge took part in the run.
    """
    from trivium.trust.resampling import over_resamples

    y, *of = zip(*values, strict=True)
    case, user, attempt, judge, group = (np.unique(np.array(each), return_inverse=True) for each in of)
    if user[0].size < 2 or max(y) == min(y):
        return None
    scores = CrossedScores(y, case[1], user[1], attempt[1], judge[1], group[1])
    point = scores.estimates(np.ones((scores.groups, 1), np.uint8))
    drawn = over_resamples(
        scores.estimates,
        scores.groups,
        resamples=min(settings.resamples, RESAMPLES),
        seed=settings.seed,
        rng="pcg64",
        threads=1,
    )
    unknown = UNKNOWN if judged else UNKNOWN | dict.fromkeys(("judge", "judgement"), NO_JUDGE)
    sizes: Ints = np.bincount(group[1]).astype(np.int64)
    variances = [_interval(point[row, 0], drawn[row], sizes, settings.level) for row in range(len(PARTS))]
    shares = [
        _interval(mine[0], each, sizes, settings.level)
        for mine, each in zip(_shares(point), _shares(drawn), strict=True)
    ]
    return Spread(
        metric=metric,
        users=tuple(name for name in models if name in user[0]),
        judges=tuple(map(str, judge[0])) if scores.several_judges else (),
        cases=case[0].size,
        attempts=attempt[0].size,
        groups=scores.groups,
        level=settings.level,
        parts=tuple(
            SpreadPart(part=name, variance=None, reason=unknown[name])
            if isnan(point[row, 0])
            else _part(name, point[row, 0], _shares(point)[row, 0], variances[row], shares[row])
            for row, name in enumerate(PARTS)
        ),
    )


Ends = tuple[float, float] | None


def _shares(variances: Floats) -> Floats:
    """Shares of variances, of which those below 0 count as 0 and unknown ones not; shape (6, b)."""
    above = np.maximum(variances, 0.0)
    total = np.nansum(above, axis=0)
    return np.where(total > 0, above / np.where(total > 0, total, 1), np.nan)


def _interval(point: float, drawn: Floats, sizes: Ints, level: float) -> Ends:
    """Interval of a variance or a share, which is not below 0."""
    from trivium.trust.cluster_bootstrap import estimate

    if isnan(point):
        return None
    found = estimate(float(point), drawn, groups=sizes.size, n=int(sizes.sum()), level=level, sizes=sizes)
    if found.interval is None:
        return None
    return max(0.0, found.interval.low), max(0.0, found.interval.high)


UNKNOWN: dict[Part, str] = {
    "case": "one case was held with two user models: it takes two or more",
    "user": "one case was held with two user models: it takes two or more",
    "case × user": "no case was held twice with one user model (repeats: 2): the agent's part includes it",
    "attempt": "one case was held with two user models: it takes two or more",
    "judge": "no two judges scored one attempt (judge.panel): the agent's part includes it",
    "judgement": "no two judges scored one attempt (judge.panel): the agent's part includes it",
}
"""Why a part is unknown."""


NO_JUDGE = "no judge took part"


def _part(name: Part, variance: float, share: float, ends: Ends, share_ends: Ends) -> SpreadPart:
    below = f"estimated below 0 ({variance:.2g}), by chance: taken as 0" if variance < 0 else None
    return SpreadPart(
        part=name,
        variance=max(0.0, float(variance)),
        ci95=ends,
        share=None if isnan(share) else float(share),
        share_ci95=share_ends,
        reason=below,
    )
