"""Resamples of groups: how often each is drawn, in chunks, the same for everything that one seed serves.

spec: metrics, B.1. A resample draws as many groups as there are, with replacement. What a seed draws depends
on the number of groups alone: not on the chunks, the threads or the statistic.
"""

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from os import cpu_count
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.uint8]
Drawn = npt.NDArray[np.int32]

Rng = Literal["pcg64", "legacy"]

CHUNK = 1 << 22
"""Counts in a chunk, unless another size is asked for; one byte each."""
_DRAWN_AT_ONCE = 1 << 18
_MOST_RESAMPLES = 1024
_MOST_THREADS = 8


def drawing(groups: int, *, seed: int, rng: Rng) -> Callable[[int], Drawn]:
    """A function that draws the next so many resamples, shape (resamples, groups).

    ``pcg64`` is NumPy's default generator; ``legacy`` is RandomState(seed).randint(0, groups, size=groups),
    one call a resample.

    Raises:
        ValueError: If ``rng`` is neither.
    """
    if rng not in get_args(Rng):
        raise ValueError(f"rng must be one of {', '.join(get_args(Rng))}; found {rng!r}")
    if rng == "legacy":
        old = np.random.RandomState(seed)
        return lambda resamples: old.randint(0, groups, size=(resamples, groups), dtype=np.int32)
    generator = np.random.default_rng(seed)
    return lambda resamples: generator.integers(0, groups, size=(resamples, groups), dtype=np.int32)


def counts(drawn: Drawn) -> Counts:
    """How often each group was drawn, shape (resamples, groups).

    A byte holds it: up to 255 groups nothing can be drawn more often, and with more the chance that one of
    10^9 counts reaches 256 is below 10^-490.
    """
    resamples, groups = drawn.shape
    apart = drawn + groups * np.arange(resamples)[:, None]
    return np.bincount(apart.ravel(), minlength=drawn.size).reshape(drawn.shape).astype(np.uint8)


def chunks(groups: int, *, resamples: int, seed: int, rng: Rng, at_once: int) -> Iterator[Counts]:
    """Counts of all resamples, in chunks of shape (up to ``at_once``, groups)."""
    draw, piece = drawing(groups, seed=seed, rng=rng), max(1, _DRAWN_AT_ONCE // groups)
    for start in range(0, resamples, at_once):
        chunk = np.empty((min(at_once, resamples - start), groups), np.uint8)
        for first in range(0, len(chunk), piece):
            part = chunk[first : first + piece]
            part[:] = counts(draw(len(part)))
        yield chunk


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
        at_once: Resamples in a chunk; default: :func:`chunk_size`.
        threads: Default: one for each processor, up to eight.

    Returns:
        Shape (figures, resamples); (0, 0) without resamples.
    """
    size = at_once or chunk_size(groups)
    workers = threads or min(_MOST_THREADS, cpu_count() or 1)
    made = chunks(groups, resamples=resamples, seed=seed, rng=rng, at_once=size)

    def figures(chunk: Counts) -> Floats:
        return compute(np.ascontiguousarray(chunk.T))

    done: list[Floats] = []
    if workers == 1 or resamples <= size:
        done = [figures(chunk) for chunk in made]
        return np.concatenate(done, axis=1) if done else np.empty((0, 0))
    with ThreadPoolExecutor(workers) as pool:
        pending: deque[Future[Floats]] = deque()
        for chunk in made:
            if len(pending) > workers:
                done.append(pending.popleft().result())
            pending.append(pool.submit(figures, chunk))
        done.extend(future.result() for future in pending)
    return np.concatenate(done, axis=1)


def chunk_size(groups: int, *, counts_at_once: int = CHUNK) -> int:
    """Resamples in a chunk of about so many counts: at least one, at most 1,024."""
    return max(1, min(_MOST_RESAMPLES, counts_at_once // groups))
