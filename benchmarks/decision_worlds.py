"""Worlds in which the true difference of two versions is known, for the benchmark of decisions.

A world draws comparisons: the outcomes of two versions over up to ``MOST`` cases in random order, and their
true difference over cases like these, head minus base. A rule that looks at 60 cases looks at the first 60.

    agents           two agents of SWE-bench Pro whose pass rates over all tasks that were run with both, the
                     truth, lie within 13 points of each other; both orders; tasks drawn without replacement.
                     The default prior was chosen on pairs of the first five agents; pairs of the other four,
                     and pairs of one of each, had no part in it
    steady, the same a version against itself: nine cases of ten have a steady outcome, the tenth is flaky
    flaky, the same  a version against itself: every case has a rate of its own, most of them neither 0 nor 1
    small changes    rates move by a normal difference (standard deviation 4 points), and a tenth of the cases
                     for reasons of their own
    few broken       0 to 12 % of the cases break, or are fixed; the others stay as they were
    re-runs          tau-bench: two of the four runs of one agent over 33 tasks, drawn anew for each task
"""

import csv
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import stats

Floats = npt.NDArray[np.float64]

DATA = Path(__file__).resolve().parents[2] / "shared/data"
"""Where public results lie, if at all. Without them only simulated worlds are drawn."""

MOST = 300
WITHIN = 0.13


class Drawn(NamedTuple):
    """Comparisons of one world.

    Attributes:
        base: Outcomes of base, 0 or 1, shape (comparisons, cases).
        head: Outcomes of head.
        truth: The true difference of each comparison, shape (comparisons,).
        rates: Success rates of base and head in each case, shape (2, comparisons, cases); None if unknown.
    """

    base: Floats
    head: Floats
    truth: Floats
    rates: Floats | None = None


World = Callable[[np.random.Generator, int], Drawn]
"""Draws a number of comparisons."""


def steady(rng: np.random.Generator, count: int) -> Floats:
    """Rates of a version, nine of ten 0 or 1, shape (count, MOST); their expectation is 0.68."""
    shape = count, MOST
    return np.where(rng.random(shape) < 0.9, rng.random(shape) < 0.7, rng.random(shape))


def flaky(rng: np.random.Generator, count: int) -> Floats:
    """Rates of a version, of any size, shape (count, MOST); their expectation is 0.6."""
    return rng.beta(1.5, 1.0, (count, MOST))


def spread_out(rng: np.random.Generator, count: int) -> Floats:
    """Uniform numbers in random order, one in each of so many equal parts of (0, 1); so few draws suffice."""
    return (rng.permutation(count) + rng.random(count)) / count


STEADY_RATE, FLAKY_RATE = 0.68, 0.6


def from_rates(rng: np.random.Generator, base: Floats, head: Floats, truth: Floats) -> Drawn:
    """One attempt of each side at each case."""
    rates = np.stack([base, head])
    outcomes = (rng.random(rates.shape) < rates).astype(np.float64)
    return Drawn(*outcomes, truth, rates)


def steady_same(rng: np.random.Generator, count: int) -> Drawn:
    """A version against itself, mostly steady."""
    rates = steady(rng, count)
    return from_rates(rng, rates, rates, np.zeros(count))


def flaky_same(rng: np.random.Generator, count: int) -> Drawn:
    """A version against itself, all flaky."""
    rates = flaky(rng, count)
    return from_rates(rng, rates, rates, np.zeros(count))


def small_changes(rng: np.random.Generator, count: int) -> Drawn:
    """All rates move a little, and a tenth of them is drawn anew."""
    base = flaky(rng, count)
    other = np.where(rng.random(base.shape) < 0.1, flaky(rng, count), base)
    truth = 0.04 * stats.norm.ppf(spread_out(rng, count))
    share = (np.abs(truth) / np.where(truth < 0, FLAKY_RATE, 1 - FLAKY_RATE))[:, None]
    head = np.where(truth[:, None] < 0, other * (1 - share), other + (1 - other) * share)
    return from_rates(rng, base, head, truth)


