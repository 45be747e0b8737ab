"""Computes statistics of all resamples, chunk by chunk, on threads or elsewhere."""

import os
from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from functools import partial
from typing import TypedDict, Unpack

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


class Computing(TypedDict, total=False):
    """How resamples are computed. It changes no result.

    Attributes:
        threads: Number of threads; by default one per processor.
        chunk_map: Where chunks are computed, instead of on threads.
        progress: Called with the number of further resamples that are done, on the calling thread.
    """

    threads: int | None
    chunk_map: ChunkMap | None
    progress: OnProgress | None


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
    **computing: Unpack[Computing],
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
        **computing: See :class:`Computing`.

    Returns:
        Shape (metrics, resamples); (0, 0) without resamples.
    """
    size = at_once or chunk_size(groups)

    def chunks(in_order: bool) -> Iterator[Weightings]:
        return resample_chunks(
            groups, resamples=resamples, seed=seed, rng=rng, at_once=size, in_order=in_order
        )

    done = _computed(compute, chunks, one=resamples <= size, **computing)
    return np.concatenate(done, axis=1) if done else np.empty((0, 0))


def _computed(
    compute: Callable[[Counts], Floats],
    chunks: Callable[[bool], Iterator[Weightings]],
    *,
    one: bool,
    threads: int | None = None,
    chunk_map: ChunkMap | None = None,
    progress: OnProgress | None = None,
) -> list[Floats]:
    """Apply a function to chunks.

    Args:
        compute: The function.
        chunks: Makes the chunks, given whether they are computed in order, on this thread.
        one: Whether there is at most one.
        threads: See :class:`Computing`, as for the rest.
        chunk_map: Where chunks are computed.
        progress: Called after each chunk.
    """
    workers = threads or processors()
    in_order = chunk_map is None and (one or workers == 1)
    apply = _one_by_one if in_order else chunk_map or on_threads(workers)
    done = []
    with closing(apply(partial(_figures, compute), chunks(in_order))) as computed:
        for values in computed:
            done.append(values)
            if progress is not None:
                progress(values.shape[1])
    return done


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
    **computing: Unpack[Computing],
) -> Floats:
    """The statistics with each group left out once, shape (statistics, groups).

    Args:
        compute: Maps counts of shape (groups, b) to values of shape (statistics, b); called from several
            threads.
        groups: Number of groups, at least 1.
        at_once: Most groups left out in a chunk; default: :func:`chunk_size`.
        **computing: See :class:`Computing`.
    """
    size = at_once or chunk_size(groups)
    chunks = (LeftOut(groups, start, min(start + size, groups)) for start in range(0, groups, size))
    done = _computed(compute, lambda _: chunks, one=groups <= size, **computing)
    return np.concatenate(done, axis=1)
