"""Whether the announced number of further cases settles a gate or a comparison, by simulation.

    python -m benchmarks.needed_cases [trials per row, default 200] [--plans: only the plans]

Pilots (60 cases; 20 documents of 8 cases; 100 cases in a comparison) are drawn with a truth near
the limit, until one is inconclusive and announces a number. That many cases are added, and the gate or
comparison is evaluated on all of them. "truth at the estimate": the new cases come from a population whose
truth is the pilot's estimate (its own groups, drawn again); here the number promises to settle with 80 %
probability. "truth as drawn": they come from the pilot's true population, so that the error of the estimate
counts too; below it, the same by distance between truth and limit. "> 10,000": pilots that announce no
number. A gate asks for a rate of 0.8, with a truth of 0.65 to 0.95; in a comparison a fifth of the cases
change, the true difference is -0.15 to 0.15, and the margin 0.02. Documents have an intra-group correlation
of 0.2.

Then the plans of ``trivium plan``: two versions answer a pilot (60 cases; 20 documents of 5 cases; 3
repeats), a plan says how many cases find a difference with 80 % probability, and so many are drawn with that
difference. Their repeats are those of the plan, not of the pilot.
"""

import sys
import time
from collections.abc import Callable
from math import ceil

import numpy as np
import numpy.typing as npt

from benchmarks.sizes import sized
from trivium.runs.comparing.planning import RESERVE
from trivium.trust.clustered import ClusteredMean
from trivium.trust.sample_size import groups_to_detect, needed_groups, with_variance
from trivium.trust.variance_components import variance_components

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
        found = self.found(values)
        low, high = found.ends(0.95) or (0.0, 1.0)
        lost = high < self.below if self.gate else found.mean < 0 and found.sign_flip_tail() <= 0.025
        return low >= self.above or lost


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


class World:
    """Two versions whose scores differ by groups, cases and repeats."""

    def __init__(self, name: str, groups: int, per_group: int, *, verdicts: bool) -> None:
        self.name, self.groups, self.per_group, self.verdicts = name, groups, per_group, verdicts

    def differences(self, rng: np.random.Generator, groups: int, repeats: int, difference: float) -> Floats:
        """Differences of two versions, shape (groups, cases of a group, repeats)."""
        shape = (groups, self.per_group, repeats)
        own = rng.normal(0, 0.03, (groups, 1, 1)) + rng.normal(0, 0.05, (groups, self.per_group, 1))
        if not self.verdicts:
            return (difference + own + rng.normal(0, 0.15, shape)).clip(-1, 1)
        rates = 0.5 + rng.normal(0, 0.05, (groups, 1, 1)) + rng.normal(0, 0.1, (groups, self.per_group, 1))
        base, head = rng.uniform(size=shape) < rates, rng.uniform(size=shape) < rates + difference + own
        return head.astype(np.float64) - base

    def clustered(self, values: Floats) -> ClusteredMean:
        codes = np.repeat(np.arange(len(values)), self.per_group)
        found = ClusteredMean.of(values.mean(axis=2).ravel(), codes, kind="difference")
        assert found is not None
        return found


def planned(world: World, rng: np.random.Generator, trials: int) -> None:
    """Draw pilots, plan with 1 and 5 repeats, and print how often as many cases find the difference."""
    aim = 0.8 + RESERVE * 0.2
    for difference in (0.05, 0.1):
        row = f"{world.name:26}{difference:8g}"
        for repeats in (1, 5):
            found, numbers = [], []
            for _ in range(trials):
                pilot = world.differences(rng, world.groups, 3, 0.0)
                cases = np.repeat(np.arange(world.groups * world.per_group), 3)
                components = variance_components(pilot.ravel(), cases, cases // world.per_group)
                variance = components.of_mean(world.groups, cases_per_group=world.per_group, repeats=repeats)
                like = with_variance(world.clustered(pilot[:, :, :repeats]), variance)
                groups = groups_to_detect(like, difference, power=aim)
                if groups is None:
                    continue
                values = world.differences(rng, groups, repeats, difference)
                found.append(world.clustered(values).sign_flip_tail() <= 0.025)
                numbers.append(groups * world.per_group)
            row += f"{int(np.median(numbers)):8,}{np.mean(found):8.0%}"
        print(row, flush=True)


WORLDS = (
    World("scores, cases", 60, 1, verdicts=False),
    World("scores, documents", 20, 5, verdicts=False),
    World("verdicts, cases", 60, 1, verdicts=True),
    World("verdicts, documents", 20, 5, verdicts=True),
)

ROWS = (
    Row("gate, cases", 60, outcomes(1), gate=True),
    Row("gate, documents", 20, outcomes(8), gate=True),
    Row("comparison, cases", 100, differences(1), gate=False),
    Row("comparison, documents", 20, differences(8), gate=False),
)


def main() -> None:
    trials = next((int(word) for word in sys.argv[1:] if word.isdigit()), sized(200, 3))
    start, rng = time.perf_counter(), np.random.default_rng(42)
    error = (0.8 * 0.2 / trials) ** 0.5
    print(f"{trials:,} inconclusive pilots per row; Monte Carlo error near 80 %: ±{error:.0%}\n")
    heads = "".join(f"{f'to {far:g}':>9}" for far in NEAR[1:])
    print(
        f"{'settled with':26}{'median':>8}{'> 10,000':>10}{'truth at':>14}{'truth as':>12}   as drawn, truth"
    )
    print(f"{'announced number added':26}{'number':>8}{'':>10}{'the estimate':>14}{'drawn':>12}{heads}")
    for row in () if "--plans" in sys.argv else ROWS:
        tried(row, rng, trials)
    print(f"\n{'plans':26}{'differ':>8}{'1 repeat':>16}{'5 repeats':>16}")
    print(f"{'':26}{'ence':>8}{'cases':>8}{'found':>8}{'cases':>8}{'found':>8}")
    for world in WORLDS:
        planned(world, rng, trials)
    print(f"\n{time.perf_counter() - start:.1f} s")


if __name__ == "__main__":
    main()
