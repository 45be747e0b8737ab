"""Computes risk-coverage curves, their differences, and the counts of the items they describe."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from msgspec import UNSET, UnsetType

from trivium.errors import ItemsError
from trivium.runs.artifacts.variant import (
    AREA_COVERAGE,
    GRID,
    Band,
    Ends,
    Line,
    Picture,
    Variant,
    describe_variant,
    ends,
    warnings_of_items,
    warnings_of_variant,
)
from trivium.runs.items.ranked import DEFINITIONS, ChoiceMade, Scale, choose, ranked, scale_of
from trivium.runs.items.table import ItemTable, Origin
from trivium.trust.calibration.calibrator import Calibrator
from trivium.trust.calibration.methods import EQUAL
from trivium.trust.cluster_bootstrap import BootstrapOptions, estimate, ordered_ids
from trivium.trust.paired import holm, minimum_detectable_effect, sign_counts
from trivium.trust.selective.curve import Curve, hull, optimal_curve, risk_coverage
from trivium.trust.selective.inference import (
    DEFAULT,
    Delta,
    bootstrap_deltas,
    bootstrap_selective_metrics,
)
from trivium.trust.selective.items import Items

SCHEMA_VERSION = "1"

CONVENTIONS = {
    "areas": "trapezoids over [0, cmax], not divided by it; risk at coverage 0 is that at the first point",
    "groups": "sorted by number where all ids are whole numbers, else by code point",
    "aurc_achievable": "lower hull of the working points; needs randomised thresholds, decides nothing",
}
"""Conventions needed to reproduce the numbers."""


class CurveOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a risk-coverage artifact.

    Attributes:
        confidence: Variants, ``all`` or ``default``; None for the stated confidence, else the best signal.
        loss: ``abs``, ``abs_norm`` or ``zero_one``.
        plan: Options of the bootstrap.
        grid: Coverages at which the risk is reported, in (0, 1].
        area_coverage: Coverage at which the truncated areas end.
        scale: Lowest and highest value of predictions and truths, if the user states them.
        calibrator: For calibrated confidences.
        intersection_only: Whether to compare two inputs on their common groups if their groups differ.
        drawn: Whether to add the data for a chart.
        created_at: Time stated in the artifact; by default the current time.
    """

    confidence: str | None = None
    loss: str = "abs"
    plan: BootstrapOptions = DEFAULT
    grid: tuple[float, ...] = GRID
    area_coverage: float = AREA_COVERAGE
    scale: tuple[float, float] | None = None
    calibrator: Calibrator | None = None
    intersection_only: bool = False
    drawn: bool = False
    created_at: str | None = None


