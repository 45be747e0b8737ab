"""Intervals of up to a million items: time beside that of drawing alone, and peak memory.

    python -m benchmarks.large_bootstrap [--threads 1,2,…] [--ray]

AURC and AUGRC with distinct confidences, once with a group for every item and once with groups of 100, each
in a process of its own. *Ideal* is the CPU time that NumPy takes for drawing the same groups and for one
running sum over the items; a curve has two, and divides them. A few resamples are timed, less the time of
ranking; the time of 10,000 is extrapolated. ``--threads`` adds a row for each number of threads; ``--ray``
adds one for a Ray cluster of one node with two CPUs: with the CPU time that its workers take for drawing and
evaluating, once they have started.
"""

import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import nullcontext
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.sizes import sized
from benchmarks.workers import cluster
from trivium.runs.engines.ray_resampling import on_ray
from trivium.trust.cluster_bootstrap import BootstrapOptions, Groups
from trivium.trust.resampling import Chunk, ChunkMap, Compute, Floats
from trivium.trust.selective.inference import bootstrap_selective_metrics
from trivium.trust.selective.items import Items

SIZES = sized((10_000, 100_000, 1_000_000), (1_000,))
PER_GROUP = (1, 100)
RESAMPLES = 10_000
WORK = sized(200_000_000, 20_000)
"""Items times resamples that are timed."""


def main(arguments: list[str]) -> None:
    """Print one table; with the size, the items of a group and where it is computed, one row of it."""
    if arguments and arguments[0].isdigit():
        print(row(int(arguments[0]), int(arguments[1]), arguments[2]))
        return
    places = arguments[arguments.index("--threads") + 1].split(",") if "--threads" in arguments else ["all"]
    places += ["ray"] * ("--ray" in arguments)
    print(f"{os.cpu_count()} processors; seconds for {RESAMPLES:,} resamples, of fewer")
    heads = f"{'wall':>9}{'CPU':>9}{'ideal':>9}{'CPU/ideal':>11}{'ranking':>9}{'peak MB':>9}"
    print(f"{'items':>9} {'groups':>9} {'threads':>8}{heads}")
    with cluster() if "ray" in places else nullcontext():
        for size, per_group, place in product(SIZES, PER_GROUP, places):
            command = [sys.executable, "-m", "benchmarks.large_bootstrap", str(size), str(per_group), place]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            print(done.stdout, end="", flush=True)


def row(size: int, per_group: int, place: str) -> str:
    """Measure items in groups of equal size, on all processors, some threads or Ray."""
    rng, groups = np.random.default_rng(0), size // per_group
    items = Items.of(
        Groups(ids=tuple(map(str, range(groups))), codes=np.arange(size) // per_group),
        rng.integers(4, size=size).astype(np.float64),
        rng.random(size),
    )
    names, resamples = ("aurc", "augrc"), max(2, min(RESAMPLES, WORK // size))
    threads = int(place) if place.isdigit() else None
    with on_ray() if place == "ray" else nullcontext() as ray_map:
        used: list[float] = []
        chunk_map = partial(noting_cpu, ray_map, used) if ray_map else None

        def measured(resamples: int) -> tuple[float, float]:
            used.clear()
            plan = BootstrapOptions(resamples=resamples, threads=threads, chunk_map=chunk_map)
            wall, cpu = seconds(lambda: bootstrap_selective_metrics(items, names, plan))
            return wall, cpu + sum(used)

        wall_0, cpu_0 = measured(0)
        if place == "ray":
            measured(resamples)
        wall, cpu = measured(resamples)
    draw, numbers, few = np.random.default_rng(42).integers, rng.random(size), max(1, resamples // 10)
    _, ideal = seconds(
        lambda: [(draw(groups, size=groups, dtype=np.int32), numbers.cumsum(out=numbers)) for _ in range(few)]
    )
    ideal *= RESAMPLES / few
    times = RESAMPLES / resamples
    wall, cpu = (wall - wall_0) * times, (cpu - cpu_0) * times
    return (
        f"{size:>9,} {groups:>9,} {place:>8}{wall:>9.1f}{cpu:>9.1f}{ideal:>9.1f}{cpu / ideal:>11.1f}"
        f"{cpu_0:>9.2f}{peak_mb():>9,.0f}"
    )


def noting_cpu(
    chunk_map: ChunkMap, used: list[float], function: Compute, chunks: Iterator[Chunk]
) -> Generator[Floats, None, None]:
    """Compute chunks, and note the CPU time of each."""
    for found in chunk_map(partial(with_cpu, function), chunks):
        used.append(found[-1, 0])
        yield found[:-1]


def with_cpu(function: Compute, chunk: Chunk) -> Floats:
    """The values of a chunk, and in a last row the CPU time that they took."""
    start = time.process_time()
    values = function(chunk)
    return np.vstack([values, np.full(values.shape[1], time.process_time() - start)])


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
