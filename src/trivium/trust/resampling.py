"""Resamples of groups: how often each is drawn, in chunks, the same for everything that one seed serves.

spec: metrics, B.1. A resample draws as many groups as there are, with replacement. What a seed draws depends
on the number of groups alone: not on the chunks, the threads or the statistic.
"""

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from os import cpu_count
from typing import Literal

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.uint8]
Drawn = npt.NDArray[np.int32]

Rng = Literal["pcg64", "legacy"]

CHUNK_DRAWS = 1 << 22
"""Draws held at a time; four bytes each, and one for each count."""
_COUNTED_AT_ONCE = 1 << 16
_MOST_THREADS = 8


def draws(groups: int, *, resamples: int, seed: int, rng: Rng, at_once: int) -> Iterator[Drawn]:
    """Groups drawn by each resample, in chunks of shape (up to ``at_once``, groups).

    ``pcg64`` is NumPy's default generator; ``legacy`` is RandomState(seed).randint(0, groups, size=groups),
    one call a resample.
    """
    generator, old = np.random.default_rng(seed), np.random.RandomState(seed if rng == "legacy" else 0)
    for start in range(0, resamples, at_once):
        size = (min(at_once, resamples - start), groups)
        if rng == "legacy":
            yield old.randint(0, groups, size=size, dtype=np.int32)
        else:
            yield generator.integers(0, groups, size=size, dtype=np.int32)


def counts(drawn: Drawn, groups: int) -> Counts:
    """How often each group was drawn, shape (groups, resamples).

    A byte holds it: up to 255 groups nothing can be drawn more often, and with more the chance that one of
    10^9 counts reaches 256 is below 10^-490.
    """
    counted = np.empty(drawn.shape, np.uint8)
    rows = max(1, _COUNTED_AT_ONCE // groups)
    for start in range(0, len(drawn), rows):
        block = drawn[start : start + rows]
        apart = block + groups * np.arange(len(block), dtype=np.int32)[:, None]
        counted[start : start + rows] = np.bincount(apart.ravel(), minlength=block.size).reshape(block.shape)
    return np.ascontiguousarray(counted.T)


def over_resamples(
    compute: Callable[[Counts], Floats],
    groups: int,
    *,
    resamples: int,
    seed: int,
    rng: Rng,
    at_once: int | None = None,
    threads: int | None = None,
) -> Floats:
    """``compute`` over all resamples, chunk by chunk, on several threads; memory stays flat.

    Args:
        compute: From counts of shape (groups, b) to figures of shape (figures, b); called from several
            threads.
        groups: Number of groups, at least 1.
        resamples: Number of resamples.
        seed: Of the generator.
        rng: The generator.
        at_once: Resamples in a chunk; default: what keeps a chunk at ``CHUNK_DRAWS`` draws.
        threads: Default: one for each processor, up to eight.

    Returns:
        Shape (figures, resamples); (0, 0) without resamples.
    """
    size = at_once or chunk_size(groups)
    workers = threads or min(_MOST_THREADS, cpu_count() or 1)
    done: list[Floats] = []
    chunks = draws(groups, resamples=resamples, seed=seed, rng=rng, at_once=size)
    if workers == 1 or resamples <= size:
        done = [compute(counts(drawn, groups)) for drawn in chunks]
        return np.concatenate(done, axis=1) if done else np.empty((0, 0))
    with ThreadPoolExecutor(workers) as pool:
        pending: deque[Future[Floats]] = deque()
        for drawn in chunks:
            if len(pending) > workers:
                done.append(pending.popleft().result())
            pending.append(pool.submit(lambda some: compute(counts(some, groups)), drawn))
        done.extend(future.result() for future in pending)
    return np.concatenate(done, axis=1)


def chunk_size(groups: int) -> int:
    """Resamples in a chunk: at most ``CHUNK_DRAWS`` draws, at most 1,024 resamples."""
    return max(1, min(1024, CHUNK_DRAWS // groups))
