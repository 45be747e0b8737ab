"""Whether the announced number of further cases settles a gate or a comparison, by simulation.

    python benchmarks/needed_cases.py [trials per row, default 200]

Pilots (60 cases; 20 documents of 8 cases; 100 cases in a comparison) are drawn with a truth near
the limit, until one is inconclusive and announces a number. That many cases are added, and the gate or
comparison is evaluated on all of them. "truth at the estimate": the new cases come from a population whose
truth is the pilot's estimate (its own groups, drawn again); here the number promises to settle with 80 %
probability. "truth as drawn": they come from the pilot's true population, so that the error of the estimate
counts too; below it, the same by distance between truth and limit. "> 10,000": pilots that announce no
number. A gate asks for a rate of 0.8, with a truth of 0.65 to 0.95; in a comparison a fifth of the cases
change, the true difference is -0.15 to 0.15, and the margin 0.02. Documents have an intra-group correlation
of 0.2.
"""

import sys
import time
from collections.abc import Callable
from math import ceil

import numpy as np
import numpy.typing as npt

from benchmarks.sizes import sized
from trivium.trust.clustered import ClusteredMean
from trivium.trust.sample_size import needed_groups

Floats = npt.NDArray[np.float64]
Groups = Callable[[np.random.Generator, int, float], Floats]

LIMIT, MARGIN, CHANGED, CORRELATION = 0.8, 0.02, 0.2, 0.2
NEAR = (0.0, 0.025, 0.05, 0.1, 0.2)
"""Distances between truth and limit that get rows of their own."""


def correlated(rng: np.random.Generator, shares: Floats, groups: int, size: int) -> Floats:
    """Probabilities of each kind of outcome in each group, shape (groups, kinds)."""
    if size == 1:
        return np.tile(shares, (groups, 1))
    return rng.dirichlet(shares * (1 - CORRELATION) / CORRELATION, size=groups)


def outcomes(size: int) -> Groups:
    """Outcomes of some groups, shape (groups, size), with a true rate."""

    def draw(rng: np.random.Generator, groups: int, truth: float) -> Floats:
        rates = correlated(rng, np.array([truth, 1 - truth]), groups, size)[:, :1]
        return (rng.uniform(size=(groups, size)) < rates).astype(np.float64)

    return draw


def differences(size: int) -> Groups:
    """Differences of paired outcomes, shape (groups, size), with a true mean."""

    def draw(rng: np.random.Generator, groups: int, truth: float) -> Floats:
        shares = np.array([(CHANGED - truth) / 2, (CHANGED + truth) / 2, 1 - CHANGED])
        of_group = np.cumsum(correlated(rng, shares, groups, size), axis=1)
        place = rng.uniform(size=(groups, size))
        return np.where(place < of_group[:, :1], -1.0, np.where(place < of_group[:, 1:2], 1.0, 0.0))

    return draw


class Row:
    """A kind of decision: how it is drawn, and when it is settled."""

    def __init__(self, name: str, groups: int, draw: Groups, *, gate: bool) -> None:
        self.name, self.groups, self.draw, self.gate = name, groups, draw, gate
        self.above, self.below = (LIMIT, LIMIT) if gate else (-MARGIN, 0.0)

    def truth(self, rng: np.random.Generator) -> float:
        return rng.uniform(LIMIT - 0.15, LIMIT + 0.15) if self.gate else rng.uniform(-0.15, 0.15)

    def distance(self, truth: float) -> float:
        """From the truth to the nearest place where more cases would never settle it."""
        if self.gate:
            return abs(truth - LIMIT)
        return min(abs(truth + MARGIN), abs(truth)) if truth > -MARGIN / 2 else abs(truth)

    def found(self, values: Floats) -> ClusteredMean:
        groups = np.repeat(np.arange(len(values)), values.shape[1])
        found = ClusteredMean.of(values.ravel(), groups, kind="rate" if self.gate else "difference")
        assert found is not None
        return found

    def settled(self, values: Floats) -> bool:
        low, high, _ = self.found(values).ends(0.95) or (0.0, 1.0, "")
        return low >= self.above or high < self.below


def tried(row: Row, rng: np.random.Generator, trials: int) -> None:
    """Draw pilots, add the announced number of cases, and print how many are settled."""
    at_estimate, as_drawn, distances, numbers, none = [], [], [], [], 0
    while len(as_drawn) < trials:
        truth = row.truth(rng)
        pilot = row.draw(rng, row.groups, truth)
        further = needed_groups(row.found(pilot), above=row.above, below=row.below)
        if further == 0:
            continue
        if further is None:
            none += 1
            continue
        again = pilot[rng.integers(len(pilot), size=further)]
        at_estimate.append(row.settled(np.concatenate([pilot, again])))
        as_drawn.append(row.settled(np.concatenate([pilot, row.draw(rng, further, truth)])))
        distances.append(row.distance(truth))
        numbers.append(further)
    place = np.digitize(distances, NEAR)
    settled = np.array(as_drawn, float)
    by_distance = "".join(
        f"{settled[place == at].mean():9.0%}" if (place == at).any() else f"{'–':>9}"
        for at in range(1, len(NEAR))
    )
    share = none / (none + trials)
    print(
        f"{row.name:26}{ceil(float(np.median(numbers))):8,}{share:10.0%}"
        f"{np.mean(at_estimate):14.0%}{settled.mean():12.0%}{by_distance}",
        flush=True,
    )


ROWS = (
    Row("gate, cases", 60, outcomes(1), gate=True),
    Row("gate, documents", 20, outcomes(8), gate=True),
    Row("comparison, cases", 100, differences(1), gate=False),
    Row("comparison, documents", 20, differences(8), gate=False),
)


def main() -> None:
    trials = int(sys.argv[1]) if len(sys.argv) > 1 else sized(200, 3)
    start, rng = time.perf_counter(), np.random.default_rng(42)
    error = (0.8 * 0.2 / trials) ** 0.5
    print(f"{trials:,} inconclusive pilots per row; Monte Carlo error near 80 %: ±{error:.0%}\n")
    heads = "".join(f"{f'to {far:g}':>9}" for far in NEAR[1:])
    print(
        f"{'settled with':26}{'median':>8}{'> 10,000':>10}{'truth at':>14}{'truth as':>12}   as drawn, truth"
    )
    print(f"{'announced number added':26}{'number':>8}{'':>10}{'the estimate':>14}{'drawn':>12}{heads}")
    for row in ROWS:
        tried(row, rng, trials)
    print(f"\n{time.perf_counter() - start:.1f} s")


if __name__ == "__main__":
    main()
