"""Computes the entry of one confidence variant in a risk-coverage artifact, with its warnings."""

from collections.abc import Mapping, Sequence
from typing import Any, Generic, TypeVar

import msgspec
import numpy as np
from msgspec import UNSET, UnsetType

from trivium.runs.items.ranked import Scale
from trivium.runs.items.table import ItemTable
from trivium.trust.calibration.quality import Reliability, probability_quality, reliability
from trivium.trust.cluster_bootstrap import BootstrapOptions, Estimate
from trivium.trust.clustered import FEW_GROUPS, TOO_FEW_GROUPS
from trivium.trust.confidence.functions import CalibratorUse
from trivium.trust.selective.curve import Curve, RiskAtCoverage, risk_at, risk_coverage
from trivium.trust.selective.inference import bootstrap_selective_metrics, selective_metrics
from trivium.trust.selective.items import Items

T = TypeVar("T")
Ends = tuple[float, float]

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


class TruncatedArea(msgspec.Struct, frozen=True, kw_only=True):
    """An area up to a coverage.

    Attributes:
        requested: The coverage asked for.
        used: That coverage, or the largest one reached if it is smaller.
        value: The area.
    """

    requested: float
    used: float
    value: float | None


class Gaps(msgspec.Struct, frozen=True, kw_only=True):
    """How much a better confidence would lower the areas, in percent; None where undefined.

    Attributes:
        aurc_gap_pct: Excess of AURC over that of the best ranking, in percent of the latter.
        augrc_gap_pct: Excess of AUGRC over that of the best ranking, in percent of the latter.
        achievable_gain_pct: Gain of the lower hull, in percent of AURC.
    """

    aurc_gap_pct: float | None
    augrc_gap_pct: float | None
    achievable_gain_pct: float | None


