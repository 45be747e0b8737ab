"""Calibrators as files (spec: metrics, S.10)."""

from pathlib import Path

from trivium.errors import ItemsError, TrustError
from trivium.runs.items.lines import lenient_json
from trivium.suites.files.reading import Malformed, read_text
from trivium.trust.calibration.calibrator import Calibrator, calibrator_from_json


def read_calibrator(path: Path) -> Calibrator:
    """The calibrator of a JSON artifact, whichever tool wrote it.

    Raises:
        ItemsError: If the file is no such artifact.
    """
    try:
        return calibrator_from_json(lenient_json(read_text(path, error=ItemsError)))
    except Malformed as malformed:
        raise ItemsError(str(path), malformed.problem) from malformed
    except TrustError as error:
        raise ItemsError(str(path), error.problems) from error
