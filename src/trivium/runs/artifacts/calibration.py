"""Calibrators fitted on items (spec: metrics, S.10)."""

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from trivium.errors import TrustError
from trivium.runs.items.ranked import confidences, kept_scale
from trivium.runs.items.table import ItemTable
from trivium.trust.calibration.calibrator import Calibrator
from trivium.trust.calibration.features import feature_matrix
from trivium.trust.calibration.fitting import fit_calibrator
from trivium.trust.calibration.targets import target_values
from trivium.trust.groups import Groups

ON_SIGNALS = ("logistic", "platt", "linear")
"""Methods whose calibrators look at signals by name, never at a confidence."""


def calibrate(
    table: ItemTable,
    *,
    method: str,
    features: Sequence[str] = (),
    confidence: str | None = None,
    target: str = "correctness",
    scale: tuple[float, float] | None = None,
    seed: int = 42,
) -> Calibrator:
    """Fit a calibrator on the predictions of a table.

    Args:
        table: The items.
        method: ``temperature``, ``logistic``, ``platt``, ``linear`` or ``isotonic``.
        features: Signals to look at; or
        confidence: The confidence to calibrate, for ``temperature`` and ``isotonic``.
        target: ``correctness``, ``near_correct`` or ``loss``.
        scale: Of predictions and truths, where the user states it.
        seed: Of the split into folds.

    Raises:
        TrustError: If a value is off the scale, there is nothing to fit on, or the options do not go
            together.
    """
    if bool(features) == (confidence is not None):
        raise TrustError(
            "a calibrator looks at signals or at one confidence: name --features or --confidence"
        )
    if confidence is not None and method in ON_SIGNALS:
        raise TrustError(f'method "{method}" looks at signals: name --features')
    kept = np.flatnonzero(table.predicted)
    named = tuple(features)
    if confidence is not None:
        ranked_by = confidences(table, confidence)
        notes, x, named = ranked_by.warnings, ranked_by.values[kept], (confidence,)
    else:
        matrix, filled = feature_matrix(
            table.signals,
            features,
            groups=table.group_names,
            items=table.names,
            used=table.predicted,
            wanted_by=f'calibrator "{method}"',
        )
        x, notes = matrix[kept], tuple(filled)
    ends = kept_scale(table, scale)
    y = target_values(table.pred[kept], table.gt[kept], target, span=ends.width)
    training: dict[str, Any] = {
        key: value for key, value in msgspec.structs.asdict(table.origin).items() if value is not None
    }
    return fit_calibrator(
        method,
        x,
        y,
        features=named,
        groups=Groups.of([table.groups.ids[code] for code in table.groups.codes[kept]]),
        target=target,
        confidence=confidence,
        training=training | table.provenance,
        warnings=[*table.notes, *notes],
        seed=seed,
    )
