"""The cluster bootstrap of any statistic (spec: metrics, B.1)."""

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from trivium.trust.estimates import Estimate, Method, check_method, estimate
from trivium.trust.groups import Groups
from trivium.trust.resampling import Counts, Rng, chunk_size, over_resamples

Floats = npt.NDArray[np.float64]

_WEIGHTS_AT_ONCE = 1 << 20


def bootstrap(
    statistic: Callable[[npt.NDArray[Any]], Any],
    groups: Groups | Sequence[Hashable],
    *,
    given: Literal["weights", "items"] = "weights",
    resamples: int = 10_000,
    seed: int = 42,
    rng: Rng = "pcg64",
    level: float = 0.95,
    method: Method = "expanded percentile",
) -> Estimate:
    """Resample groups with replacement and see how much a statistic moves.

    The same seed and number of groups give the same resamples for every statistic, so a difference of two is
    paired. A statistic that is undefined in a resample says NaN (or None, given items).

    Args:
        statistic: Given ``weights``: from how often each group counts, shape (b, groups), to the figures,
            shape (b,). Given ``items``: from the rows of one resample, each as often as it was drawn, to one
            figure.
        groups: The cluster of each row, or its id, shape (n,). Weights are in the order of ``Groups.ids``.
        given: What the statistic is given.
        resamples: Number of resamples.
        seed: Of the generator.
        rng: ``pcg64``, or ``legacy`` for NumPy's RandomState.
        level: Nominal coverage, in (0, 1).
        method: How the interval is made; see :func:`trivium.trust.estimates.estimate`.

    Raises:
        ValueError: If an option is out of its range, or the statistic's figures are of another shape or
            infinite.

    Example:
        >>> sums, sizes = np.array([1.0, 3.0, 2.0]), np.array([2.0, 4.0, 2.0])
        >>> round(bootstrap(lambda w: (w @ sums) / (w @ sizes), ["a", "b", "c"]).point, 3)
        0.75
    """
    check_method(method, level)
    if resamples < 0 or seed < 0:
        raise ValueError(f"resamples and seed must be at least 0; found {resamples} and {seed}")
    if given not in {"weights", "items"}:
        raise ValueError(f"given must be weights or items; found {given!r}")
    known = groups if isinstance(groups, Groups) else Groups.of(groups)
    count, n = known.count, known.codes.size
    if not count:
        return estimate(None, np.empty(0), groups=0, n=0, level=level, method=method)
    rows = np.argsort(known.codes, kind="stable")
    owner = known.codes[rows]

    def figures(weights: Counts) -> Floats:
        if given == "weights":
            found = statistic(weights.T.astype(np.float64))
        else:
            found = [statistic(np.repeat(rows, column[owner])) for column in weights.T]
        told, wanted = np.asarray(found, np.float64), weights.shape[1:]
        if told.shape != wanted:
            raise ValueError(
                f"the statistic must give one figure a resample, shape {wanted}; found {told.shape}"
            )
        return told[None, :]

    at_once = max(1, _WEIGHTS_AT_ONCE // count)
    replicates = over_resamples(
        figures, count, resamples=resamples, seed=seed, rng=rng, at_once=at_once, threads=1
    )
    point = float(figures(np.ones((count, 1), np.uint8))[0, 0])
    left_out = leave_one_out(figures, count, at_once=at_once)[0] if method == "bca" else None
    return estimate(
        None if np.isnan(point) else point,
        replicates[0] if resamples else np.empty(0),
        groups=count,
        n=n,
        level=level,
        method=method,
        left_out=left_out,
        sizes=np.bincount(known.codes, minlength=count),
    )


def leave_one_out(compute: Callable[[Counts], Floats], groups: int, *, at_once: int | None = None) -> Floats:
    """Figures with each group left out once, shape (figures, groups)."""
    done, size = [], at_once or chunk_size(groups)
    for start in range(0, groups, size):
        stop = min(start + size, groups)
        weights = np.ones((groups, stop - start), np.uint8)
        weights[np.arange(start, stop), np.arange(stop - start)] = 0
        done.append(compute(weights))
    return np.concatenate(done, axis=1)
