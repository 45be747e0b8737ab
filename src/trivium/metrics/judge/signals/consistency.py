"""Consistency: what several samples of one judgement say together (spec: metrics, T2.5)."""

import statistics
from collections import Counter
from collections.abc import Sequence

NONE: dict[str, float | None] = {
    "consistency_modal_confidence": None,
    "consistency_score_std": None,
    "consistency_na_rate": None,
}


def modal(values: Sequence[float | None]) -> float | None:
    """The most frequent value; None is an abstention. A tie goes to abstention, then to the smaller score."""
    counts = Counter(values)
    most = max(counts.values())
    tied = [value for value, count in counts.items() if count == most]
    numbers = [value for value in tied if value is not None]
    return None if len(numbers) < len(tied) else min(numbers)


def consistency(values: Sequence[float | None]) -> dict[str, float | None]:
    """The three signals of the samples of one judgement.

    Args:
        values: The score of each sample that came, None where it abstained. Of fewer than two nothing can be
            told, and the signals are null: one that is left of several agrees with nobody.
    """
    if len(values) < 2:
        return dict(NONE)
    numbers = [value for value in values if value is not None]
    return {
        "consistency_modal_confidence": Counter(values)[modal(values)] / len(values),
        "consistency_score_std": statistics.pstdev(numbers) if len(numbers) > 1 else 0.0,
        "consistency_na_rate": (len(values) - len(numbers)) / len(values),
    }
