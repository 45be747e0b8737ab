"""How often the intervals of a judge's corrected mean and of kappa hold the truth, with few labels.

    python -m benchmarks.agreement [worlds per cell, default 1000]

The first table is of PPI++ (``corrected_mean``) for scores that are not only right or wrong, the second of
Cohen's kappa (``agreement``) where one label is rare. Beside each share, in brackets, is that of the interval
without its allowance for what few labels cannot show: t by groups, and the bootstrap alone.
"""

import sys
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from benchmarks.sizes import sized
from trivium.trust import bias_correction, rater_agreement
from trivium.trust.bias_correction import corrected_mean
from trivium.trust.rater_agreement import agreement

Floats = npt.NDArray[np.float64]
Draw = Callable[[np.random.Generator, int], tuple[Floats, Floats]]
"""Draws the scores of people and of the judge."""

LABELS = sized((10, 20, 40, 100), (10,))
UNLABELLED = 400
CEILING = (0.03, 0.04, 0.08, 0.15, 0.70)
HIGH_CEILING = (0.01, 0.01, 0.03, 0.05, 0.90)
EVEN = (0.2, 0.2, 0.2, 0.2, 0.2)
KAPPAS = sized(
    [
        (0.97, 0.97, 0.8, 20),
        (0.97, 0.97, 0.8, 50),
        (0.97, 0.99, 0.5, 50),
        (0.95, 0.97, 0.8, 30),
        (0.95, 0.97, 0.8, 50),
        (0.97, 0.97, 0.8, 100),
        (0.9, 0.95, 0.85, 50),
        (0.5, 0.9, 0.9, 30),
    ],
    [(0.95, 0.97, 0.8, 30)],
)
"""Share right by people, the judge's sensitivity and specificity, and labels."""


def steps(rng: np.random.Generator, n: int, shares: tuple[float, ...]) -> Floats:
    """Scores on five steps from 0 to 1."""
    return rng.choice(5, size=n, p=shares) / 4


def lenient(shares: tuple[float, ...]) -> Draw:
    """A judge that is a step or two too high more often than not."""

    def draw(rng: np.random.Generator, n: int) -> tuple[Floats, Floats]:
        people = steps(rng, n, shares)
        return people, np.minimum(1, people + (rng.random(n) < 0.6) / 4 + (rng.random(n) < 0.2) / 4)

    return draw


def exact(shares: tuple[float, ...]) -> Draw:
    """A judge that is exact in 90 %, and else anywhere."""

    def draw(rng: np.random.Generator, n: int) -> tuple[Floats, Floats]:
        people = steps(rng, n, shares)
        return people, np.where(rng.random(n) < 0.9, people, steps(rng, n, EVEN))

    return draw


def skewed(rng: np.random.Generator, n: int) -> tuple[Floats, Floats]:
    """Continuous scores near the upper end with a long tail, and a noisy judge."""
    people = rng.beta(6, 0.6, n)
    return people, np.clip(people + rng.normal(0.03, 0.08, n), 0, 1)


def rare(rng: np.random.Generator, n: int) -> tuple[Floats, Floats]:
    """Scores near 1 that the judge rewords a little; it misses one case in twenty that is near 0."""
    people = np.where(rng.random(n) < 0.05, 0.2 * rng.random(n), 1 - 0.02 * rng.random(n))
    return people, 1 - 0.02 * rng.random(n)


def even(rng: np.random.Generator, n: int) -> tuple[Floats, Floats]:
    """Continuous scores in the middle, and a noisy judge."""
    people = np.clip(rng.normal(0.5, 0.15, n), 0, 1)
    return people, np.clip(people + rng.normal(0, 0.1, n), 0, 1)


SCORES: dict[str, Draw] = {
    "ceiling 70 %, lenient judge": lenient(CEILING),
    "ceiling 90 %, lenient judge": lenient(HIGH_CEILING),
    "ceiling 70 %, judge exact in 90 %": exact(CEILING),
    "even steps, judge exact in 90 %": exact(EVEN),
    "continuous, skewed": skewed,
    "continuous, even": even,
    "near 1, one in 20 near 0, unseen by the judge": rare,
}


def holds(draw: Draw, truth: float, labels: int, seed: int) -> bool:
    """Whether the interval of the corrected mean holds the truth in a world."""
    people, judge = draw(np.random.default_rng([seed, labels]), labels + UNLABELLED)
    found = corrected_mean(
        people[:labels],
        judge[:labels],
        judge[labels:],
        groups=range(labels),
        groups_only=range(labels, labels + UNLABELLED),
    ).interval
    return found is not None and found.low <= truth <= found.high


def corrected_table(worlds: int) -> list[str]:
    """Coverage of PPI++ in per cent, and without the allowance."""
    allowance = bias_correction.UNSEEN_GROUPS
    lines = [f"{'PPI++ by labels':46}" + "".join(f"{labels:>14}" for labels in LABELS)]
    for name, draw in SCORES.items():
        truth = float(draw(np.random.default_rng(0), sized(4_000_000, 1_000))[0].mean())
        cells = []
        for labels in LABELS:
            shares = []
            for bias_correction.UNSEEN_GROUPS in (allowance, 0.0):
                shares.append(sum(holds(draw, truth, labels, seed) for seed in range(worlds)) / worlds)
            cells.append(f"{100 * shares[0]:.1f} ({100 * shares[1]:.1f})")
        bias_correction.UNSEEN_GROUPS = allowance
        lines.append(f"{name:46}" + "".join(f"{cell:>14}" for cell in cells))
    return lines


def kappa_table(worlds: int) -> list[str]:
    """Share of the worlds with an interval of kappa, and its coverage, in per cent."""
    allowance = rater_agreement.UNSEEN_PAIRS
    lines = [f"{'kappa':46}{'given':>8}{'covers':>16}"]
    for right, sensitivity, specificity, labels in KAPPAS:
        both = np.array([sensitivity * right, 0, 0, specificity * (1 - right)])
        both[1:3] = right - both[0], 1 - right - both[3]
        judged = both[0] + both[2]
        chance = judged * right + (1 - judged) * (1 - right)
        truth = 1 - (both[1] + both[2]) / (1 - chance)
        shares, given = [], 0
        for rater_agreement.UNSEEN_PAIRS in (allowance, 0.0):
            held, given = 0, 0
            for seed in range(worlds):
                drawn = np.random.default_rng([seed, labels]).choice(4, size=labels, p=both)
                people, judge = np.isin(drawn, (0, 1)), np.isin(drawn, (0, 2))
                found = (
                    agreement(judge, people, range(labels), resamples=sized(1_000, 50))
                    .figures["kappa"]
                    .interval
                )
                given += found is not None
                held += found is not None and found.low <= truth <= found.high
            shares.append(100 * held / max(given, 1))
        rater_agreement.UNSEEN_PAIRS = allowance
        name = f"{100 * right:g} % right, {labels} labels, κ {truth:.2f}"
        lines.append(f"{name:46}{100 * given / worlds:7.0f}%{f'{shares[0]:.1f} ({shares[1]:.1f})':>16}")
    return lines


if __name__ == "__main__":
    count = int(sys.argv[1]) if len(sys.argv) > 1 else sized(1_000, 2)
    print("\n".join([*corrected_table(count), "", *kappa_table(max(1, count // 2))]))
