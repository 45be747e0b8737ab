"""Intervals of up to a million items: time beside that of drawing alone, and peak memory.

    python -m benchmarks.large_bootstrap

AURC and AUGRC with distinct confidences, once with a group for every item and once with groups of 100, each
in a process of its own. *Ideal* is the CPU time that NumPy takes for drawing the same groups and for one
running sum over the items; a curve has two, and divides them. A few resamples are timed, less the time of
ranking; the time of 10,000 is extrapolated.
"""

import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.sizes import sized
from trivium.trust.cluster_bootstrap import Groups
from trivium.trust.selective.inference import BootstrapOptions, bootstrap_selective_metrics
from trivium.trust.selective.items import Items

SIZES = sized((10_000, 100_000, 1_000_000), (1_000,))
PER_GROUP = (1, 100)
RESAMPLES = 10_000
WORK = sized(200_000_000, 20_000)
"""Items times resamples that are timed."""


def main(arguments: list[str]) -> None:
    """Print one table; with arguments, one row of it."""
    if arguments:
        print(row(int(arguments[0]), int(arguments[1])))
        return
    print(f"{os.cpu_count()} processors; seconds for {RESAMPLES:,} resamples, of fewer")
    heads = f"{'wall':>9}{'CPU':>9}{'ideal':>9}{'CPU/ideal':>11}{'ranking':>9}{'peak MB':>9}"
    print(f"{'items':>9} {'groups':>9}{heads}")
    for size in SIZES:
        for per_group in PER_GROUP:
            command = [sys.executable, "-m", "benchmarks.large_bootstrap", str(size), str(per_group)]
            print(
                subprocess.run(command, check=True, capture_output=True, text=True).stdout, end="", flush=True
            )


def row(size: int, per_group: int) -> str:
    """Measure items in groups of equal size."""
    rng, groups = np.random.default_rng(0), size // per_group
    items = Items.of(
        Groups(ids=tuple(map(str, range(groups))), codes=np.arange(size) // per_group),
        rng.integers(4, size=size).astype(np.float64),
        rng.random(size),
    )
    names, resamples = ("aurc", "augrc"), max(2, min(RESAMPLES, WORK // size))
    wall_0, cpu_0 = seconds(lambda: bootstrap_selective_metrics(items, names, BootstrapOptions(resamples=0)))
    wall, cpu = seconds(
        lambda: bootstrap_selective_metrics(items, names, BootstrapOptions(resamples=resamples))
    )
    draw, numbers, few = np.random.default_rng(42).integers, rng.random(size), max(1, resamples // 10)
    _, ideal = seconds(
        lambda: [(draw(groups, size=groups, dtype=np.int32), numbers.cumsum(out=numbers)) for _ in range(few)]
    )
    ideal *= RESAMPLES / few
    times = RESAMPLES / resamples
    wall, cpu = (wall - wall_0) * times, (cpu - cpu_0) * times
    return (
        f"{size:>9,} {groups:>9,}{wall:>9.1f}{cpu:>9.1f}{ideal:>9.1f}{cpu / ideal:>11.1f}{cpu_0:>9.2f}"
        f"{peak_mb():>9,.0f}"
    )


def seconds(run: Callable[[], Any]) -> tuple[float, float]:
    """Wall and CPU time of a call."""
    wall, cpu = time.perf_counter(), time.process_time()
    run()
    return time.perf_counter() - wall, time.process_time() - cpu


def peak_mb() -> float:
    """Peak memory of this process in MB."""
    status = Path("/proc/self/status")
    if status.exists():  # ru_maxrss would include that of the process that started this one
        return int(status.read_text().split("VmHWM:")[1].split()[0]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main(sys.argv[1:])
