"""Accuracy of judgements combined from several samples (``judge.samples``).

The simulated judge is right on average (3 of 5, or 0.600). On a criterion it is off by one, up or down, in
half of its answers: independently for each criterion, on all criteria alike, or rarely (in a fifth). The
samples are combined as in Trivium and, for comparison, by the most frequent score (ties to the smaller one),
as the agreement of samples is measured. The Monte Carlo error is at most 0.001.

    python -m benchmarks.judge_samples [judgements, default 20000]
"""

import sys
from collections.abc import Sequence

import numpy as np

from trivium.metrics.judge.judgement import combine_samples, value_of
from trivium.metrics.judge.prompts.answer import Answer
from trivium.metrics.judge.signals import modal
from trivium.suites.rubrics.built_in import built_in_rubrics
from trivium.suites.rubrics.rubric import Dimension

REVIEW = built_in_rubrics()["review"]

TRUTH = 3
SAMPLES = (1, 2, 3, 5, 9)
KINDS = {"each criterion by itself": (0.25, False), "all alike": (0.25, True), "seldom": (0.1, False)}
"""Probability of being one too high, which is that of being one too low, and whether criteria agree."""


def answers(
    rng: np.random.Generator, dimension: Dimension, count: int, chance: float, alike: bool
) -> list[Answer]:
    """Samples of one judgement."""
    names = [each.name for each in dimension.criteria]
    shape = (count, 1 if alike else len(names))
    off = rng.choice([-1, 0, 1], p=[chance, 1 - 2 * chance, chance], size=shape)
    scores = np.broadcast_to(TRUTH + off, (count, len(names)))
    return [
        Answer(reason="", evidence=(), confidence=3, criteria=dict(zip(names, map(float, row), strict=True)))
        for row in scores
    ]


def means(
    dimension: Dimension, count: int, judgements: int, chance: float, alike: bool
) -> tuple[float, float]:
    """Mean score by the median of each criterion, and by the most frequent score."""
    rng = np.random.default_rng(count)
    by_median: list[float] = []
    by_mode: list[float] = []
    for _ in range(judgements):
        drawn = answers(rng, dimension, count, chance, alike)
        value = combine_samples(drawn, dimension, scale="ratio").value
        mode = modal([value_of(each, dimension, scale="ratio") for each in drawn])
        if value is None or mode is None:
            raise AssertionError("nobody abstains here")
        by_median.append(value)
        by_mode.append(mode)
    return float(np.mean(by_median)), float(np.mean(by_mode))


def main(arguments: Sequence[str]) -> None:
    judgements = int(arguments[0]) if arguments else 20_000
    dimensions = [each for each in REVIEW.dimensions if each.name in ("clarity", "technical_accuracy")]
    print(f"{'dimension':<20} {'off':<26} {'by':<7}" + "".join(f"{n:>7}" for n in SAMPLES))
    for dimension in dimensions:
        for kind, (chance, alike) in KINDS.items():
            found = [means(dimension, n, judgements, chance, alike) for n in SAMPLES]
            for by, values in zip(("median", "mode"), zip(*found, strict=True), strict=True):
                print(f"{dimension.name:<20} {kind:<26} {by:<7}" + "".join(f"{each:7.3f}" for each in values))


if __name__ == "__main__":
    main(sys.argv[1:])
