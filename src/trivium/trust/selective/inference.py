"""Computes selective-prediction metrics by name, with bootstrap intervals, and compares two predictors.

Groups are resampled, and all metrics of a resample come from one pass over the items ranked by confidence.
"""

import re
from collections.abc import Sequence
from functools import partial

import msgspec
import numpy as np

from trivium.errors import TrustError, suggest
from trivium.trust.arrays import Floats
from trivium.trust.cluster_bootstrap import BootstrapOptions, Estimate, estimates, ordered_ids, undefined
from trivium.trust.resampling import CHUNK, Counts, chunk_size
from trivium.trust.selective.curve import ROUNDING, lower_hull_areas, optimal_areas
from trivium.trust.selective.items import Items
from trivium.trust.selective.sweep import Ranking, sweep

METRIC_NAMES = (
    "cmax",
    "aurc",
    "augrc",
    "aurc_per_cmax",
    "augrc_per_cmax",
    "aurc_optimal",
    "augrc_optimal",
    "eaurc",
    "eaugrc",
    "aurc_achievable",
)
"""Metrics without an argument; ``aurc_at_0.5``, ``augrc_at_0.5``, ``mae_at_0.3`` include a coverage."""

COMMON_METRIC_NAMES = ("aurc_common", "augrc_common")
"""Areas up to the coverage that both sides of a comparison reach."""

_COUNTS_AT_ONCE = 4 * CHUNK
_SWEPT_AT_ONCE = 32 * CHUNK
"""Predictions times resamples in a chunk, so that one takes about a second."""
_AT = re.compile(r"(aurc|augrc|mae)_at_([0-9.eE+-]{1,40})")


class RequestedMetrics(msgspec.Struct, frozen=True, kw_only=True):
    """The requested metrics.

    Attributes:
        names: Names as requested.
        keys: The same names with every coverage written in one way.
        coverages: Coverages up to which areas, and at which the risk is computed.
    """

    names: tuple[str, ...]
    keys: tuple[str, ...]
    coverages: tuple[float, ...]

    @classmethod
    def of(cls, names: Sequence[str], *, common: float | None = None) -> "RequestedMetrics":
        """Parse the names of metrics.

        Args:
            names: The requested names.
            common: The coverage used for ``aurc_common`` and ``augrc_common``.

        Raises:
            TrustError: If there is no such metric; suggests the nearest name.
        """
        known = METRIC_NAMES if common is None else METRIC_NAMES + COMMON_METRIC_NAMES
        keys, coverages = [], []
        for name in names:
            expanded = (
                name.replace("_common", f"_at_{common!r}") if name in COMMON_METRIC_NAMES and common else name
            )
            match = _AT.fullmatch(expanded)
            if match:
                coverages.append(_share(name, match[2]))
                keys.append(f"{match[1]}_at_{coverages[-1]!r}")
            elif name in known:
                keys.append(name)
            else:
                forms = "aurc_at_C, augrc_at_C, mae_at_C"
                raise TrustError(
                    f"no metric is called {name!r}.{suggest(name, known)} known: {', '.join(known)}, {forms}"
                )
        return cls(names=tuple(names), keys=tuple(keys), coverages=tuple(dict.fromkeys(coverages)))


