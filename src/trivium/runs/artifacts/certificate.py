"""Which judgements may stand without a person (spec: metrics, H.3; files, machine-readable answers)."""

from typing import Any, Literal

import msgspec
import numpy as np

from trivium.runs.items.ranked import confidences, kept_scale
from trivium.runs.items.table import ItemTable
from trivium.trust.acceptance import certify
from trivium.trust.calibration.calibrator import Calibrator
from trivium.trust.calibration.targets import EQUAL
from trivium.trust.groups import Groups


def certificate(
    table: ItemTable,
    variant: str,
    *,
    epsilon: float = 0.1,
    delta: float = 0.1,
    tolerance: float = 0.0,
    group_size: int | None = None,
    bound: Literal["betting", "hoeffding"] = "betting",
    calibrator: Calibrator | None = None,
) -> dict[str, Any]:
    """The lowest confidence from which on predictions are certified, as a JSON value.

    Args:
        table: The items; abstentions count as left to people.
        variant: Which confidence.
        epsilon: Error among accepted predictions that is tolerated.
        delta: Chance that the promise is broken.
        tolerance: A prediction farther from the truth than this is wrong.
        group_size: The most predictions that a group can have.
        bound: The test where groups have several predictions.
        calibrator: For calibrated confidences.

    Raises:
        TrustError: If a value is off the scale that the table declares, or an option or a confidence is not
            like that.
    """
    kept_scale(table, None)
    values, notes = confidences(table, variant, calibrator=calibrator)
    kept = np.flatnonzero(table.predicted)
    wrong = np.abs(table.pred[kept] - table.gt[kept]) > tolerance + EQUAL
    found = certify(
        wrong.astype(np.float64),
        values[kept],
        Groups.of([table.groups.ids[code] for code in table.groups.codes[kept]]),
        epsilon=epsilon,
        delta=delta,
        n_items=table.n,
        group_size=group_size,
        bound=bound,
    )
    answer: dict[str, Any] = {"confidence": variant, **msgspec.structs.asdict(found)}
    return answer | {
        "n_items": table.n,
        "tolerance": tolerance,
        "inputs": [msgspec.structs.asdict(table.origin)],
        "warnings": [*table.notes, *notes],
    }
