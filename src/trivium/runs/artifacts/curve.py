"""The artifact of ``trivium trust curve``: one predictor, or two that are compared (spec: files)."""

import time
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from trivium.runs.artifacts.difference import INNER, describe_difference
from trivium.runs.artifacts.picture import picture
from trivium.runs.artifacts.population import included_groups, overlap, population, rows_within
from trivium.runs.artifacts.variant import AREA_COVERAGE, GRID, describe_variant
from trivium.runs.artifacts.warnings import warnings_of_items, warnings_of_variant
from trivium.runs.items.choosing import choose
from trivium.runs.items.ranked import DEFINITIONS, Scale, ranked, scale_of
from trivium.runs.items.table import ItemTable
from trivium.trust.calibration.calibrator import Calibrator
from trivium.trust.calibration.targets import EQUAL
from trivium.trust.differences import holm
from trivium.trust.selective.resampled import DEFAULT, Plan

SCHEMA_VERSION = "1"
SIDES = ("input_0", "input_1")

CONVENTIONS = {
    "areas": "trapezoids over [0, cmax], not divided by it; risk at coverage 0 is that at the first point",
    "groups": "sorted by number where all ids are whole numbers, else by code point",
    "aurc_achievable": "lower hull of the working points; needs randomised thresholds, decides nothing",
}
"""What a reader must know to make the numbers again."""


class CurveOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked of the items.

    Attributes:
        confidence: A variant, ``all`` or ``default``; None: what the items state, else the best signal.
        loss: ``abs``, ``abs_norm`` or ``zero_one``.
        plan: How to resample.
        grid: Coverages at which the risk is read.
        area_coverage: Coverage up to which the truncated areas go.
        scale: Of predictions and truths, where the user states it.
        calibrator: For calibrated confidences.
        intersection_only: Whether two inputs are compared on common groups, though one has others too.
        drawn: Whether what a picture needs is added.
        created_at: What stands in the artifact; the current time by default.
    """

    confidence: str | None = None
    loss: str = "abs"
    plan: Plan = DEFAULT
    grid: tuple[float, ...] = GRID
    area_coverage: float = AREA_COVERAGE
    scale: tuple[float, float] | None = None
    calibrator: Calibrator | None = None
    intersection_only: bool = False
    drawn: bool = False
    created_at: str | None = None


def curve_artifact(tables: Sequence[ItemTable], options: CurveOptions) -> dict[str, Any]:
    """Risk and coverage of one table of items, or of two and their difference.

    Args:
        tables: One, or left and right.
        options: What is asked.

    Raises:
        ItemsError: If two tables have no group in common, or groups that the other lacks.
        TrustError: If an item does not fit the scale or its confidence cannot be computed.
    """
    scale, choice = scale_of(tables, options.scale), choose(tables, options.confidence)
    included = included_groups(tables, intersection_only=options.intersection_only)
    warnings = warnings_of_items(tables, len(included), scale)
    told: dict[str, list[str]] = {}
    described: dict[str, Any] = {}
    deltas: dict[str, Any] = {}
    for variant in choice.names:
        sides, entries = [], []
        for table in tables:
            items, sure = ranked(
                table, variant, loss=options.loss, scale=scale, calibrator=options.calibrator
            )
            right = np.abs(table.pred - table.gt) <= EQUAL
            inside = items.within(included)
            entry = describe_variant(
                inside,
                right[rows_within(table, included)],
                plan=options.plan,
                grid=options.grid,
                area_coverage=options.area_coverage,
            )
            if options.drawn:
                entry["picture"] = picture(inside, plan=options.plan)
            entry["calibration"] = msgspec.to_builtins(sure.calibrator)
            sides.append(inside)
            entries.append(entry)
            called = variant if len(tables) == 1 else f"{variant} ({table.origin.mode or table.origin.path})"
            for note in (*sure.warnings, *warnings_of_variant(inside, entry)):
                told.setdefault(note, []).append(called)
        if len(tables) == 1:
            described[variant] = entries[0]
        else:
            described[variant] = dict(zip(SIDES, entries, strict=True))
            deltas[variant] = describe_difference(sides[0], sides[1], plan=options.plan)
    return {
        "schema_version": SCHEMA_VERSION,
        "created_at": options.created_at or time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "inputs": [msgspec.structs.asdict(table.origin) for table in tables],
        "population": population(tables, included),
        "loss": _loss(options.loss, scale),
        "confidence_choice": choice.to_json(),
        "confidence_variants": described,
        "comparison": _comparison(tables, included, deltas, options),
        "conventions": CONVENTIONS,
        "warnings": [*warnings, *(f"{', '.join(called)}: {note}" for note, called in told.items())],
    }


def _comparison(
    tables: Sequence[ItemTable], included: Sequence[str], deltas: dict[str, Any], options: CurveOptions
) -> dict[str, Any]:
    said = {"enabled": len(tables) > 1, "intersection_only": options.intersection_only}
    if len(tables) == 1:
        return {**said, "deltas": None}
    for name in INNER:
        known = [delta[name] for delta in deltas.values() if delta[name]["p"] is not None]
        for figure, adjusted in zip(known, holm([figure["p"] for figure in known]), strict=True):
            figure["p_holm"] = adjusted
    return {**said, "deltas": deltas, **overlap(tables, included)}


def _loss(name: str, scale: Scale) -> dict[str, Any]:
    return {
        "name": name,
        "definition": DEFINITIONS[name].format(width=scale.width),
        "raw_multiplier": scale.width if name == "abs_norm" else 1,
        "range": [scale.low, scale.high],
        "range_is": scale.source,
    }
