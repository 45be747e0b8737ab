"""Which attempts a report shows first."""

import math

from trivium.reports.view import EvaluationView

VERDICTS = ("error", "failed", "undecided", "passed")


def worst_first(view: EvaluationView) -> tuple[int, float, str, int]:
    """Sort key: failed attempts, then what did not pass, lowest composite first."""
    value = view.composite.value
    return (
        VERDICTS.index(view.verdict),
        math.inf if value is None else value,
        view.case.id,
        view.attempt.repeat,
    )
