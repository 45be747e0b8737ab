"""Computes the losses and confidences of items, and chooses the confidence."""

from collections.abc import Sequence
from statistics import fmean
from typing import Literal

import msgspec
import numpy as np

from trivium.errors import ItemsError, Problem, TrustError, suggest
from trivium.runs.items.table import ItemTable
from trivium.trust.arrays import Floats, without_noise
from trivium.trust.calibration.calibrator import Calibrator
from trivium.trust.calibration.methods import EQUAL
from trivium.trust.calibration.quality import auroc
from trivium.trust.confidence.functions import (
    CALIBRATED,
    REGISTERED,
    CalibratorUse,
    Confidence,
    calibrated,
    confidence,
    named_variants,
)
from trivium.trust.selective.items import Items, losses

STATED = "confidence"
"""The variant that is the confidence stated with each item."""

DEFINITIONS = {
    "abs": "abs(pred - gt)",
    "abs_norm": "abs(pred - gt) / {width:g}",
    "zero_one": "pred != gt",
}


class Scale(msgspec.Struct, frozen=True, kw_only=True):
    """The range of predictions and truths.

    Attributes:
        low: Lowest value.
        high: Highest value.
        source: ``declared``, or ``observed`` if not declared.
    """

    low: float
    high: float
    source: str

    @property
    def width(self) -> float:
        """Distance between the ends."""
        return self.high - self.low


def scale_of(tables: Sequence[ItemTable], stated: tuple[float, float] | None) -> Scale:
    """Return the scale that the user states, else the declared one, else the observed range.

    Args:
        tables: The two sides of a comparison, or a single table.
        stated: Lowest and highest value given by the user, or None.
    """
    declared = stated or next((table.scale for table in tables if table.scale is not None), None)
    if declared is not None:
        return Scale(low=declared[0], high=declared[1], source="declared")
    values = np.concatenate([part for table in tables for part in (table.gt, table.pred[table.predicted])])
    low, high = (float(values.min()), float(values.max())) if values.size else (0.0, 1.0)
    return Scale(low=low, high=high if high > low else low + 1, source="observed")


def checked_scale(table: ItemTable, stated: tuple[float, float] | None) -> Scale:
    """Return the scale of a table, and check that every prediction and truth lies on it.

    Raises:
        TrustError: If a value is off the scale; names group and item.
    """
    scale = scale_of([table], stated)
    _losses(table, "abs", scale)
    return scale


def variants_of(words: str) -> tuple[str, ...]:
    """Parse names of confidences: variants, ``all`` or ``default``, separated by commas."""
    parts = [part.strip() for part in words.split(",") if part.strip()]
    return tuple(dict.fromkeys(name for part in parts for name in named_variants(part)))


def ranked(
    table: ItemTable,
    variant: str,
    *,
    loss: str,
    scale: Scale,
    calibrator: Calibrator | None = None,
    exact: bool = False,
) -> tuple[Items, Confidence]:
    """Return the items with their losses and confidences, and the confidence with its warnings.

    Confidences that only rounding tells apart are equal, unless they are ``exact`` as in the original tool.

    Raises:
        ItemsError: If a prediction lacks the stated confidence.
        TrustError: If a value is off the scale, or a confidence cannot be computed; names group and item.
    """
    found = confidences(table, variant, calibrator=calibrator)
    wrong = _losses(table, loss, scale)
    items = Items.of(
        table.groups,
        wrong,
        found.values if exact else without_noise(found.values),
        predicted=table.predicted,
        name=table.name,
        variant=variant,
        weights=table.weights,
    )
    return items, found


def _losses(table: ItemTable, kind: str, scale: Scale) -> Floats:
    ends = scale.low, scale.high
    return losses(table.pred, table.gt, kind=kind, scale=ends, predicted=table.predicted, name=table.name)


