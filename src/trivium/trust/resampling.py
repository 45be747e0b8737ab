"""Computes statistics of all resamples, chunk by chunk, on threads or elsewhere."""

import os
from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from copy import deepcopy
from functools import partial
from typing import Literal, NamedTuple, TypedDict, Unpack, get_args

import numpy as np
import numpy.typing as npt

from trivium.trust.arrays import Floats

Counts = npt.NDArray[np.uint8]
Draws = npt.NDArray[np.int32]

Rng = Literal["pcg64", "legacy"]

BLOCK = 1 << 22
"""Groups drawn in a block. The resamples of a seed depend on it."""
_DRAWN_AT_ONCE = 1 << 18

Random = np.random.Generator | np.random.RandomState


class Chunk(NamedTuple):
    """Successive resamples, which any thread or machine can draw.

    Attributes:
        groups: Number of groups.
        parts: Generators, each at the first number of some resamples, and the numbers of these resamples.
    """

    groups: int
    parts: tuple[tuple[Random, int], ...]

    def draws(self) -> Iterator[Draws]:
        """Draw the resamples, some at a time: shape (resamples, groups)."""
        most = max(1, _DRAWN_AT_ONCE // self.groups)
        for generator, resamples in self.parts:
            for first in range(0, resamples, most):
                yield _drawn(generator, (min(most, resamples - first), self.groups))

    def counts(self) -> Counts:
        """Draw the resamples: how often each has each group, shape (resamples, groups)."""
        found = np.empty((sum(resamples for _, resamples in self.parts), self.groups), np.uint8)
        start = 0
        for drawn in self.draws():
            found[start : start + len(drawn)] = draw_counts(drawn)
            start += len(drawn)
        return found


def _drawn(generator: Random, size: tuple[int, int]) -> Draws:
    if isinstance(generator, np.random.RandomState):
        return generator.randint(0, size[1], size=size, dtype=np.int32)
    return generator.integers(0, size[1], size=size, dtype=np.int32)


def block_size(groups: int) -> int:
    """Resamples in a block: as many as draw about 4 million groups, at least 1."""
    return max(1, BLOCK // groups)


def block_generator(block: int, *, seed: int, rng: Rng) -> Random:
    """The generator of a block of resamples.

    ``pcg64``: NumPy's default generator, of period 2^128, jumped ahead by ``block`` times (φ - 1) 2^128
    numbers (:meth:`numpy.random.PCG64.jumped`). Any two of the first n blocks begin at least 2^128 / (3 n)
    numbers apart, because multiples of the golden ratio φ are spread most evenly: more than 2^80 for any n up
    to 2^46, and a block needs about one number for two groups that it draws. (A jump by a power of two would
    leave the lower bits of the blocks' states the same, and their numbers correlated.) ``legacy``:
    RandomState(seed), which cannot jump: all resamples are one block, and each is one call of randint(0,
    groups, size=groups).

    Raises:
        ValueError: If ``rng`` is neither.
    """
    if rng not in get_args(Rng):
        raise ValueError(f"rng must be one of {', '.join(get_args(Rng))}; found {rng!r}")
    if rng == "legacy":
        return np.random.RandomState(seed)
    return np.random.Generator(np.random.PCG64(seed).jumped(block))


def resample_chunks(
    groups: int, *, resamples: int, seed: int, rng: Rng, at_once: int, in_order: bool = False
) -> Iterator[Chunk]:
    """All resamples in chunks: several whole blocks, or a part of one.

    Args:
        groups: Number of groups, at least 1.
        resamples: Number of resamples.
        seed: Seed of the generator.
        rng: The generator.
        at_once: Most resamples in a chunk.
        in_order: Whether each chunk is drawn before the next is taken. Otherwise each has generators of its
            own; where one begins inside a block is found by drawing what comes before it.
    """
    block = max(1, resamples) if rng == "legacy" else block_size(groups)
    whole: list[tuple[Random, int]] = []
    for number, start in enumerate(range(0, resamples, block)):
        generator, stop = block_generator(number, seed=seed, rng=rng), min(start + block, resamples)
        if block <= at_once:
            whole.append((generator, stop - start))
            if stop == resamples or (len(whole) + 1) * block > at_once:
                yield Chunk(groups, tuple(whole))
                whole = []
            continue
        for first in range(start, stop, at_once):
            size = min(at_once, stop - first)
            if in_order or first + size == stop:
                yield Chunk(groups, ((generator, size),))
            else:
                yield Chunk(groups, ((deepcopy(generator), size),))
                deque(Chunk(groups, ((generator, size),)).draws(), maxlen=0)


def draw_counts(drawn: Draws) -> Counts:
    """How often each group was drawn, shape (resamples, groups).

    One byte is enough: with up to 255 groups no count can exceed it, and with more the probability that one
    of 10^10 counts reaches 256 is below 10^-490.
    """
    from scipy.sparse import csr_array  # slow to import

    resamples, groups = drawn.shape
    # Each draw is a sparse 1 in the row of its resample; toarray adds those of a group, without the GIL and
    # without an array of 8-byte indices or counts.
    ends = np.arange(0, drawn.size + 1, groups, dtype=np.int32)
    sparse = csr_array((np.ones(drawn.size, np.uint8), drawn.ravel(), ends), shape=(resamples, groups))
    counts: Counts = sparse.toarray()
    return counts


OnProgress = Callable[[int], None]
"""Called with the number of further resamples that are done."""

CHUNK = 1 << 22
"""Default number of counts in a chunk; one byte each."""
_MOST_RESAMPLES = 1024

Compute = Callable[[Chunk], Floats]
ChunkMap = Callable[[Compute, Iterator[Chunk]], Generator[Floats, None, None]]
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

    def apply(function: Compute, chunks: Iterator[Chunk]) -> Generator[Floats, None, None]:
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
    size, workers = at_once or chunk_size(groups), computing.get("threads") or processors()
    chunk_map, progress = computing.get("chunk_map"), computing.get("progress")
    in_order = chunk_map is None and (resamples <= size or workers == 1)
    apply = _one_by_one if in_order else chunk_map or on_threads(workers)
    chunks = resample_chunks(groups, resamples=resamples, seed=seed, rng=rng, at_once=size, in_order=in_order)
    done = []
    with closing(apply(partial(_figures, compute), chunks)) as computed:
        for values in computed:
            done.append(values)
            if progress is not None:
                progress(values.shape[1])
    return np.concatenate(done, axis=1) if done else np.empty((0, 0))


def _figures(compute: Callable[[Counts], Floats], chunk: Chunk) -> Floats:
    return compute(np.ascontiguousarray(chunk.counts().T))


def _one_by_one(function: Compute, chunks: Iterator[Chunk]) -> Generator[Floats, None, None]:
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
    at_once: int,
    threads: int | None,
) -> Floats:
    """The statistics with each group left out once, shape (statistics, groups).

    Args:
        compute: Maps counts of shape (groups, b) to values of shape (statistics, b); called from several
            threads.
        groups: Number of groups, at least 1.
        at_once: Most groups left out in a call.
        threads: Number of threads; None is one per processor.
    """

    def without(first: int) -> Floats:
        left_out = np.arange(first, min(first + at_once, groups))
        counts = np.ones((groups, left_out.size), np.uint8)
        counts[left_out, left_out - first] = 0
        return compute(counts)

    with ThreadPoolExecutor(threads or processors()) as pool:
        return np.concatenate(list(pool.map(without, range(0, groups, at_once))), axis=1)