class WeightedMetrics:
    """Computes metrics of items under any weights of their groups.

    Args:
        items: The items.
        requested: The metrics.

    Attributes:
        at_once: Best number of weightings per call.
    """

    def __init__(self, items: Items, requested: RequestedMetrics) -> None:
        used, groups = items.predicted, items.groups.count
        codes, loss, confidence = items.groups.codes[used], items.loss[used], items.confidence[used]
        self.requested = requested
        each = items.weights_of_predicted
        self.sizes = np.bincount(items.groups.codes, items.weights, minlength=groups).astype(np.float64)
        needs_best = any(name.endswith("_optimal") or name.startswith("e") for name in requested.names)
        self.at_once = chunk_size(groups, counts_at_once=_COUNTS_AT_ONCE)
        self.at_once = min(self.at_once, chunk_size(codes.size + 1, counts_at_once=_SWEPT_AT_ONCE))
        if needs_best or np.unique(confidence).size < confidence.size:
            # Shared working points need the counts as floats.
            self.at_once = min(self.at_once, chunk_size(groups))
        if "aurc_achievable" in requested.names:
            self.at_once = min(self.at_once, chunk_size(codes.size + 1))  # the hull needs every point at once
        at_once = self.at_once
        self.curve = Ranking.of(codes, loss, -confidence, groups=groups, at_once=at_once, weights=each)
        self.best = (
            Ranking.of(codes, loss, loss, groups=groups, at_once=at_once, weights=each)
            if needs_best
            else None
        )

    def values(self, weights: Counts, *, empty_is_zero: bool = False) -> Floats:
        """Compute the metrics under each weighting, shape (metrics, b); NaN where undefined.

        Args:
            weights: How often each group counts, shape (groups, b).
            empty_is_zero: Whether areas without any prediction are 0; otherwise they are undefined.
        """
        n_items = np.einsum("g,gb->b", self.sizes, weights)
        coverages = self.requested.coverages
        asked = [share * (1 - ROUNDING) for share in coverages]
        swept = sweep(self.curve, weights, n_items=n_items, coverages=asked)
        values = {"cmax": swept.cmax, "aurc": swept.aurc, "augrc": swept.augrc}
        for share, aurc, augrc in zip(coverages, swept.aurc_to, swept.augrc_to, strict=True):
            values[f"aurc_at_{share!r}"], values[f"augrc_at_{share!r}"] = aurc, augrc
        if self.best is not None:
            values["aurc_optimal"], values["augrc_optimal"] = optimal_areas(
                self.best, weights, n_items=n_items
            )
            values["eaurc"] = values["aurc"] - values["aurc_optimal"]
            values["eaugrc"] = values["augrc"] - values["augrc_optimal"]
        if "aurc_achievable" in self.requested.names:
            values["aurc_achievable"] = lower_hull_areas(self.curve, weights, n_items=n_items)
        if empty_is_zero:
            values = {name: np.where(swept.cmax == 0, 0.0, column) for name, column in values.items()}
        with np.errstate(invalid="ignore", divide="ignore"):
            values["aurc_per_cmax"] = values["aurc"] / swept.cmax
            values["augrc_per_cmax"] = values["augrc"] / swept.cmax
        values |= {f"mae_at_{share!r}": risk for share, risk in zip(coverages, swept.risk_at, strict=True)}
        return np.stack([values[key] for key in self.requested.keys])


