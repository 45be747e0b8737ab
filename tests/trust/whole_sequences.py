"""The betting confidence sequence of many values at once, as an oracle (Waudby-Smith & Ramdas 2024, 4.2)."""

from math import log
from typing import NamedTuple

import numpy as np


class Ends(NamedTuple):
    lower: np.ndarray
    upper: np.ndarray


def whole_sequence(values, *, weights=None, alpha=0.05, grid=1000, planned=None, running=True):
    """Both ends after each value; ``planned`` stakes for the narrowest interval after so many values."""
    x = np.asarray(values, dtype=np.float64)
    w = _scaled(np.ones(x.size) if weights is None else np.asarray(weights, dtype=np.float64))
    steps = np.arange(1, x.size + 1)
    means = (0.5 + np.cumsum(w * x)) / (1 + np.cumsum(w))
    variance = np.cumsum(np.append(0.25, (w * (x - means)) ** 2))[:-1] / steps
    stakes = np.sqrt(2 * log(2 / alpha) / (variance * (planned or steps * np.log1p(steps))))
    below, above = np.zeros(x.size, dtype=np.int64), np.zeros(x.size, dtype=np.int64)
    for point in np.arange(grid + 1) / grid:
        below += _capital(x, w, stakes, point) >= log(2 / alpha)
        above += _capital(1 - x, w, stakes, 1 - point) >= log(2 / alpha)
    empty = below + above > grid + 1
    lower = np.where(empty, 0.0, np.maximum(below - 1, 0) / grid)
    upper = np.where(empty, 1.0, np.minimum(grid + 1 - above, grid) / grid)
    return Ends(np.maximum.accumulate(lower), np.minimum.accumulate(upper)) if running else Ends(lower, upper)


def _capital(x, w, stakes, point):
    most = 0.5 / point if point else np.inf
    return np.cumsum(np.log1p(np.minimum(stakes, most) * w * (x - point)))


def _scaled(weights):
    """Each weight over the largest before it, which is between 1 and 20; at most 1."""
    largest = np.maximum.accumulate(np.append(1.0, np.minimum(weights, 20.0)))[:-1]
    return np.minimum(1.0, weights / largest)
