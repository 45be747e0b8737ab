"""The confidence of many items by the name of a variant (spec: metrics, S.9)."""

from collections.abc import Callable, Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from trivium.errors import TrustError
from trivium.trust.calibration.calibrator import TEMPERATURE, Calibrator
from trivium.trust.calibration.features import feature_matrix, filled_in
from trivium.trust.calibration.linear_model import LinearModel
from trivium.trust.confidence import functions
from trivium.trust.confidence.registry import ConfidenceFunction, base_function
from trivium.trust.confidence.signals import Floats, Row, Signals

SECONDARY, CALIBRATED = "secondary:", "calibrated:"

COMBINE: dict[str, Callable[[Floats, Floats], Floats]] = {
    "average": lambda a, b: (a + b) / 2,
    "product": lambda a, b: a * b,
}


class Confidence(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """Confidences with what a user must know about them.

    Attributes:
        variant: Its name.
        values: Shape (n,), higher is surer; NaN for items that were not asked for.
        warnings: What stood in for missing signals, and why a calibrator may not fit.
    """

    variant: str
    values: npt.NDArray[np.float64]
    warnings: tuple[str, ...] = ()


def confidence(
    variant: str,
    rows: Sequence[Row],
    *,
    calibrator: Calibrator | None = None,
    groups: Sequence[object] | None = None,
    items: Sequence[object] | None = None,
    used: npt.ArrayLike | None = None,
) -> Confidence:
    """The confidence of every item.

    Variants are a registered name (``token_msp``), ``secondary:<a>+<b>:<average|product>`` of two of those,
    ``calibrated:<either>`` with a temperature or isotonic calibrator (``verbalized_calibrated`` is
    ``calibrated:verbalized``), and ``calibrated`` with a supervised calibrator on its own signals.

    Args:
        variant: Which confidence.
        rows: The signals of each item, n mappings of names to values.
        calibrator: For the calibrated variants.
        groups: The group of each item, for errors.
        items: The name of each item, for errors.
        used: Which items have a prediction, shape (n,), bool; the signals of others are not looked at.

    Raises:
        TrustError: If the variant is unknown, a calibrator is missing or of the wrong kind, or an item's
            signals do not give a finite confidence; the error names key, variant, group and item.
    """
    asker = f'confidence "{variant}"'
    signals = Signals(rows, wanted_by=asker, groups=groups, items=items, used=used)
    if variant == "calibrated":
        fitted = _needed(calibrator, variant)
        if not fitted.supervised:
            raise TrustError(
                f"{asker} needs a calibrator fitted on signals; this one is {_kind(fitted)}: "
                f'use "calibrated:{fitted.confidence or "NAME"}"'
            )
        x, notes = feature_matrix(
            rows, fitted.features, groups=groups, items=items, used=used, wanted_by=asker
        )
        return Confidence(variant=variant, values=signals.finite(fitted.apply(x)), warnings=tuple(notes))
    plain = "verbalized" if variant == "verbalized_calibrated" else variant.removeprefix(CALIBRATED)
    values = signals.finite(_function(plain, within=variant)(signals))
    notes = filled_in(signals)
    if plain != variant:
        fitted = _needed(calibrator, variant)
        if isinstance(fitted.model, LinearModel):
            raise TrustError(
                f"{asker} needs a temperature or isotonic calibrator; this one is {_kind(fitted)}: "
                'use "calibrated", which looks at its own signals'
            )
        notes += fitted.doubts(plain) + _outside(fitted, values, plain)
        values = signals.finite(fitted.model.apply(values))
    return Confidence(variant=variant, values=values, warnings=tuple(notes))


def named_variants(word: str) -> tuple[str, ...]:
    """The variants that a word stands for: ``all``, ``default``, or itself."""
    return {"all": functions.ALL, "default": functions.DEFAULT}.get(word, (word,))


def _function(name: str, *, within: str) -> ConfidenceFunction:
    """The function of a base or secondary variant."""
    if not name.startswith(SECONDARY):
        return base_function(name, within=within)
    pair, _, how = name.removeprefix(SECONDARY).rpartition(":")
    first, _, second = pair.partition("+")
    if not first or not second or how not in COMBINE:
        raise TrustError(f'"{within}": expected secondary:<a>+<b>:<average|product>')
    one, other = base_function(first, within=within), base_function(second, within=within)
    combine = COMBINE[how]
    return lambda signals: combine(one(signals), other(signals))


def _needed(calibrator: Calibrator | None, variant: str) -> Calibrator:
    if calibrator is None:
        raise TrustError(f'confidence "{variant}" needs a calibrator, and none is given')
    return calibrator


def _kind(calibrator: Calibrator) -> str:
    made_for = calibrator.confidence or ", ".join(calibrator.features)
    return f'"{calibrator.method}"' + (f" on {made_for}" if made_for else "")


def _outside(calibrator: Calibrator, values: Floats, name: str) -> list[str]:
    """That a temperature meets values that are no probabilities: they clip to 0 or 1 and tie."""
    count = int(np.count_nonzero((values < 0) | (values > 1)))
    if calibrator.method != TEMPERATURE or not count:
        return []
    return [f'"{name}" lies outside [0, 1] in {count:,} items; a temperature took it for 0 or 1 there']
