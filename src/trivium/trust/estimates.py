"""From replicates of a figure to its standard error and interval (spec: metrics, B.0, B.1)."""

from difflib import get_close_matches
from math import sqrt
from typing import Literal, get_args

import msgspec
import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, ndtri, stdtrit

from trivium.trust.interval import Interval

Floats = npt.NDArray[np.float64]

Method = Literal["expanded percentile", "percentile", "bca", "legacy"]


class Estimate(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """A figure and how sure it is, by resampling groups.

    Attributes:
        point: The figure; None where it is undefined.
        interval: None where there is none; ``why_none`` says why.
        std_error: Standard deviation (ddof 1) of the defined replicates; None with fewer than two.
        drop_rate: Share of the resamples in which the figure was undefined.
        replicates: The figure in each resample, shape (resamples,); NaN where undefined.
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
    """Standard error and interval of a figure from its replicates.

    Args:
        point: The figure; None where undefined.
        replicates: Shape (resamples,), NaN where undefined.
        groups: Clusters that were resampled.
        n: Values that entered.
        level: Nominal coverage, in (0, 1).
        method: ``percentile``: quantiles of the replicates. ``expanded percentile`` (Hesterberg 2015): wider
            ones, at the levels that make up for few groups. ``bca`` (Efron 1987): shifted ones, corrected for
            bias and skewness. ``legacy``: ``percentile`` with the rules of the tool whose artifacts are
            reproduced: an interval even from one group or with most resamples undefined, and the point itself
            from fewer than two.
        left_out: For ``bca``: the figure with each group left out once, shape (groups,).
        sizes: Values of each group, shape (groups,). In ``expanded percentile`` unequal groups count as
            fewer: as (Σ size)² / Σ size² (Kish 1965).

    Raises:
        ValueError: If ``method`` or ``level`` is none, or a replicate is infinite.
    """
    check_method(method, level)
    known = replicates[~np.isnan(replicates)]
    if not np.isfinite(known).all():
        raise ValueError("the figure is infinite in a resample: say NaN where it is undefined")
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
            worth = groups if sizes is None else _worth(sizes)
            lower, upper = _shares(point or 0.0, known, worth, level, method, left_out)
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


def _worth(sizes: npt.NDArray[np.int64]) -> int:
    """How many groups of one size those of unequal sizes are worth, at least 2."""
    known = sizes.astype(np.float64)
    return max(2, int(known.sum() ** 2 / (known @ known) + 1e-9))


def check_method(method: str, level: float) -> None:
    """Refuse what no interval can be made with.

    Raises:
        ValueError: If ``method`` is unknown, or ``level`` does not lie between 0 and 1.
    """
    if method not in get_args(Method):
        near = get_close_matches(method, get_args(Method), 1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"method must be one of {', '.join(get_args(Method))}; found {method!r}{hint}")
    if not 0 < level < 1:
        raise ValueError(f"level must lie between 0 and 1; found {level:g}")


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
        "beyond every resample, so its bias cannot be told": method == "bca"
        and point is not None
        and known.size > 0
        and not known.min() <= point <= known.max(),
    }
    return next((reason for reason, holds in reasons.items() if holds), None)


def _shares(
    point: float, known: Floats, groups: int, level: float, method: Method, left_out: Floats | None
) -> tuple[float, float]:
    """Shares of the replicates that lie below the two ends."""
    z = float(ndtri((1 + level) / 2))
    if method == "expanded percentile":
        z = sqrt(groups / (groups - 1)) * float(stdtrit(groups - 1, (1 + level) / 2))
    if method != "bca":
        return float(ndtr(-z)), float(ndtr(z))
    if left_out is None:
        raise ValueError("bca needs the figure with each group left out")
    below = (np.count_nonzero(known < point) + np.count_nonzero(known <= point)) / (2 * known.size)
    bias = float(ndtri(below))
    strays = np.nanmean(left_out) - left_out[~np.isnan(left_out)]
    spread = float(strays @ strays) ** 1.5
    skew = float((strays**3).sum()) / (6 * spread) if spread else 0.0
    lower, upper = (float(ndtr(bias + (bias + at) / (1 - skew * (bias + at)))) for at in (-z, z))
    return lower, upper


def _quantiles(known: Floats, low: float, high: float) -> tuple[float, float]:
    ends = np.quantile(known, [low, high])
    return float(ends[0]), float(ends[1])
