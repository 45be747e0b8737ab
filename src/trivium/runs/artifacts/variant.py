"""Computes the entry of one confidence variant in a risk-coverage artifact, with its warnings."""

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from trivium.runs.items.ranked import Scale
from trivium.runs.items.table import ItemTable
from trivium.trust.calibration.quality import probability_quality, reliability
from trivium.trust.cluster_bootstrap import Estimate
from trivium.trust.selective.curve import Curve, risk_at, risk_coverage
from trivium.trust.selective.inference import BootstrapOptions, bootstrap_selective_metrics, selective_metrics
from trivium.trust.selective.items import Items

GRID = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
"""Default coverages at which the risk is reported (docs/definitions/selective.md#risk-at-coverage)."""

AREA_COVERAGE = 0.5
"""Default coverage at which the truncated areas end (docs/definitions/selective.md#truncated-area)."""

RESAMPLED = ("aurc_full", "augrc_full", "aurc_at_c", "augrc_at_c", "cmax", "aurc_per_cmax", "augrc_per_cmax")
"""Metrics with an interval, by their names in the artifact."""

IDEALS = ("aurc_optimal", "augrc_optimal", "eaurc", "eaugrc", "aurc_achievable")

MOST_POINTS = 10_000
"""Most working points that an artifact lists; it always states their number."""

NEGLIGIBLE = 1e-15
"""Smaller differences of areas are due to rounding."""


def describe_variant(
    items: Items,
    right: np.ndarray[Any, np.dtype[np.bool_]],
    *,
    plan: BootstrapOptions,
    grid: Sequence[float] = GRID,
    area_coverage: float = AREA_COVERAGE,
) -> dict[str, Any]:
    """Compute the metrics of one ranking with intervals, the curve and the reliability diagram.

    Args:
        items: The items.
        right: Whether each prediction equals the truth, shape (n,).
        plan: Options of the bootstrap.
        grid: Coverages at which the risk is reported, in (0, 1].
        area_coverage: Coverage at which the truncated areas end.
    """
    inner = {
        "aurc_full": "aurc",
        "augrc_full": "augrc",
        "aurc_at_c": f"aurc_at_{area_coverage!r}",
        "augrc_at_c": f"augrc_at_{area_coverage!r}",
    }
    names = [inner.get(name, name) for name in RESAMPLED] + [f"mae_at_{share!r}" for share in grid]
    estimates = bootstrap_selective_metrics(items, names, plan)
    by_name = {name: estimates[inner.get(name, name)] for name in RESAMPLED}
    ideal = selective_metrics(items, IDEALS)
    predicted = items.predicted
    each = items.weights_of_predicted
    curve = risk_coverage(
        items.loss[predicted], items.confidence[predicted], n_items=items.total, weights=each
    )
    cmax = curve.cmax
    risks = {coverage_key(share): (share, estimates[f"mae_at_{share!r}"]) for share in dict.fromkeys(grid)}
    used = min(area_coverage, cmax)
    return {
        "cmax": cmax,
        "aurc_full": by_name["aurc_full"].point,
        "augrc_full": by_name["augrc_full"].point,
        "aurc_per_cmax": by_name["aurc_per_cmax"].point,
        "augrc_per_cmax": by_name["augrc_per_cmax"].point,
        **{name: _rounded(ideal[name]) for name in IDEALS},
        "interpretation": _interpretation(by_name["aurc_full"].point, ideal),
        **{
            name: {"requested": area_coverage, "used": used, "value": by_name[name].point}
            for name in ("aurc_at_c", "augrc_at_c")
        },
        "mae_at_coverage": {key: _reading(curve, share) for key, (share, _) in risks.items()},
        "bootstrap": {
            "seed": plan.seed,
            "n_resamples": plan.resamples,
            "rng": plan.rng,
            "method": plan.method,
            "groups": items.groups.count,
            "ci95": {name: ends(found) for name, found in by_name.items()}
            | {"mae_at_coverage": {key: ends(found) for key, (_, found) in risks.items()}},
            "drop_rate": {name: found.drop_rate for name, found in by_name.items()}
            | {"mae_at_coverage": {key: _drop_rate(found, plan) for key, (_, found) in risks.items()}},
            "std_error": {name: found.std_error for name, found in by_name.items()},
            "why_none": {name: found.why_none for name, found in by_name.items() if found.why_none},
        },
        "curve": _thinned(curve),
        "reliability": _reliability(items, right),
        "reason": None if curve.coverage.size else "no item has a prediction",
    }


def coverage_key(share: float) -> str:
    """Format a coverage as a key, with two decimals or as many as it has."""
    short = f"{share:.2f}"
    return short if float(short) == share else repr(share)


def ends(estimate: Estimate) -> list[float] | None:
    """Return the ends of an interval; None if there is none or the estimate is undefined."""
    if estimate.interval is None or estimate.point is None:
        return None
    return [estimate.interval.low, estimate.interval.high]


def _drop_rate(estimate: Estimate, plan: BootstrapOptions) -> float:
    """Share of resamples without a value; like the original tool, 1 if the estimate itself is undefined."""
    return 1.0 if estimate.point is None and plan.method == "legacy" else estimate.drop_rate


