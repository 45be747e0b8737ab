"""Distributions gathered while attempts pass by, in memory that does not grow with them."""

import msgspec

from trivium.metrics.score import Score, stands_in

BINS = 20


class Distribution(msgspec.Struct, kw_only=True):
    """How often a score fell into each twentieth of [0, 1]; the last holds 1 itself."""

    counts: list[int] = msgspec.field(default_factory=lambda: [0] * BINS)

    def add(self, value: float) -> None:
        """Count one value of [0, 1]."""
        self.counts[min(BINS - 1, max(0, int(value * BINS)))] += 1

    @property
    def total(self) -> int:
        """Values counted."""
        return sum(self.counts)

    @property
    def worth_drawing(self) -> bool:
        """Whether a picture says more than the mean: not of one value, nor of values that are all 0 or 1."""
        return self.total > 1 and any(self.counts[1:-1])


class Distributions:
    """The distribution of every metric, and of the composite."""

    def __init__(self) -> None:
        self.by_name: dict[str, Distribution] = {}

    def add(self, scores: dict[str, Score], composite: float | None) -> None:
        """Count the values of one attempt."""
        for name, score in scores.items():
            if score.value is not None and not stands_in(score):
                self.by_name.setdefault(name, Distribution()).add(score.value)
        if composite is not None:
            self.by_name.setdefault("composite", Distribution()).add(composite)
