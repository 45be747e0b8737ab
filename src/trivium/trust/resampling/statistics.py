"""Computes statistics of all resamples, chunk by chunk, on threads or elsewhere."""

import os
from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from functools import partial

import numpy as np

from trivium.trust.arrays import Floats
from trivium.trust.resampling.chunks import Counts, LeftOut, Rng, Weightings, resample_chunks

OnProgress = Callable[[int], None]
"""Called with the number of further resamples that are done."""

CHUNK = 1 << 22
"""Default number of counts in a chunk; one byte each."""
_MOST_RESAMPLES = 1024

Compute = Callable[[Weightings], Floats]
ChunkMap = Callable[[Compute, Iterator[Weightings]], Generator[Floats, None, None]]
"""Applies a function to chunks, wherever it likes, and yields the results in the order of the chunks."""


def on_threads(threads: int) -> ChunkMap:
    """Apply the function on several threads. At most two chunks more than there are threads are held."""

    def apply(function: Compute, chunks: Iterator[Weightings]) -> Generator[Floats, None, None]:
        pool = ThreadPoolExecutor(threads)
        pending: deque[Future[Floats]] = deque()
        try:
            for chunk in chunks:
                if len(pending) > threads:
                    yield pending.popleft().result()
                pending.append(pool.submit(function, chunk))
            while pending:
                yield pending.popleft().result()
        finally:
            pool.shutdown(cancel_futures=True)  # an error or Ctrl-C waits only for the chunks in hand

    return apply


def over_resamples(
    compute: Callable[[Counts], Floats],
    groups: int,
    *,
    resamples: int,
    seed: int,
    rng: Rng,
    at_once: int | None = None,
    threads: int | None = None,
    chunk_map: ChunkMap | None = None,
    progress: OnProgress | None = None,
) -> Floats:
    """Apply ``compute`` to all resamples, chunk by chunk, on several threads, in bounded memory.

    A thread holds one chunk at a time: its counts, one byte each, twice; 3 MB of draws (more only if a single
    resample has more); and what ``compute`` needs.

    Args:
        compute: Maps counts of shape (groups, b) to values of shape (metrics, b); called from several
            threads.
        groups: Number of groups, at least 1.
        resamples: Number of resamples.
        seed: Seed of the generator.
        rng: The generator.
        at_once: Most resamples in a chunk; default: :func:`chunk_size`.
        threads: Default: one per processor.
        chunk_map: Where chunks are computed, instead of on threads.
        progress: Called on this thread with the number of further resamples that are done.

    Returns:
        Shape (metrics, resamples); (0, 0) without resamples.
    """
    size, workers, done = at_once or chunk_size(groups), threads or processors(), []
    if chunk_map is None and (workers == 1 or resamples <= size):
        chunk_map, in_order = _one_by_one, True
    else:
        chunk_map, in_order = chunk_map or on_threads(workers), False
    chunks = resample_chunks(groups, resamples=resamples, seed=seed, rng=rng, at_once=size, in_order=in_order)
    with closing(chunk_map(partial(_figures, compute), chunks)) as computed:
        for values in computed:
            done.append(values)
            if progress is not None:
                progress(values.shape[1])
    return np.concatenate(done, axis=1) if done else np.empty((0, 0))


def _figures(compute: Callable[[Counts], Floats], chunk: Weightings) -> Floats:
    return compute(np.ascontiguousarray(chunk.counts().T))


def _one_by_one(function: Compute, chunks: Iterator[Weightings]) -> Generator[Floats, None, None]:
    yield from map(function, chunks)


def processors() -> int:
    """Number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def chunk_size(groups: int, *, counts_at_once: int = CHUNK) -> int:
    """Resamples in a chunk of about ``counts_at_once`` counts, from 1 to 1,024."""
    return max(1, min(_MOST_RESAMPLES, counts_at_once // groups))


def leave_one_out(
    compute: Callable[[Counts], Floats],
    groups: int,
    *,
    at_once: int | None = None,
    threads: int | None = None,
    chunk_map: ChunkMap | None = None,
) -> Floats:
    """The statistics with each group left out once, shape (statistics, groups).

    Args:
        compute: Maps counts of shape (groups, b) to values of shape (statistics, b); called from several
            threads.
        groups: Number of groups, at least 1.
        at_once: Most groups left out in a chunk; default: :func:`chunk_size`.
        threads: Default: one per processor.
        chunk_map: Where chunks are computed, instead of on threads.
    """
    size, workers = at_once or chunk_size(groups), threads or processors()
    if chunk_map is None:
        chunk_map = _one_by_one if workers == 1 or groups <= size else on_threads(workers)
    chunks = (LeftOut(groups, start, min(start + size, groups)) for start in range(0, groups, size))
    with closing(chunk_map(partial(_figures, compute), chunks)) as computed:
        return np.concatenate(list(computed), axis=1)