def _rounded(value: float | None) -> float | None:
    return 0.0 if value is not None and abs(value) < NEGLIGIBLE else value


def _thinned(curve: Curve) -> dict[str, Any]:
    """Return the working points, thinned to ``MOST_POINTS``, and their number."""
    points = curve.coverage.size
    shown = np.unique(np.linspace(0, points - 1, min(points, MOST_POINTS)).astype(np.int64))
    return {
        "coverage": curve.coverage[shown].tolist(),
        "selective_risk": curve.selective_risk[shown].tolist(),
        "generalized_risk": curve.generalized_risk[shown].tolist(),
        "threshold": curve.threshold[shown].tolist(),
        "working_points": points,
    }


def _reading(curve: Curve, share: float) -> dict[str, float] | None:
    reading = risk_at(curve, share)
    return None if reading is None else msgspec.structs.asdict(reading)


def _interpretation(aurc: float | None, ideal: dict[str, float | None]) -> dict[str, float | None]:
    achievable = ideal["aurc_achievable"]
    gain = None if aurc is None or achievable is None else aurc - achievable
    return {
        "aurc_gap_pct": _percent(ideal["eaurc"], ideal["aurc_optimal"]),
        "augrc_gap_pct": _percent(ideal["eaugrc"], ideal["augrc_optimal"]),
        "achievable_gain_pct": _percent(gain, aurc),
    }


def _percent(part: float | None, whole: float | None) -> float | None:
    """100 · part / whole; None without a whole, so that missing data does not look like "no gap"."""
    return None if part is None or not whole else 100 * part / whole


def _reliability(items: Items, right: np.ndarray[Any, np.dtype[np.bool_]]) -> dict[str, Any] | None:
    """Compute the reliability diagram; None if the confidence is not a probability."""
    confidence, correct = items.confidence[items.predicted], right[items.predicted]
    if not confidence.size or confidence.min() < 0 or confidence.max() > 1:
        return None
    each = items.weights_of_predicted
    bins: dict[str, Any] = msgspec.to_builtins(reliability(confidence, correct, weights=each))
    return bins | probability_quality(confidence, correct, weights=each)


FEW_GROUPS, TOO_FEW_GROUPS = 20, 10

MOST_TIED = 0.2
"""If a larger share of the predictions has equal confidence, a warning mentions ties."""

WIDEST_JUMP = 0.05
"""If the coverage exceeds the requested one by more than this, a warning mentions it."""


def warnings_of_items(tables: Sequence[ItemTable], included: int, scale: Scale) -> list[str]:
    """Return the warnings about the items, which hold for every confidence."""
    notes = [f"{table.origin.path}: {note}" for table in tables for note in table.notes]
    if scale.source == "observed":
        notes.append(
            f"nobody says what values are possible: the range {scale.low:g} to {scale.high:g} was seen in "
            "the items (--range LOW:HIGH states it)"
        )
    if included == 1:
        notes.append("one group: what differs between groups cannot be seen, so there is no interval")
    elif included < TOO_FEW_GROUPS:
        notes.append(
            f"{included} groups: an interval of so few does not hold what it promises; read none as 95 %"
        )
    elif included < FEW_GROUPS:
        notes.append(f"{included} groups: intervals of fewer than {FEW_GROUPS} groups tend to be too narrow")
    for table in tables:
        if table.failed:
            everyone = table.groups.count + len(table.failed)
            share = float(table.predicted.mean()) * table.groups.count / everyone if table.n else 0.0
            notes.append(
                f"{_which(table, tables)}{len(table.failed)} of {everyone} groups failed and are left out: "
                "the figures speak of those that succeeded. Had the failed ones abstained from as many items "
                f"each, {100 * share:.1f} % would be predicted"
            )
        if table.n and not table.predicted.any():
            notes.append(f"{_which(table, tables)}no item has a prediction: there is no risk to speak of")
    return notes


def warnings_of_variant(items: Items, entry: dict[str, Any]) -> list[str]:
    """Return the warnings about one confidence: ties, and jumps of the coverage that they cause."""
    notes = []
    points, predicted = entry["curve"]["working_points"], int(items.predicted.sum())
    if points == 1 and predicted > 1:
        notes.append("every prediction has the same confidence, which ranks nothing")
    elif points > 1:
        _, sizes = np.unique(items.confidence[items.predicted], return_counts=True)
        if sizes.max() > MOST_TIED * predicted and predicted > points:
            notes.append(
                "more than a fifth of the predictions share one confidence; AUGRC bears ties better than AURC"
            )
    readings = [reading for reading in entry["mae_at_coverage"].values() if reading]
    widest = max(readings, key=lambda reading: reading["achieved"] - reading["requested"], default=None)
    if points < predicted and widest and widest["achieved"] - widest["requested"] > WIDEST_JUMP:
        notes.append(
            f"ties make coverage jump: the risk of the most confident {100 * widest['requested']:g} % is "
            f"that of the most confident {100 * widest['achieved']:.1f} %"
        )
    return notes


def _which(table: ItemTable, tables: Sequence[ItemTable]) -> str:
    return "" if len(tables) == 1 else f"{table.origin.mode or table.origin.path}: "
