"""Which judgements may stand without a person (spec: metrics, H.3; files, machine-readable answers)."""

from typing import Any, Literal

import msgspec
import numpy as np

from trivium.errors import TrustError
from trivium.runs.items.choosing import choose
from trivium.runs.items.ranked import confidences, kept_scale
from trivium.runs.items.table import ItemTable
from trivium.trust.acceptance import certify
from trivium.trust.calibration.calibrator import TEMPERATURE, Calibrator
from trivium.trust.calibration.targets import EQUAL
from trivium.trust.confidence.variants import Confidence
from trivium.trust.groups import Groups

SCHEMA_VERSION = "1"


def certificate(
    table: ItemTable,
    variant: str | None,
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
        variant: Which confidence; None: the one stated with the items, else the best signal by AUROC on
            these labels. Then ``delta`` is divided by the number of signals that were considered, so that the
            promise holds of whichever is chosen (Bonferroni).
        epsilon: Error among accepted predictions that is tolerated.
        delta: Chance that the promise is broken.
        tolerance: A prediction farther from the truth than this is wrong.
        group_size: The most predictions that a group can have.
        bound: The test where groups have several predictions.
        calibrator: For calibrated confidences.

    Raises:
        TrustError: If a value is off the scale that the table declares, an option or a confidence is not like
            that, or a calibrator may have been fitted on these labels (spec: metrics, H.4).
    """
    kept_scale(table, None)
    choice = choose([table], variant, tolerance=tolerance)
    named = choice.names[0]
    sure = confidences(table, named, calibrator=calibrator)
    _refuse_unknown_groups(sure)
    kept = np.flatnonzero(table.predicted)
    wrong = np.abs(table.pred[kept] - table.gt[kept]) > tolerance + EQUAL
    found = certify(
        wrong.astype(np.float64),
        sure.values[kept],
        Groups.of([table.groups.ids[code] for code in table.groups.codes[kept]]),
        epsilon=epsilon,
        delta=delta / choice.among,
        n_items=table.n,
        group_size=group_size,
        bound=bound,
    )
    answer: dict[str, Any] = {"confidence": named, **msgspec.structs.asdict(found), "delta": delta}
    return answer | {
        "confidence_choice": choice.to_json(),
        "calibration": msgspec.to_builtins(sure.calibrator),
        "schema_version": SCHEMA_VERSION,
        "dimension": table.origin.mode if table.judged_by is not None else None,
        "judged_by": table.judged_by,
        "calibrator": None if calibrator is None or sure.calibrator is None else calibrator.to_json(),
        "n_items": table.n,
        "tolerance": tolerance,
        "inputs": [msgspec.structs.asdict(table.origin)],
        "warnings": [*table.notes, *sure.warnings],
    }


def _refuse_unknown_groups(sure: Confidence) -> None:
    """Refuse a calibrator of which nobody can tell whether these labels fitted it."""
    use = sure.calibrator
    if use is not None and not use.groups_known and use.method != TEMPERATURE:
        raise TrustError(
            "the calibrator does not list the groups that it was fitted on. These labels may be among "
            "them, and then a certificate would promise nothing: fit it again with trivium trust calibrate"
        )