def few_broken(rng: np.random.Generator, count: int) -> Drawn:
    """Some cases fail for certain in one version, which is head in every second comparison."""
    better = steady(rng, count)
    share = 0.12 * spread_out(rng, count)
    worse = np.where(rng.random(better.shape) < share[:, None], 0.0, better)
    lost = (np.arange(count) % 2 == 0)[:, None]
    base, head = np.where(lost, better, worse), np.where(lost, worse, better)
    return from_rates(rng, base, head, np.where(lost[:, 0], -1, 1) * share * STEADY_RATE)


class Agents:
    """Comparisons of public results of agents.

    Args:
        one: Which agents, in the order of the file's columns.
        other: Which agents they are compared with.
        blank: What a task counts that was not run with an agent: NaN leaves it out, 0 takes it for failed.
    """

    def __init__(self, one: slice, other: slice, blank: float = np.nan) -> None:
        with (DATA / "decisions/swe_bench_pro.csv").open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        names = list(rows[0])[2:]
        results = np.array([[float(row[name] or blank) for row in rows] for name in names])
        places = range(len(names))
        chosen = {(a, b) for a, b in product(places[one], places[other]) if a != b}
        self._pairs = []
        for a, b in sorted(chosen | {(b, a) for a, b in chosen}):
            known = ~np.isnan(results[a]) & ~np.isnan(results[b])
            pair = results[[a, b]][:, known]
            if abs(pair[1].mean() - pair[0].mean()) <= WITHIN:
                self._pairs.append(pair)

    def __call__(self, rng: np.random.Generator, count: int) -> Drawn:
        """Draw comparisons, the pairs in turn."""
        drawn = []
        for number in range(count):
            pair = self._pairs[number % len(self._pairs)]
            tasks = rng.permutation(pair.shape[1])[:MOST]
            drawn.append((*pair[:, tasks], pair[1].mean() - pair[0].mean()))
        base, head, truth = zip(*drawn, strict=True)
        return Drawn(np.array(base), np.array(head), np.array(truth))


class Reruns:
    """Two runs of the four of tau-bench's agent, which one is drawn for each task."""

    def __init__(self) -> None:
        with (DATA / "traces/tau-bench/per_trajectory.csv").open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        tasks = sorted({row["task_id"] for row in rows}, key=int)
        self._rewards = np.array(
            [[float(row["reward"]) for row in rows if row["task_id"] == task] for task in tasks]
        )

    def __call__(self, rng: np.random.Generator, count: int) -> Drawn:
        """Draw comparisons, tasks in random order."""
        rewards = np.repeat(self._rewards[None], count, axis=0)
        pairs = rng.permuted(rewards, axis=2)[:, :, :2]
        order = rng.permuted(np.tile(np.arange(rewards.shape[1]), (count, 1)), axis=1)
        pairs = np.take_along_axis(pairs, order[:, :, None], axis=1)
        return Drawn(pairs[:, :, 0], pairs[:, :, 1], np.zeros(count))


FIRST, OTHERS = slice(0, 5), slice(5, None)
"""The agents on which the default prior was chosen, and those on which it was not."""

SIMULATED_SAME: dict[str, World] = {"steady, the same": steady_same, "flaky, the same": flaky_same}
SIMULATED_CHANGED: dict[str, World] = {"small changes": small_changes, "few broken": few_broken}


def same() -> dict[str, World]:
    """Worlds of a version against itself."""
    return SIMULATED_SAME | ({"re-runs": Reruns()} if DATA.is_dir() else {})


def changed() -> dict[str, World]:
    """Worlds of two versions."""
    if not DATA.is_dir():
        return SIMULATED_CHANGED
    public: dict[str, World] = {
        "agents, first five": Agents(FIRST, FIRST),
        "agents, other four": Agents(OTHERS, OTHERS),
        "agents, one of each": Agents(FIRST, OTHERS),
    }
    return SIMULATED_CHANGED | public
