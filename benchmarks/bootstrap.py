"""Bootstrap of the risk-coverage curve: one sorted sweep against a plain loop over resamples.

    python -m benchmarks.bootstrap [--large]

Both compute cmax, AURC and AUGRC for 10,000 resamples. The plain loop ranks the items of each resample again
for each metric, as other tools do; it runs for a few resamples and its time is extrapolated. The
largest difference between the two on the same draws is printed. ``--large`` adds 100,000 groups of 8.
"""

import random
import resource
import sys
import time
from collections.abc import Callable
from os import cpu_count
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.sizes import sized
from trivium.trust.cluster_bootstrap import BootstrapOptions
from trivium.trust.resampling import Rng
from trivium.trust.selective.inference import bootstrap_selective_metrics
from trivium.trust.selective.items import Items

NAMES = ("cmax", "aurc", "augrc")
RESAMPLES = sized(10_000, 20)
PER_GROUP = 8
TARGETS = {1_000: 300}

Floats = npt.NDArray[np.float64]
Item = tuple[int, float | None, float]  # group, loss or None where abstained, confidence


def random_items(groups: int, levels: int | None) -> list[Item]:
    rng = random.Random(groups)
    rows: list[Item] = []
    for group in range(groups):
        for _ in range(PER_GROUP):
            confidence = rng.random() if levels is None else rng.randrange(levels) / levels
            rows.append((group, None if rng.random() < 0.1 else float(rng.randrange(4)), confidence))
    return rows


def curve(items: list[Item]) -> list[tuple[float, float, float]]:
    """Coverage, selective and generalised risk at each working point."""
    ranked = sorted(((confidence, loss) for _, loss, confidence in items if loss is not None), reverse=True)
    points, total = [], 0.0
    for accepted, (confidence, loss) in enumerate(ranked, start=1):
        total += loss
        if accepted == len(ranked) or ranked[accepted][0] != confidence:
            points.append((accepted / len(items), total / accepted, total / len(items)))
    return points


def cmax(items: list[Item]) -> float:
    points = curve(items)
    return points[-1][0] if points else 0.0


def aurc(items: list[Item]) -> float:
    area, before, last = 0.0, 0.0, None
    for coverage, risk, _ in curve(items):
        area += (coverage - before) * (risk + (risk if last is None else last)) / 2
        before, last = coverage, risk
    return area


def augrc(items: list[Item]) -> float:
    area, before, last = 0.0, 0.0, 0.0
    for coverage, _, risk in curve(items):
        area += (coverage - before) * (risk + last) / 2
        before, last = coverage, risk
    return area


def plain(rows: list[Item], resamples: int) -> list[tuple[float, float, float]]:
    """The metrics of each resample, with the draws of the legacy generator."""
    by_group: dict[int, list[Item]] = {}
    for row in rows:
        by_group.setdefault(row[0], []).append(row)
    groups, draws, found = sorted(by_group), np.random.RandomState(42), []
    for _ in range(resamples):
        items: list[Item] = []
        for place in draws.randint(0, len(groups), size=len(groups)):
            items.extend(by_group[groups[place]])
        found.append((cmax(items), aurc(items), augrc(items)))
    return found


def ours(items: Items, resamples: int, *, rng: Rng = "pcg64", threads: int | None = None) -> Floats:
    plan = BootstrapOptions(resamples=resamples, rng=rng, threads=threads)
    return np.array(
        [estimate.replicates for estimate in bootstrap_selective_metrics(items, NAMES, plan).values()]
    )


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def seconds_of(run: Callable[[], Any], rounds: int) -> tuple[float, Any]:
    """Wall time of the fastest round, and its result."""
    best, found = np.inf, None
    for _ in range(rounds):
        started = time.perf_counter()
        found = run()
        best = min(best, time.perf_counter() - started)
    return best, found


def measure(groups: int, levels: int | None) -> None:
    rows = random_items(groups, levels)
    tried = max(2, sized(40_000, 80) // (groups * PER_GROUP))
    a_few, expected = seconds_of(lambda: plain(rows, tried), 3)
    plain_seconds = a_few / tried * RESAMPLES
    items = Items.of(
        [row[0] for row in rows],
        [row[1] or 0.0 for row in rows],
        [row[2] for row in rows],
        predicted=[row[1] is not None for row in rows],
    )
    worst = np.abs(ours(items, tried, rng="legacy") - np.array(expected).T).max()
    rounds = 1 if groups > 10_000 else 3
    threaded, _ = seconds_of(lambda: ours(items, RESAMPLES), rounds)
    peak = peak_mb()
    single = np.nan if groups > 10_000 else seconds_of(lambda: ours(items, RESAMPLES, threads=1), rounds)[0]
    kind = "distinct" if levels is None else f"{levels} levels"
    wanted = f"(target {TARGETS[groups]}x)" if groups in TARGETS and levels is None else ""
    print(
        f"{groups:>7,} x {PER_GROUP}  {kind:10}{plain_seconds:>10,.1f}{single:>10.2f}{threaded:>10.2f}"
        f"{plain_seconds / threaded:>9,.0f}x{worst:>12.0e}{peak:>9,.0f}  {wanted}",
        flush=True,
    )


def main() -> None:
    print(f"{RESAMPLES:,} resamples, {cpu_count()} processors; seconds")
    heads = f"{'plain':>10}{'1 thread':>10}{'threads':>10}{'':>10}{'difference':>12}{'peak MB':>9}"
    print(f"{'groups':11}  {'confidence':10}{heads}")
    for groups in sized((41, 1_000), (5,)):
        for levels in (None, 10):
            measure(groups, levels)
    if "--large" in sys.argv:
        measure(100_000, None)


if __name__ == "__main__":
    main()
