"""How sure the figures of selective prediction are; how two predictors differ (spec: metrics, B.1 to B.4)."""

from collections.abc import Callable, Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from trivium.errors import TrustError
from trivium.trust.bootstrapping import leave_one_out
from trivium.trust.estimates import Estimate, Method, estimate
from trivium.trust.groups import ordered_ids
from trivium.trust.resampling import Counts, Rng, over_resamples
from trivium.trust.selective.figures import Wanted, Weighing
from trivium.trust.selective.items import Items

Floats = npt.NDArray[np.float64]


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """How to resample, and what to make of it.

    Attributes:
        resamples: Number of resamples.
        seed: Of the generator.
        rng: ``pcg64``, or ``legacy`` for NumPy's RandomState.
        level: Nominal coverage of intervals, in (0, 1).
        method: How intervals are made; see :func:`trivium.trust.estimates.estimate`.
        empty_is_zero: Whether an area is 0 in a resample without predictions, as in the artifacts that are
            reproduced; else it is undefined there.
        threads: None: one for each processor, up to eight. It changes no figure.
    """

    resamples: int = 10_000
    seed: int = 42
    rng: Rng = "pcg64"
    level: float = 0.95
    method: Method = "expanded percentile"
    empty_is_zero: bool = False
    threads: int | None = None


DEFAULT = Plan()
LEGACY = Plan(resamples=1000, rng="legacy", method="legacy", empty_is_zero=True)
"""What the artifacts of the original tool were made with."""


class Delta(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """A figure on both sides of a comparison.

    Attributes:
        left: The figure on the left.
        right: The figure on the right.
        estimate: Of right - left, over the same resamples of groups on both sides.
    """

    left: float | None
    right: float | None
    estimate: Estimate


def figures(items: Items, names: Sequence[str]) -> dict[str, float | None]:
    """Figures of selective prediction by name; None where undefined (no prediction, coverage not reached).

    Args:
        items: The items.
        names: ``cmax``, ``aurc``, ``augrc``, ``aurc_per_cmax``, ``augrc_per_cmax``, ``aurc_optimal``,
            ``augrc_optimal``, ``eaurc``, ``eaugrc``, ``aurc_achievable`` and, with a coverage C in (0, 1],
            ``aurc_at_C``, ``augrc_at_C``, ``mae_at_C``.

    Raises:
        TrustError: If there is no such figure.
    """
    wanted = Wanted.of(names)
    if not items.n:
        return dict.fromkeys(names)
    return dict(zip(names, _points(Weighing(items, wanted), items.groups.count), strict=True))


def bootstrap_figures(items: Items, names: Sequence[str], plan: Plan = DEFAULT) -> dict[str, Estimate]:
    """Figures with intervals, by resampling groups; one pass serves them all.

    Args:
        items: The items.
        names: Of the figures; see :func:`figures`.
        plan: How to resample.

    Raises:
        TrustError: If there is no such figure.
    """
    wanted, groups = Wanted.of(names), items.groups.count
    if not items.n:
        return dict.fromkeys(names, _nothing(plan))
    weighing = Weighing(items, wanted)

    def compute(weights: Counts) -> Floats:
        return weighing.figures(weights, empty_is_zero=plan.empty_is_zero)

    points = _points(weighing, groups)
    found = _estimates(compute, points, items, plan, at_once=weighing.at_once)
    return dict(zip(names, found, strict=True))


def bootstrap_deltas(
    left: Items,
    right: Items,
    names: Sequence[str],
    plan: Plan = DEFAULT,
    *,
    intersection_only: bool = False,
) -> dict[str, Delta]:
    """Right minus left on the groups that both sides have, the same resamples on both sides.

    Args:
        left: Items of one predictor.
        right: Items of the other.
        names: Of the figures; see :func:`figures`. Besides, ``aurc_common`` and ``augrc_common``: areas up to
            the smaller cmax, the fair comparison where one side abstains more.
        plan: How to resample.
        intersection_only: Whether groups that only one side has are left out; else they are an error.

    Raises:
        TrustError: If there is no such figure, no common group, or a group that one side lacks.
    """
    ids = common_groups(left, right, intersection_only=intersection_only)
    sides, groups = (left.within(ids), right.within(ids)), len(ids)
    # Where one side never answers nothing is defined, whatever the coverage.
    reached = min(float(side.predicted.mean()) for side in sides) or 1.0
    wanted = Wanted.of(names, common=reached)

    first, second = (Weighing(side, wanted) for side in sides)

    def compute(weights: Counts) -> Floats:
        ours, theirs = (side.figures(weights, empty_is_zero=plan.empty_is_zero) for side in (first, second))
        return theirs - ours

    points = [_points(side, groups) for side in (first, second)]
    deltas = [None if a is None or b is None else b - a for a, b in zip(*points, strict=True)]
    at_once = min(first.at_once, second.at_once)
    found = _estimates(compute, deltas, sides[1], plan, at_once=at_once)
    return {
        name: Delta(left=a, right=b, estimate=delta)
        for name, a, b, delta in zip(names, *points, found, strict=True)
    }


def common_groups(left: Items, right: Items, *, intersection_only: bool = False) -> list[str]:
    """Ids of the groups that both sides have, in order.

    Raises:
        TrustError: If there is none, or one side has others besides and ``intersection_only`` is not set.
    """
    ours, theirs = set(left.groups.ids), set(right.groups.ids)
    if not ours & theirs:
        raise TrustError(
            f"the two sides have no group in common ({len(ours)} on the left, {len(theirs)} on the right)"
        )
    if ours != theirs and not intersection_only:
        lonely = ordered_ids(ours ^ theirs)
        listed = ", ".join(lonely[:5]) + (", …" if len(lonely) > 5 else "")
        raise TrustError(
            f"{len(lonely)} groups are on one side only ({listed}); compare the common ones on request"
        )
    return ordered_ids(ours & theirs)


def _estimates(
    compute: Callable[[Counts], Floats],
    points: Sequence[float | None],
    items: Items,
    plan: Plan,
    *,
    at_once: int,
) -> list[Estimate]:
    groups = items.groups.count
    sizes = np.bincount(items.groups.codes, minlength=groups)
    replicates = over_resamples(
        compute,
        groups,
        resamples=plan.resamples,
        seed=plan.seed,
        rng=plan.rng,
        at_once=at_once,
        threads=plan.threads,
    )
    left_out = leave_one_out(compute, groups, at_once=at_once) if plan.method == "bca" else None
    return [
        estimate(
            point,
            replicates[row] if plan.resamples else np.empty(0),
            groups=groups,
            n=items.n,
            level=plan.level,
            method=plan.method,
            left_out=None if left_out is None else left_out[row],
            sizes=sizes,
        )
        for row, point in enumerate(points)
    ]


def _points(weighing: Weighing, groups: int) -> list[float | None]:
    values = weighing.figures(np.ones((groups, 1), np.uint8))[:, 0]
    return [None if np.isnan(value) else float(value) for value in values]


def _nothing(plan: Plan) -> Estimate:
    return estimate(None, np.empty(0), groups=0, n=0, level=plan.level, method=plan.method)
