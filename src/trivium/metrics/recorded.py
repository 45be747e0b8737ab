"""Scores that another tool gave an attempt, as metrics: ``inspect.SCORER`` is what a scorer of Inspect said.

They stand in ``metadata.scores`` of the attempt, by name. A value that is no number in [0, 1] is reported, as
it stands, not scored.
"""

from functools import cache
from typing import Any

from trivium.metrics.metric import REGISTERED as _REGISTERED
from trivium.metrics.metric import Metric, Skip, Subject, metric
from trivium.metrics.score import Score


@cache
def recorded_metric(name: str) -> type[Metric]:
    """The metric that passes on the recorded score of a name."""
    made: type[Metric] = metric(name)(type("RecordedScore", (_Recorded,), {"__doc__": _Recorded.__doc__}))
    del _REGISTERED[name]  # other suites shall not take it for one of theirs
    return made


class _Recorded(Metric):
    """What another tool said of the attempt."""

    def score(self, subject: Subject) -> Score:
        """The recorded score; skipped where there is none, or the tool itself gave no value."""
        scores = subject.attempt.metadata.get("scores")
        told = scores.get(self.name) if isinstance(scores, dict) else None
        if not isinstance(told, dict):
            raise Skip(f"no score {self.name} was recorded")
        detail = {key: told[key] for key in ("answer", "explanation", "edits", "original") if key in told}
        if told.get("unscored") is not None:
            return Score(
                name=self.name,
                tier=self.tier,
                status="abstained",
                reason=str(told["unscored"]),
                detail=detail,
            )
        return self.ok(_share(told.get("value")), raw=told.get("raw"), detail=detail)


def _share(value: Any) -> float | None:
    ok = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1
    return float(value) if ok else None