def _share(name: str, text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = np.nan
    if not 0 < share <= 1:
        what = "target_coverage" if name.startswith("mae") else "max_coverage"
        raise TrustError(f"{name}: {what} must be in (0, 1]; found {text}")
    return share


DEFAULT = BootstrapOptions()


class Delta(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """A metric on both sides of a comparison.

    Attributes:
        left: The metric on the left.
        right: The metric on the right.
        estimate: The difference right - left, over the same resamples of groups on both sides.
    """

    left: float | None
    right: float | None
    estimate: Estimate


def selective_metrics(items: Items, names: Sequence[str]) -> dict[str, float | None]:
    """Compute selective-prediction metrics by name.

    Definition: docs/definitions/selective.md#risk-coverage-curve.

    A metric is None if undefined: without predictions, or if a coverage is not reached.

    Args:
        items: The items.
        names: ``cmax``, ``aurc``, ``augrc``, ``aurc_per_cmax``, ``augrc_per_cmax``, ``aurc_optimal``,
            ``augrc_optimal``, ``eaurc``, ``eaugrc``, ``aurc_achievable`` and, with a coverage C in (0, 1],
            ``aurc_at_C``, ``augrc_at_C``, ``mae_at_C``.

    Raises:
        TrustError: If there is no such metric.
    """
    requested = RequestedMetrics.of(names)
    if not items.n:
        return dict.fromkeys(names)
    return dict(zip(names, _points(WeightedMetrics(items, requested), items.groups.count), strict=True))


def bootstrap_selective_metrics(
    items: Items, names: Sequence[str], options: BootstrapOptions = DEFAULT
) -> dict[str, Estimate]:
    """Compute metrics with bootstrap intervals, all in one pass per resample.

    Definition: docs/definitions/selective.md#intervals-of-areas.

    Args:
        items: The items.
        names: The metrics; see :func:`selective_metrics`.
        options: How to resample.

    Raises:
        TrustError: If there is no such metric.
    """
    requested, groups = RequestedMetrics.of(names), items.groups.count
    if not items.n:
        return dict.fromkeys(names, undefined(options))
    weighted = WeightedMetrics(items, requested)
    compute = partial(weighted.values, empty_is_zero=options.empty_is_zero)
    points = _points(weighted, groups)
    values = estimates(compute, points, items.groups, options, at_once=weighted.at_once)
    return dict(zip(names, values, strict=True))


def bootstrap_deltas(
    left: Items,
    right: Items,
    names: Sequence[str],
    options: BootstrapOptions = DEFAULT,
    *,
    intersection_only: bool = False,
) -> dict[str, Delta]:
    """Compute right minus left on the groups that both sides have, with the same resamples on both sides.

    Definition: docs/definitions/selective.md#common-coverage.

    Args:
        left: Items of one predictor.
        right: Items of the other.
        names: The metrics; see :func:`selective_metrics`. Also ``aurc_common`` and ``augrc_common``: areas up
            to the smaller cmax, which is the fair comparison if one side abstains more.
        options: How to resample.
        intersection_only: Whether to ignore groups that only one side has; otherwise they are an error.

    Raises:
        TrustError: If there is no such metric, no common group, or a group that one side lacks.
    """
    ids = common_groups(left, right, intersection_only=intersection_only)
    sides, groups = (left.within(ids), right.within(ids)), len(ids)
    # If one side has no predictions, every metric is undefined, so any coverage works.
    reached = min(side.reached for side in sides) or 1.0
    requested = RequestedMetrics.of(names, common=reached)

    first, second = (WeightedMetrics(side, requested) for side in sides)
    compute = partial(_differences, first, second, empty_is_zero=options.empty_is_zero)
    points = [_points(side, groups) for side in (first, second)]
    deltas = [None if a is None or b is None else b - a for a, b in zip(*points, strict=True)]
    at_once = min(first.at_once, second.at_once)
    values = estimates(compute, deltas, sides[1].groups, options, at_once=at_once)
    return {
        name: Delta(left=a, right=b, estimate=delta)
        for name, a, b, delta in zip(names, *points, values, strict=True)
    }


def common_groups(left: Items, right: Items, *, intersection_only: bool = False) -> list[str]:
    """Ids of the groups that both sides have, in order.

    Raises:
        TrustError: If there are none, or one side has further groups and ``intersection_only`` is not set.
    """
    ours, theirs = set(left.groups.ids), set(right.groups.ids)
    if not ours & theirs:
        raise TrustError(
            f"the two sides have no group in common ({len(ours)} on the left, {len(theirs)} on the right)"
        )
    if ours != theirs and not intersection_only:
        unshared = ordered_ids(ours ^ theirs)
        listed = ", ".join(unshared[:5]) + (", …" if len(unshared) > 5 else "")
        raise TrustError(
            f"{len(unshared)} groups are on one side only ({listed}); "
            "intersection_only compares the common ones"
        )
    return ordered_ids(ours & theirs)


def _differences(
    first: WeightedMetrics, second: WeightedMetrics, weights: Counts, *, empty_is_zero: bool
) -> Floats:
    ours, theirs = (side.values(weights, empty_is_zero=empty_is_zero) for side in (first, second))
    return theirs - ours


def _points(weighted: WeightedMetrics, groups: int) -> list[float | None]:
    values = weighted.values(np.ones((groups, 1), np.uint8))[:, 0]
    return [None if np.isnan(value) else float(value) for value in values]
