"""Score of the time an attempt took (spec: metrics, T1.5)."""

import math

from trivium.metrics.metric import Metric, Skip, Subject, metric
from trivium.metrics.score import Score


def time_score(seconds: float) -> float:
    """1 up to a second, then 1 / (1 + ln t): 0.43 at 4 s, 0.2 at 55 s.

    Args:
        seconds: Wall time, 0 or more.

    Returns:
        In (0, 1], falling, continuous.
    """
    return 1.0 if seconds <= 1 else 1 / (1 + math.log(seconds))


@metric("time")
class Time(Metric):
    """How quick the attempt was; ``raw`` is its wall time in seconds."""

    def score(self, subject: Subject) -> Score:
        """The score of the attempt's seconds."""
        seconds = subject.attempt.seconds
        if seconds is None:
            raise Skip("nobody measured the attempt's time")
        if not (math.isfinite(seconds) and seconds >= 0):
            raise Skip(f"the attempt's time is no duration: {seconds} s")
        return self.ok(time_score(seconds), raw=seconds)