class Population(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of groups and items; with two sides, the items of each.

    ``cmax_failed_abstained`` is the coverage if the failed groups had abstained from all their items.
    """

    participants_total: int
    participants_included: int
    participants_failed: int
    items_total: int
    items_predicted: int | list[int]
    cmax: float | list[float]
    cmax_failed_abstained: float | list[float]


class Loss(msgspec.Struct, frozen=True, kw_only=True):
    """The loss of a prediction.

    Attributes:
        name: Its name.
        definition: Its formula.
        raw_multiplier: Factor that turns it into a distance on the scale.
        range: Lowest and highest value of predictions and truths.
        range_is: Where that range is from.
    """

    name: str
    definition: str
    raw_multiplier: float
    range: tuple[float, float]
    range_is: str


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """A metric of two sides: right minus left, with its interval and sign test.

    ``p_holm`` is there where ``p`` is; ``why_none`` says why there is no interval.
    """

    delta: float | None
    ci95: Ends | None
    left: float | None
    right: float | None
    std_error: float | None
    drop_rate: float
    share_positive: float | None
    p: float | None
    mde: float | None
    why_none: str | None
    p_holm: float | UnsetType = UNSET


class Differences(msgspec.Struct, frozen=True, kw_only=True):
    """The differences of two sides in one confidence.

    Attributes:
        common_coverage: The coverage that both reach, up to which the ``…_common`` areas go.
        in_words: Whether the areas differ; None if that is unknown.
    """

    aurc_full: Difference
    augrc_full: Difference
    cmax: Difference
    aurc_common: Difference
    augrc_common: Difference
    common_coverage: float
    in_words: str | None


class SideComparison(msgspec.Struct, frozen=True, kw_only=True):
    """The comparison of two sides: their differences by confidence, and how their groups overlap."""

    enabled: bool
    intersection_only: bool
    deltas: dict[str, Differences] | None = None
    participants_left_only: int | UnsetType = UNSET
    participants_right_only: int | UnsetType = UNSET
    participants_overlap_total: int | UnsetType = UNSET
    participants_overlap_included: int | UnsetType = UNSET
    participants_failed_left: int | UnsetType = UNSET
    participants_failed_right: int | UnsetType = UNSET


class TwoSides(msgspec.Struct, frozen=True, kw_only=True):
    """One confidence on both sides of a comparison."""

    input_0: Variant
    input_1: Variant


class CurveArtifact(msgspec.Struct, frozen=True, kw_only=True):
    """Risk and coverage of one table of items, or of two and their difference.

    Attributes:
        schema_version: Version of this format.
        created_at: When it was computed, or the time that was asked for.
        inputs: The source of each table.
        population: How many groups and items there are.
        loss: The loss of a prediction.
        confidence_choice: Why these confidences are used.
        confidence_variants: Each confidence.
        comparison: The differences of two tables.
        conventions: What is needed to reproduce the numbers.
        warnings: Caveats for the reader.
    """

    schema_version: str
    created_at: str
    inputs: list[Origin]
    population: Population
    loss: Loss
    confidence_choice: ChoiceMade
    confidence_variants: dict[str, Variant | TwoSides]
    comparison: SideComparison
    conventions: dict[str, str]
    warnings: list[str]

    def sides(self, name: str) -> list[Variant]:
        """One confidence, of each table."""
        entry = self.confidence_variants[name]
        return [entry.input_0, entry.input_1] if isinstance(entry, TwoSides) else [entry]


def curve_artifact(tables: Sequence[ItemTable], options: CurveOptions) -> CurveArtifact:
    """Compute risk and coverage of one table of items, or of two tables and their difference.

    Args:
        tables: One table, or left and right.
        options: The options.

    Raises:
        ItemsError: If two tables have no group in common, or groups that the other lacks.
        TrustError: If an item does not fit the scale or its confidence cannot be computed.
    """
    scale, (names, choice) = scale_of(tables, options.scale), choose(tables, options.confidence)
    included = included_groups(tables, intersection_only=options.intersection_only)
    warnings = warnings_of_items(tables, len(included), scale)
    notes: dict[str, list[str]] = {}
    described: dict[str, Variant | TwoSides] = {}
    deltas: dict[str, Differences] = {}
    for variant in names:
        sides, entries = [], []
        for table in tables:
            items, confidence = ranked(
                table,
                variant,
                loss=options.loss,
                scale=scale,
                calibrator=options.calibrator,
                exact=options.plan.rng == "legacy",
            )
            right = np.abs(table.pred - table.gt) <= EQUAL
            inside = items.within(included)
            entry = describe_variant(
                inside,
                right[rows_within(table, included)],
                plan=options.plan,
                grid=options.grid,
                area_coverage=options.area_coverage,
                picture=curve_points(inside, plan=options.plan) if options.drawn else UNSET,
                calibration=confidence.calibrator,
            )
            sides.append(inside)
            entries.append(entry)
            called = variant if len(tables) == 1 else f"{variant} ({table.origin.mode or table.origin.path})"
            for note in (*confidence.warnings, *warnings_of_variant(inside, entry)):
                notes.setdefault(note, []).append(called)
        if len(tables) == 1:
            described[variant] = entries[0]
        else:
            described[variant] = TwoSides(input_0=entries[0], input_1=entries[1])
            deltas[variant] = describe_difference(sides[0], sides[1], plan=options.plan)
    return CurveArtifact(
        schema_version=SCHEMA_VERSION,
        created_at=options.created_at or time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        inputs=[table.origin for table in tables],
        population=population(tables, included),
        loss=_loss(options.loss, scale),
        confidence_choice=choice,
        confidence_variants=described,
        comparison=_comparison(tables, included, deltas, options),
        conventions=CONVENTIONS,
        warnings=[*warnings, *(f"{', '.join(called)}: {note}" for note, called in notes.items())],
    )


def resamples_of(tables: Sequence[ItemTable], options: CurveOptions) -> int:
    """Return how many resamples :func:`curve_artifact` will compute."""
    each = len(tables) * (2 if options.drawn else 1) + (len(tables) == 2)
    return each * len(choose(tables, options.confidence)[0]) * options.plan.resamples


def _comparison(
    tables: Sequence[ItemTable],
    included: Sequence[str],
    deltas: dict[str, Differences],
    options: CurveOptions,
) -> SideComparison:
    if len(tables) == 1:
        return SideComparison(enabled=False, intersection_only=options.intersection_only)
    for name in INNER:
        found = {variant: getattr(delta, name) for variant, delta in deltas.items()}
        known = {variant: figure for variant, figure in found.items() if figure.p is not None}
        adjusted = holm([figure.p for figure in known.values()])
        for (variant, figure), p_holm in zip(known.items(), adjusted, strict=True):
            corrected = msgspec.structs.replace(figure, p_holm=p_holm)
            deltas[variant] = msgspec.structs.replace(deltas[variant], **{name: corrected})
    left, right = (_all_ids(table) for table in tables)
    return SideComparison(
        enabled=True,
        intersection_only=options.intersection_only,
        deltas=deltas,
        participants_left_only=len(left - right),
        participants_right_only=len(right - left),
        participants_overlap_total=len(left & right),
        participants_overlap_included=len(included),
        participants_failed_left=len(tables[0].failed),
        participants_failed_right=len(tables[1].failed),
    )


def _loss(name: str, scale: Scale) -> Loss:
    return Loss(
        name=name,
        definition=DEFINITIONS[name].format(width=scale.width),
        raw_multiplier=scale.width if name == "abs_norm" else 1,
        range=(scale.low, scale.high),
        range_is=scale.source,
    )


STEPS = 20
"""Number of equal stretches of coverage, up to the largest reached, for which a band is computed."""

MOST_POINTS = 200
"""Most points of a drawn line."""


def curve_points(items: Items, *, plan: BootstrapOptions) -> Picture:
    """Compute the band of the selective risk, the optimal curve and the lower hull, for a chart.

    Args:
        items: The items.
        plan: Options of the bootstrap.

    Returns:
        The picture, empty without predictions.
    """
    predicted = items.predicted
    each = items.weights_of_predicted
    curve = risk_coverage(
        items.loss[predicted], items.confidence[predicted], n_items=items.total, weights=each
    )
    if not curve.coverage.size:
        return Picture()
    best = optimal_curve(items.loss[predicted], n_items=items.total, weights=each)
    some = np.unique(np.linspace(0, best.coverage.size - 1, MOST_POINTS).astype(np.int64))
    below = hull(curve.coverage.tolist(), curve.selective_risk.tolist())
    return Picture(
        band=_band(items, curve, plan),
        optimal=Line(
            coverage=best.coverage[some].tolist(), selective_risk=best.selective_risk[some].tolist()
        ),
        lower_hull=Line(coverage=below[0], selective_risk=below[1]),
    )


def _band(items: Items, curve: Curve, plan: BootstrapOptions) -> Band:
    """Interval of the mean height of the curve over each stretch of coverage, placed at its middle.

    Heights are computed from areas, so that they fit the curve, which is linear between working points.
    """
    shares = [curve.cmax * step / STEPS for step in range(1, STEPS + 1)]
    names = [f"aurc_at_{share!r}" for share in shares]
    found = bootstrap_selective_metrics(items, [*names, "cmax"], plan)
    reached = found["cmax"].replicates
    before, start = np.zeros_like(reached), 0.0
    band = Band()
    for share, name in zip(shares, names, strict=True):
        area = found[name].replicates
        heights = np.where(reached >= share, (area - before) / (share - start), np.nan)
        interval = ends(
            estimate(
                0.0,  # only the replicates matter here
                heights,
                groups=items.groups.count,
                n=items.n,
                level=plan.level,
                method="percentile" if plan.method == "bca" else plan.method,
            )
        )
        if interval is not None:
            band.coverage.append((share + start) / 2)
            band.low.append(interval[0])
            band.high.append(interval[1])
        before, start = area, share
    return band


INNER = {
    "aurc_full": "aurc",
    "augrc_full": "augrc",
    "cmax": "cmax",
    "aurc_common": "aurc_common",
    "augrc_common": "augrc_common",
}
"""Metrics of a comparison, by their names in the artifact."""


def describe_difference(left: Items, right: Items, *, plan: BootstrapOptions) -> Differences:
    """Compute right minus left, over common groups and the same resamples of them."""
    deltas = bootstrap_deltas(left, right, list(INNER.values()), plan)
    figures = {name: _figure(deltas[inner], plan) for name, inner in INNER.items()}
    reached = min(side.reached for side in (left, right))
    return Differences(**figures, common_coverage=reached, in_words=in_words(figures, reached))


def in_words(figures: Mapping[str, Difference], common_coverage: float) -> str | None:
    """Describe whether the areas differ, in full and at common coverage; None if that is unknown."""
    coverage = f"{100 * common_coverage:.1f} %"
    sentences: dict[str, list[str]] = {}
    for name in ("aurc", "augrc"):
        full, common = (_verdict(figures[f"{name}_{reach}"].ci95) for reach in ("full", "common"))
        if full is None or common is None:
            continue
        words = f"{full}, in all and up to the common coverage {coverage}"
        if full != common:
            words = (
                f"{full} over all it predicts, but {common} up to the common coverage {coverage}: they "
                "differ in how often they abstain, and abstaining alone lowers the area. Judge by the "
                "common coverage"
            )
        sentences.setdefault(words, []).append(name.upper())
    return (
        ". ".join(f"{' and '.join(names)} of the second input: {words}" for words, names in sentences.items())
        or None
    )


def _verdict(ci95: Ends | None) -> str | None:
    """Describe a difference of areas; lower is better, because areas are risks."""
    if ci95 is None:
        return None
    if ci95[0] > 0:
        return "worse"
    return "better" if ci95[1] < 0 else "not shown to differ"


def _figure(found: Delta, plan: BootstrapOptions) -> Difference:
    error, sides = found.estimate.std_error, sign_counts(found.estimate.replicates)
    return Difference(
        delta=found.estimate.point,
        ci95=ends(found.estimate),
        left=found.left,
        right=found.right,
        std_error=error,
        drop_rate=found.estimate.drop_rate,
        share_positive=None if sides is None else float(sides.share_positive),
        p=None if sides is None else float(sides.p),
        mde=None if error is None else minimum_detectable_effect(error, level=plan.level),
        why_none=found.estimate.why_none,
    )


SHOWN = 5


def included_groups(tables: Sequence[ItemTable], *, intersection_only: bool) -> list[str]:
    """Return the ids of the groups that succeeded on every side, in order.

    Raises:
        ItemsError: If there is none, or if the groups of the sides differ and ``intersection_only`` is False.
    """
    if len(tables) == 1:
        return list(tables[0].groups.ids)
    left, right = (_all_ids(table) for table in tables)
    if left != right and not intersection_only and left & right:
        parts = [
            f"{len(ids):,} only in the {side} ({', '.join(ordered_ids(ids)[:SHOWN])}"
            f"{', …' if len(ids) > SHOWN else ''})"
            for side, ids in (("first", left - right), ("second", right - left))
            if ids
        ]
        raise ItemsError(
            "",
            f"the inputs differ in their groups: {'; '.join(parts)}. --intersection-only compares the rest",
        )
    common = set(tables[0].groups.ids) & set(tables[1].groups.ids)
    if not common:
        raise ItemsError(
            "",
            f"the two inputs have no group in common that succeeded in both "
            f"({tables[0].groups.count:,} in the first, {tables[1].groups.count:,} in the second)",
        )
    return ordered_ids(common)


def population(tables: Sequence[ItemTable], included: Sequence[str]) -> Population:
    """Count groups and items."""
    everyone = set.intersection(*(_all_ids(table) for table in tables))
    total, predicted = zip(*(_counts(table, included) for table in tables), strict=True)
    # A failed group has no items to count; assume as many as the others have on average.
    answered = len(included) / len(everyone) if everyone else 0.0
    shares = [part / whole if whole else 0.0 for part, whole in zip(predicted, total, strict=True)]
    worst = [share * answered for share in shares]
    return Population(
        participants_total=len(everyone),
        participants_included=len(included),
        participants_failed=len(everyone) - len(included),
        items_total=total[0],
        items_predicted=predicted[0] if len(tables) == 1 else list(predicted),
        cmax=shares[0] if len(tables) == 1 else shares,
        cmax_failed_abstained=worst[0] if len(tables) == 1 else worst,
    )


def rows_within(table: ItemTable, included: Sequence[str]) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Whether each item belongs to one of the groups, shape (n,)."""
    ids = set(included)
    inside = np.array([id_ in ids for id_ in table.groups.ids], np.bool_)
    return inside[table.groups.codes] if table.n else np.empty(0, np.bool_)


def _counts(table: ItemTable, included: Sequence[str]) -> tuple[int, int]:
    inside = rows_within(table, included)
    return int(inside.sum()), int((inside & table.predicted).sum())


def _all_ids(table: ItemTable) -> set[str]:
    return {*table.groups.ids, *table.failed}