def confidences(table: ItemTable, variant: str, *, calibrator: Calibrator | None = None) -> Confidence:
    """Compute the confidence of every item, NaN without a prediction, and warnings about it.

    Raises:
        ItemsError: If a prediction states no confidence, or has no signals to compute one from.
        TrustError: If the variant is unknown, the calibrator was fitted on these groups without a cross-fit,
            or the signals do not give a finite confidence.
    """
    if variant == STATED:
        lacking = np.flatnonzero(table.predicted & np.isnan(table.confidence))
        if lacking.size:
            more = f" (and {lacking.size - 1:,} more like it)" if lacking.size > 1 else ""
            first = Problem(table.name(int(lacking[0])), f"a prediction without confidence{more}")
            raise ItemsError("", first)
        return Confidence(variant=variant, values=table.confidence)
    if variant == CALIBRATED + STATED and calibrator is not None:
        plain = confidences(table, STATED)
        stated = np.where(table.predicted, plain.values, np.nan)
        values, use = calibrated(calibrator, stated, table.group_names)
        notes = (*_of_calibrator(calibrator, use, table), *calibrator.mismatch_warnings(STATED))
        return Confidence(variant=variant, values=values, warnings=notes, calibrator=use)
    if table.predicted.any() and not table.signals.names:
        if not table.states_confidence:
            raise TrustError(
                f"{table.origin.path}: the items carry neither a confidence nor signals to compute one from: "
                "there is nothing to rank them by"
            )
        hint = suggest(variant, REGISTERED)
        raise TrustError(
            f'{table.origin.path}: the items state a confidence and have no signals to compute "{variant}" '
            f"from; use --confidence {STATED}.{'' if variant in REGISTERED else hint}"
        )
    found = confidence(
        variant,
        table.signals,
        calibrator=calibrator,
        groups=table.group_names,
        items=table.names,
        used=table.predicted,
    )
    if calibrator is None or found.calibrator is None:
        return found
    notes = (*found.warnings, *_of_calibrator(calibrator, found.calibrator, table))
    return msgspec.structs.replace(found, warnings=notes)


def _of_calibrator(calibrator: Calibrator, use: CalibratorUse, table: ItemTable) -> list[str]:
    """Return warnings about the calibrator that a variant uses."""
    notes = [*calibrator.warnings, *calibrator.provenance_warnings(table.provenance)]
    if calibrator.keeps_ranking:
        notes.append("a temperature keeps the order of the items, so no area changes by it")
        if use.own_groups:
            notes.append("the temperature was fitted on these groups: its reliability is flattered here")
    elif use.own_groups:
        notes.append(
            f"the calibrator was fitted on the groups of {use.own_groups:,} of these {use.items:,} "
            "predictions: the confidence of each is that of a model fitted without its group (out of fold)"
        )
    elif not use.groups_known:
        notes.append(
            "the calibrator does not list the groups that it was fitted on: if these are among them, the "
            "figures flatter it"
        )
    return notes


CANDIDATES = ("verbalized", "llm", "retrieval_similarity_mean", "token_msp", "consistency")
"""One confidence for each kind of signal. They are few, because a certificate pays for each candidate."""


class ChoiceMade(msgspec.Struct, frozen=True, kw_only=True):
    """Why confidences were chosen, as an artifact says it.

    Attributes:
        why: ``named`` by the user, ``stated`` with the items, ``best`` by AUROC on the labels, or the
            ``default`` of a source.
        among: Number of confidences compared on the labels; 1 if none was.
        auroc: If the best was chosen, the AUROC of each candidate. Signals are not fitted to the labels, so
            this is also their cross-fitted AUROC; only the choice among them needs a correction.
    """

    why: Literal["named", "stated", "best", "default"]
    among: int
    auroc: dict[str, float]


def choose(
    tables: Sequence[ItemTable], word: str | None, *, tolerance: float = 0.0
) -> tuple[tuple[str, ...], ChoiceMade]:
    """Choose the confidences: those named, else the one stated with the items, else the best signal.

    Definition: docs/definitions/selective.md#default-confidence.

    The best is the one of ``CANDIDATES`` with the highest AUROC for "the prediction is right" on the labels
    (with two tables, the highest mean). A candidate must be present in every item and not be constant.

    Args:
        tables: The two sides of a comparison, or a single table.
        word: Variants, ``all`` or ``default``, separated by commas; or None.
        tolerance: A prediction farther than this from the truth is wrong.
    """
    if word is not None:
        return variants_of(word), ChoiceMade(why="named", among=1, auroc={})
    if all(table.states_confidence for table in tables):
        return (STATED,), ChoiceMade(why="stated", among=1, auroc={})
    fixed = next((table.default_confidence for table in tables if table.default_confidence), None)
    if fixed is None:
        each = {name: [_auroc(table, name, tolerance) for table in tables] for name in CANDIDATES}
        found = {
            name: fmean(value for value in values if value is not None)
            for name, values in each.items()
            if None not in values
        }
        if found:
            best = max(found, key=found.__getitem__)
            return (best,), ChoiceMade(why="best", among=len(found), auroc=found)
    return variants_of(fixed or "default"), ChoiceMade(why="default", among=1, auroc={})


def _auroc(table: ItemTable, name: str, tolerance: float) -> float | None:
    """AUROC of a confidence for right predictions; None if undefined or if all confidences are equal."""
    try:
        values = confidences(table, name).values[table.predicted]
    except TrustError:
        return None
    if not values.size or values.min() == values.max():
        return None
    wrong = np.abs(table.pred - table.gt)[table.predicted] > tolerance + EQUAL
    weights = None if table.weights is None else table.weights[table.predicted]
    found = auroc(values, ~wrong, weights=weights)
    return 0.5 if found is None else found
