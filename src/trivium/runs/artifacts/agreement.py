"""How far a judge agrees with people, and what its mean is worth (spec: metrics, H.1, H.2)."""

from typing import Any

import msgspec
import numpy as np

from trivium.runs.items.ranked import kept_scale
from trivium.runs.items.table import ItemTable
from trivium.trust.agreeing import RANKED, RATES, agreement
from trivium.trust.correction import Corrected, corrected_mean, corrected_rate
from trivium.trust.groups import Groups
from trivium.trust.interval import Interval

FEW_GROUPS, TOO_FEW_GROUPS = 20, 10


def agreement_answer(
    table: ItemTable,
    *,
    step: float | None = None,
    scale: tuple[float, float] | None = None,
    resamples: int = 10_000,
    seed: int = 42,
) -> dict[str, Any]:
    """Agreement of predictions and truths, and people's mean as the judge's tells it, as a JSON value.

    Args:
        table: The items; abstentions are counted and left out.
        step: Distance between neighbouring labels; default: 1, on a narrower scale the least distance seen.
        scale: Of predictions and truths, where the user states it.
        resamples: Of the groups.
        seed: Of the resamples.

    Raises:
        TrustError: If a value is off the scale, there are too many different labels, or an option is wrong.
    """
    kept = np.flatnonzero(table.predicted)
    judge, people = table.pred[kept], table.gt[kept]
    groups = Groups.of([table.groups.ids[code] for code in table.groups.codes[kept]])
    ends = kept_scale(table, scale)
    apart = step or _step(judge, people, ends.width)
    found = agreement(judge, people, groups, step=apart, resamples=resamples, seed=seed)
    answer: dict[str, Any] = {
        "n": found.n,
        "groups": found.groups,
        "abstained": table.n - found.n,
        "labels": list(found.labels),
        "step": apart,
        "sides": list(table.sides),
        "judge_mean": float(judge.mean()) if judge.size else None,
        "people_mean": float(people.mean()) if people.size else None,
    }
    for name in (*RATES, *RANKED):
        figure = found.figures[name]
        answer[name] = {"value": figure.value, "ci95": _ends(figure.interval), "reason": figure.reason}
    answer["corrected"] = None
    if table.rest.pred.size and judge.size:
        samples = people, judge, table.rest.pred
        others = Groups.of(table.rest.groups)
        mean = corrected_mean(*samples, groups=groups, groups_only=others, low=ends.low, high=ends.high)
        answer["corrected"] = _corrected(mean)
        if np.isin(np.concatenate(samples), (0.0, 1.0)).all():
            rate = corrected_rate(*samples, groups=groups, groups_only=others)
            answer["corrected_rate"] = _corrected(rate)
    answer["inputs"] = [msgspec.structs.asdict(table.origin)]
    answer["warnings"] = [*table.notes, *_warnings(found.groups)]
    return answer


def _step(judge: Any, people: Any, width: float) -> float:
    labels = np.unique(np.concatenate([judge, people]).round(9))
    if width >= 2 or labels.size < 2:
        return 1.0
    return float(np.diff(labels).min())


def _corrected(found: Corrected) -> dict[str, Any]:
    told = msgspec.structs.asdict(found) | {"ci95": _ends(found.interval)}
    told["method"] = found.interval.method if found.interval else None
    told.pop("interval")
    return told | {"warnings": list(found.warnings)}


def _ends(interval: Interval | None) -> list[float] | None:
    return None if interval is None else [interval.low, interval.high]


def _warnings(groups: int) -> list[str]:
    if 1 < groups < TOO_FEW_GROUPS:
        return [f"{groups} groups: an interval of so few does not hold what it promises; read none as 95 %"]
    if TOO_FEW_GROUPS <= groups < FEW_GROUPS:
        return [f"{groups} groups: intervals of fewer than {FEW_GROUPS} groups tend to be too narrow"]
    return []