class OfEach(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """A result of the bootstrap for each metric of ``RESAMPLED``, and for the risk at each coverage."""

    aurc_full: T
    augrc_full: T
    aurc_at_c: T
    augrc_at_c: T
    cmax: T
    aurc_per_cmax: T
    augrc_per_cmax: T
    mae_at_coverage: dict[str, T]


class BootstrapResults(msgspec.Struct, frozen=True, kw_only=True):
    """The intervals of a variant, and how they were computed.

    Attributes:
        seed: Seed of the resamples.
        n_resamples: Number of resamples.
        rng: Random number generator of the resamples.
        method: Method that computes intervals from resamples.
        groups: Number of resampled groups.
        ci95: The intervals; None where there is none.
        drop_rate: Share of resamples without a value.
        std_error: Standard errors, by metric.
        why_none: Why there is no interval, by metric.
    """

    seed: int
    n_resamples: int
    rng: str
    method: str
    groups: int
    ci95: OfEach[Ends | None]
    drop_rate: OfEach[float]
    std_error: dict[str, float | None]
    why_none: dict[str, str]


class CurvePoints(msgspec.Struct, frozen=True, kw_only=True):
    """Working points, at most ``MOST_POINTS`` of them, and their number; see :class:`Curve`."""

    coverage: list[float]
    selective_risk: list[float]
    generalized_risk: list[float]
    threshold: list[float]
    working_points: int


class Diagram(Reliability, frozen=True, kw_only=True):
    """The reliability diagram with its measures (docs/definitions/calibration.md#ece)."""

    auc_roc: float | None
    brier_score: float | None
    ece: float | None
    nll: float | None


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """Points of a drawn line."""

    coverage: list[float] = []
    selective_risk: list[float] = []


class Band(msgspec.Struct, frozen=True, kw_only=True):
    """Intervals of the risk, each at a coverage."""

    coverage: list[float] = []
    low: list[float] = []
    high: list[float] = []


class Picture(msgspec.Struct, frozen=True, kw_only=True):
    """The additions of a chart to the curve: the band of its risk, the optimal curve and the lower hull."""

    band: Band = Band()
    optimal: Line = Line()
    lower_hull: Line = Line()


class Variant(msgspec.Struct, frozen=True, kw_only=True):
    """The ranking by one confidence: its metrics, curve and reliability.

    Areas and risks are in the unit of the loss, None where undefined.

    Attributes:
        cmax: Largest coverage reached, in [0, 1].
        mae_at_coverage: Risk at each coverage of the grid; None where the ranking does not reach it.
        bootstrap: The intervals.
        curve: The working points.
        reliability: The reliability diagram; None if the confidence is not a probability.
        reason: Why there is no curve, or None.
        picture: The additions of a chart, if one was requested.
        calibration: How the confidence was calibrated; None if it was not.
    """

    cmax: float
    aurc_full: float | None
    augrc_full: float | None
    aurc_per_cmax: float | None
    augrc_per_cmax: float | None
    aurc_optimal: float | None
    augrc_optimal: float | None
    eaurc: float | None
    eaugrc: float | None
    aurc_achievable: float | None
    interpretation: Gaps
    aurc_at_c: TruncatedArea
    augrc_at_c: TruncatedArea
    mae_at_coverage: dict[str, RiskAtCoverage | None]
    bootstrap: BootstrapResults
    curve: CurvePoints
    reliability: Diagram | None
    reason: str | None
    picture: Picture | UnsetType = UNSET
    calibration: CalibratorUse | None = None


def describe_variant(
    items: Items,
    right: np.ndarray[Any, np.dtype[np.bool_]],
    *,
    plan: BootstrapOptions,
    grid: Sequence[float],
    area_coverage: float,
    picture: Picture | UnsetType = UNSET,
    calibration: CalibratorUse | None = None,
) -> Variant:
    """Compute the metrics of one ranking with intervals, the curve and the reliability diagram.

    Args:
        items: The items.
        right: Whether each prediction equals the truth, shape (n,).
        plan: Options of the bootstrap.
        grid: Coverages at which the risk is reported, in (0, 1].
        area_coverage: Coverage at which the truncated areas end.
        picture: The additions of a chart, if one was requested.
        calibration: How the confidence was calibrated, if it was.
    """
    metrics = {
        "aurc_full": "aurc",
        "augrc_full": "augrc",
        "aurc_at_c": f"aurc_at_{area_coverage!r}",
        "augrc_at_c": f"augrc_at_{area_coverage!r}",
    }
    names = [metrics.get(name, name) for name in RESAMPLED] + [f"mae_at_{share!r}" for share in grid]
    estimates = bootstrap_selective_metrics(items, names, plan)
    by_name = {name: estimates[metrics.get(name, name)] for name in RESAMPLED}
    ideal = selective_metrics(items, IDEALS)
    predicted = items.predicted
    weights = items.weights_of_predicted
    curve = risk_coverage(
        items.loss[predicted], items.confidence[predicted], n_items=items.total, weights=weights
    )
    cmax = curve.cmax
    risks = {coverage_key(share): (share, estimates[f"mae_at_{share!r}"]) for share in dict.fromkeys(grid)}
    used = min(area_coverage, cmax)
    return Variant(
        cmax=cmax,
        **{
            name: by_name[name].point
            for name in ("aurc_full", "augrc_full", "aurc_per_cmax", "augrc_per_cmax")
        },
        **{name: _rounded(value) for name, value in ideal.items()},
        interpretation=_interpretation(by_name["aurc_full"].point, ideal),
        aurc_at_c=TruncatedArea(requested=area_coverage, used=used, value=by_name["aurc_at_c"].point),
        augrc_at_c=TruncatedArea(requested=area_coverage, used=used, value=by_name["augrc_at_c"].point),
        mae_at_coverage={key: risk_at(curve, share) for key, (share, _) in risks.items()},
        bootstrap=_bootstrap(by_name, risks, items, plan),
        curve=_thinned(curve),
        reliability=_reliability(items, right),
        reason=None if curve.coverage.size else "no item has a prediction",
        picture=picture,
        calibration=calibration,
    )


def _bootstrap(
    by_name: Mapping[str, Estimate],
    risks: Mapping[str, tuple[float, Estimate]],
    items: Items,
    plan: BootstrapOptions,
) -> BootstrapResults:
    return BootstrapResults(
        seed=plan.seed,
        n_resamples=plan.resamples,
        rng=plan.rng,
        method=plan.method,
        groups=items.groups.count,
        ci95=OfEach(
            **{name: ends(found) for name, found in by_name.items()},
            mae_at_coverage={key: ends(found) for key, (_, found) in risks.items()},
        ),
        drop_rate=OfEach(
            **{name: found.drop_rate for name, found in by_name.items()},
            mae_at_coverage={key: _drop_rate(found, plan) for key, (_, found) in risks.items()},
        ),
        std_error={name: found.std_error for name, found in by_name.items()},
        why_none={name: found.why_none for name, found in by_name.items() if found.why_none},
    )


def coverage_key(share: float) -> str:
    """Format a coverage as a key, with two decimals, or more if it has more."""
    short = f"{share:.2f}"
    return short if float(short) == share else repr(share)


def ends(estimate: Estimate) -> Ends | None:
    """Return the ends of an interval; None if there is none or the estimate is undefined."""
    if estimate.interval is None or estimate.point is None:
        return None
    return estimate.interval.low, estimate.interval.high


def _drop_rate(estimate: Estimate, plan: BootstrapOptions) -> float:
    """Share of resamples without a value; in ``legacy`` mode, 1 if the estimate itself is undefined."""
    return 1.0 if estimate.point is None and plan.method == "legacy" else estimate.drop_rate


def _rounded(value: float | None) -> float | None:
    return 0.0 if value is not None and abs(value) < NEGLIGIBLE else value


def _thinned(curve: Curve) -> CurvePoints:
    """Return the working points, thinned to ``MOST_POINTS``, and their number."""
    points = curve.coverage.size
    shown = np.unique(np.linspace(0, points - 1, min(points, MOST_POINTS)).astype(np.int64))
    return CurvePoints(
        coverage=curve.coverage[shown].tolist(),
        selective_risk=curve.selective_risk[shown].tolist(),
        generalized_risk=curve.generalized_risk[shown].tolist(),
        threshold=curve.threshold[shown].tolist(),
        working_points=points,
    )


def _interpretation(aurc: float | None, ideal: dict[str, float | None]) -> Gaps:
    achievable = ideal["aurc_achievable"]
    gain = None if aurc is None or achievable is None else aurc - achievable
    return Gaps(
        aurc_gap_pct=_percent(ideal["eaurc"], ideal["aurc_optimal"]),
        augrc_gap_pct=_percent(ideal["eaugrc"], ideal["augrc_optimal"]),
        achievable_gain_pct=_percent(gain, aurc),
    )


def _percent(part: float | None, whole: float | None) -> float | None:
    """Return 100 · part / whole; None if the whole is 0 or missing, which is not the same as "no gap"."""
    return None if part is None or not whole else 100 * part / whole


def _reliability(items: Items, right: np.ndarray[Any, np.dtype[np.bool_]]) -> Diagram | None:
    """Compute the reliability diagram; None if the confidence is not a probability."""
    confidence, correct = items.confidence[items.predicted], right[items.predicted]
    if not confidence.size or confidence.min() < 0 or confidence.max() > 1:
        return None
    weights = items.weights_of_predicted
    bins = msgspec.structs.asdict(reliability(confidence, correct, weights=weights))
    return Diagram(**bins | probability_quality(confidence, correct, weights=weights))


MOST_TIED = 0.2
"""Share of predictions with one confidence above which a warning mentions ties."""

WIDEST_JUMP = 0.05
"""Excess of a coverage over the requested one above which a warning mentions it."""


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
    notes += warnings_of_groups(included)
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


def warnings_of_groups(groups: int) -> list[str]:
    """Return the warning about the intervals of few groups, if it is due."""
    if 1 < groups < TOO_FEW_GROUPS:
        return [f"{groups} groups: an interval of so few does not hold what it promises; read none as 95 %"]
    if TOO_FEW_GROUPS <= groups < FEW_GROUPS:
        return [f"{groups} groups: intervals of fewer than {FEW_GROUPS} groups tend to be too narrow"]
    return []


def warnings_of_variant(items: Items, entry: Variant) -> list[str]:
    """Return the warnings about one confidence: ties, and jumps of the coverage that they cause."""
    notes = []
    points, predicted = entry.curve.working_points, int(items.predicted.sum())
    if points == 1 and predicted > 1:
        notes.append("every prediction has the same confidence, which ranks nothing")
    elif points > 1:
        _, sizes = np.unique(items.confidence[items.predicted], return_counts=True)
        if sizes.max() > MOST_TIED * predicted and predicted > points:
            notes.append(
                "more than a fifth of the predictions share one confidence; AUGRC bears ties better than AURC"
            )
    readings = [reading for reading in entry.mae_at_coverage.values() if reading]
    widest = max(readings, key=lambda reading: reading.achieved - reading.requested, default=None)
    if points < predicted and widest and widest.achieved - widest.requested > WIDEST_JUMP:
        notes.append(
            f"ties make coverage jump: the risk of the most confident {100 * widest.requested:g} % is "
            f"that of the most confident {100 * widest.achieved:.1f} %"
        )
    return notes


def _which(table: ItemTable, tables: Sequence[ItemTable]) -> str:
    return "" if len(tables) == 1 else f"{table.origin.mode or table.origin.path}: "
