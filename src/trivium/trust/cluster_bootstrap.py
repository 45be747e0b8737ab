"""Computes bootstrap intervals over resamples of groups (docs/definitions/intervals.md#bootstrap)."""

import re
from collections.abc import Callable, Hashable, Iterable, Sequence
from math import sqrt
from typing import Any, Literal, Unpack, get_args

import msgspec
import numpy as np
import numpy.typing as npt

from trivium.errors import suggest
from trivium.trust.arrays import Floats, check_inside_unit
from trivium.trust.distributions import Interval
from trivium.trust.resampling import (
    ChunkMap,
    Computing,
    Counts,
    OnProgress,
    Rng,
    leave_one_out,
    over_resamples,
)

Method = Literal["expanded percentile", "percentile", "bca", "legacy"]


class Estimate(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """An estimate with its uncertainty, from resampling groups.

    Definition: docs/definitions/intervals.md#bootstrap.

    Attributes:
        point: The estimate; None if undefined.
        interval: None if there is none; ``why_none`` says why.
        std_error: Standard deviation (ddof 1) of the defined replicates; None with fewer than two.
        drop_rate: Share of the resamples in which the statistic is undefined.
        replicates: The statistic in each resample, shape (resamples,); NaN where undefined.
        why_none: Why there is no interval.
    """

    point: float | None
    interval: Interval | None
    std_error: float | None
    drop_rate: float
    replicates: Floats
    why_none: str | None = None


def estimate(
    point: float | None,
    replicates: Floats,
    *,
    groups: int,
    n: int,
    level: float = 0.95,
    method: Method = "expanded percentile",
    left_out: Floats | None = None,
    sizes: npt.NDArray[np.int64] | None = None,
) -> Estimate:
    """Standard error and interval of a statistic from its replicates.

    Args:
        point: The statistic on the data; None if undefined.
        replicates: Shape (resamples,), NaN where undefined.
        groups: Number of clusters that were resampled.
        n: Number of values.
        level: Nominal coverage, in (0, 1).
        method: ``percentile``: quantiles of the replicates. ``expanded percentile`` (Hesterberg 2015):
            quantiles at wider levels, corrected for few groups. ``bca`` (Efron 1987): quantiles at shifted
            levels, corrected for bias and skewness. ``legacy``: ``percentile`` with the rules of the original
            tool, to reproduce its artifacts: an interval even from one group or with most resamples
            undefined, and the point itself as both ends with fewer than two defined replicates.
        left_out: For ``bca``: the statistic with each group left out once, shape (groups,).
        sizes: Values in each group, shape (groups,). In ``expanded percentile`` unequal groups count as
            fewer, (Σ size)² / Σ size² (Kish 1965).

    Raises:
        ValueError: If ``method`` is unknown, ``level`` is not in (0, 1), or a replicate is infinite.
    """
    check_method(method, level)
    known = replicates[~np.isnan(replicates)]
    if not np.isfinite(known).all():
        raise ValueError("the statistic is infinite in a resample: return NaN where it is undefined")
    drop_rate = 1 - known.size / replicates.size if replicates.size else 0.0
    error = float(np.std(known, ddof=1)) if known.size > 1 else None
    why, ends = None, None
    if method == "legacy":
        share = (1 - level) / 2
        if known.size > 1:
            ends = _quantiles(known, share, 1 - share)
        elif point is not None:
            ends = point, point
    else:
        why = _why_none(point, known, drop_rate, groups, method)
        if why is None:
            effective = groups if sizes is None else _effective_groups(sizes)
            lower, upper = _quantile_levels(point or 0.0, known, effective, level, method, left_out)
            ends = _quantiles(known, lower, upper)
    interval = None
    if ends is not None:
        interval = Interval(
            low=ends[0], high=ends[1], level=level, method=method, n=n, groups=groups, std_error=error or 0.0
        )
    return Estimate(
        point=point,
        interval=interval,
        std_error=error,
        drop_rate=drop_rate,
        replicates=replicates,
        why_none=why,
    )


def _effective_groups(sizes: npt.NDArray[np.int64]) -> int:
    """Effective number of groups of unequal sizes, at least 2."""
    known = sizes.astype(np.float64)
    return max(2, int(known.sum() ** 2 / (known @ known) + 1e-9))


def check_method(method: str, level: float) -> None:
    """Check the method and the level of an interval.

    Raises:
        ValueError: If ``method`` is unknown, or ``level`` does not lie between 0 and 1.
    """
    if method not in (known := get_args(Method)):
        near = suggest(method, known)
        raise ValueError(f"method must be one of {', '.join(known)}; found {method!r}.{near}")
    check_inside_unit(level=level)


def _why_none(
    point: float | None, known: Floats, drop_rate: float, groups: int, method: Method
) -> str | None:
    """Why there is no interval, or None."""
    reasons = {
        "undefined": point is None,
        "one group": groups < 2,
        "fewer than two resamples": known.size < 2,
        "undefined in more than half of the resamples": drop_rate > 0.5,
        "the same in every resample": known.size > 0 and known.min() == known.max(),
        "beyond every resample, so its bias cannot be estimated": method == "bca"
        and point is not None
        and known.size > 0
        and not known.min() <= point <= known.max(),
    }
    return next((reason for reason, holds in reasons.items() if holds), None)


def _quantile_levels(
    point: float, known: Floats, groups: int, level: float, method: Method, left_out: Floats | None
) -> tuple[float, float]:
    """Shares of the replicates below the two ends."""
    from scipy.special import ndtr, ndtri, stdtrit  # slow to import

    z = float(ndtri((1 + level) / 2))
    if method == "expanded percentile":
        z = sqrt(groups / (groups - 1)) * float(stdtrit(groups - 1, (1 + level) / 2))
    if method != "bca":
        return float(ndtr(-z)), float(ndtr(z))
    if left_out is None:
        raise ValueError("bca needs the statistic with each group left out")
    below = (np.count_nonzero(known < point) + np.count_nonzero(known <= point)) / (2 * known.size)
    bias = float(ndtri(below))
    deviations = np.nanmean(left_out) - left_out[~np.isnan(left_out)]
    spread = float(deviations @ deviations) ** 1.5
    skew = float((deviations**3).sum()) / (6 * spread) if spread else 0.0
    lower, upper = (float(ndtr(bias + (bias + at) / (1 - skew * (bias + at)))) for at in (-z, z))
    return lower, upper


def _quantiles(known: Floats, low: float, high: float) -> tuple[float, float]:
    ends = np.quantile(known, [low, high])
    return float(ends[0]), float(ends[1])


_WHOLE = re.compile(r"[+-]?[0-9]{1,300}", re.ASCII)


class Groups(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """The group of each row.

    Definition: docs/definitions/intervals.md#groups.

    Attributes:
        ids: The groups' ids in order: numeric if all are whole numbers, else by code point.
        codes: Position in ``ids`` of the group of each row, shape (n,).
    """

    ids: tuple[str, ...]
    codes: npt.NDArray[np.int64]

    @classmethod
    def of(cls, ids: "Groups | Sequence[Hashable]") -> "Groups":
        """Build from one id per row; ids with the same text are the same group. Groups stay as they are."""
        if isinstance(ids, Groups):
            return ids
        texts = {id_: str(id_) for id_ in dict.fromkeys(ids)}
        ordered = ordered_ids(texts.values())
        place = {text: code for code, text in enumerate(ordered)}
        code_of = {id_: place[text] for id_, text in texts.items()}
        return cls(ids=tuple(ordered), codes=np.fromiter((code_of[id_] for id_ in ids), np.int64, len(ids)))

    @property
    def count(self) -> int:
        """Number of groups."""
        return len(self.ids)


def ordered_ids(ids: Iterable[str]) -> list[str]:
    """The distinct ids, in numeric order if all are whole numbers, else by code point."""
    distinct = set(ids)
    if all(_WHOLE.fullmatch(id_) for id_ in distinct):
        return sorted(distinct, key=lambda id_: (int(id_), id_))
    return sorted(distinct)


class BootstrapOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of the resampling and of the intervals.

    Definition: docs/definitions/intervals.md#bootstrap.

    Attributes:
        resamples: Number of resamples.
        seed: Seed of the generator.
        rng: ``pcg64``, or ``legacy`` for NumPy's RandomState, which with ``method="legacy"`` reproduces the
            artifacts of the original tool (docs/definitions/intervals.md#legacy).
        level: Nominal coverage of the intervals, in (0, 1).
        method: Method of the intervals; see :func:`estimate`.
        empty_is_zero: Whether an area is 0 in a resample without predictions, as in the artifacts of the
            original tool; otherwise it is undefined there.
        threads: None: one per processor. It changes no result.
        chunk_map: Where resamples are computed, instead of on threads: see
            :data:`trivium.trust.resampling.ChunkMap`. It changes no result.
        progress: Called with the number of further resamples that are done, on the calling thread.
    """

    resamples: int = 10_000
    seed: int = 42
    rng: Rng = "pcg64"
    level: float = 0.95
    method: Method = "expanded percentile"
    empty_is_zero: bool = False
    threads: int | None = None
    chunk_map: ChunkMap | None = None
    progress: OnProgress | None = None


def estimates(
    compute: Callable[[Counts], Floats],
    points: Sequence[float | None],
    groups: Groups,
    options: BootstrapOptions,
    *,
    at_once: int,
) -> list[Estimate]:
    """Resample groups with replacement and estimate the uncertainty of several statistics at once.

    Args:
        compute: Maps counts of shape (groups, b) to the statistics, shape (k, b); NaN where undefined.
        points: The statistics of the data, k of them.
        groups: The groups of the data, at least one.
        options: How to resample.
        at_once: Most resamples in a chunk.
    """
    resampled = over_resamples(
        compute,
        groups.count,
        resamples=options.resamples,
        seed=options.seed,
        rng=options.rng,
        at_once=at_once,
        threads=options.threads,
        chunk_map=options.chunk_map,
        progress=options.progress,
    )
    left_out = None
    if options.method == "bca":
        left_out = leave_one_out(compute, groups.count, at_once=at_once, threads=options.threads)
    return [
        estimate(
            point,
            resampled[row] if options.resamples else np.empty(0),
            groups=groups.count,
            n=groups.codes.size,
            level=options.level,
            method=options.method,
            left_out=None if left_out is None else left_out[row],
            sizes=np.bincount(groups.codes, minlength=groups.count),
        )
        for row, point in enumerate(points)
    ]


def undefined(options: BootstrapOptions) -> Estimate:
    """The estimate of a statistic of no data."""
    return estimate(None, np.empty(0), groups=0, n=0, level=options.level, method=options.method)


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
    **computing: Unpack[Computing],
) -> Estimate:
    """Resample groups with replacement and estimate the uncertainty of a statistic.

    Definition: docs/definitions/intervals.md#bootstrap.

    The same seed and number of groups give the same resamples for every statistic, so the difference of two
    statistics is paired. A statistic that is undefined in a resample returns NaN (or, given items, None).

    Args:
        statistic: Given ``weights``: maps how often each group counts, shape (b, groups), to values, shape
            (b,). Given ``items``: maps the rows of one resample, each as often as it was drawn, to one value.
        groups: The cluster of each row, or its id, shape (n,). Weights follow the order of ``Groups.ids``.
        given: What the statistic receives.
        resamples: Number of resamples.
        seed: Seed of the generator.
        rng: ``pcg64``, or ``legacy`` for NumPy's RandomState.
        level: Nominal coverage, in (0, 1).
        method: Method of the interval; see :func:`trivium.trust.cluster_bootstrap.estimate`.
        **computing: ``threads``, how many threads call the statistic at the same time: 1 by default; None is
            one per processor. ``progress``, called on this thread with the number of further resamples that
            are done. The resamples are the same.

    Raises:
        ValueError: If an option is out of its range, or the statistic returns another shape or an infinite
            value.

    Example:
        >>> sums, sizes = np.array([1.0, 3.0, 2.0]), np.array([2.0, 4.0, 2.0])
        >>> round(bootstrap(lambda w: (w @ sums) / (w @ sizes), ["a", "b", "c"]).point, 3)
        0.75
    """
    check_method(method, level)
    how: Computing = {"threads": 1, **computing}
    if how["threads"] is not None and how["threads"] < 1:
        raise ValueError(f"threads must be at least 1; found {how['threads']}")
    if resamples < 0 or seed < 0:
        raise ValueError(f"resamples and seed must be at least 0; found {resamples} and {seed}")
    if given not in {"weights", "items"}:
        raise ValueError(f"given must be weights or items; found {given!r}")
    options = BootstrapOptions(resamples=resamples, seed=seed, rng=rng, level=level, method=method, **how)
    known = Groups.of(groups)
    if not known.count:
        return undefined(options)
    figures = _on_weights(statistic) if given == "weights" else _on_items(statistic, known)
    point = float(figures(np.ones((known.count, 1), np.uint8))[0, 0])
    at_once = max(1, _WEIGHTS_AT_ONCE // known.count)
    return estimates(figures, [None if np.isnan(point) else point], known, options, at_once=at_once)[0]


def _on_weights(statistic: Callable[[npt.NDArray[Any]], Any]) -> Callable[[Counts], Floats]:
    """The statistic as a function of counts, shape (groups, b), with values of shape (1, b)."""

    def figures(counts: Counts) -> Floats:
        return _one_each(statistic(counts.T.astype(np.float64)), counts)

    return figures


def _on_items(statistic: Callable[[npt.NDArray[Any]], Any], groups: Groups) -> Callable[[Counts], Floats]:
    """The same for a statistic of the rows of one resample."""
    rows = np.argsort(groups.codes, kind="stable")
    owner = groups.codes[rows]

    def figures(counts: Counts) -> Floats:
        return _one_each([statistic(np.repeat(rows, column[owner])) for column in counts.T], counts)

    return figures


def _one_each(results: Any, counts: Counts) -> Floats:
    values, expected = np.asarray(results, np.float64), counts.shape[1:]
    if values.shape != expected:
        raise ValueError(
            f"the statistic must return one value per resample, shape {expected}; found {values.shape}"
        )
    return values[None, :]
