"""Isotonic calibration: the best rising steps through the data (spec: metrics, S.10)."""

import msgspec
import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


class Isotonic(msgspec.Struct, frozen=True, kw_only=True):
    """Linear between thresholds, constant beyond them, clipped to [0, 1].

    Attributes:
        x_thresholds: Strictly rising values of the feature.
        y_thresholds: The calibrated value at each, never falling.
    """

    x_thresholds: tuple[float, ...]
    y_thresholds: tuple[float, ...]

    def __post_init__(self) -> None:
        x, y = np.asarray(self.x_thresholds), np.asarray(self.y_thresholds)
        if not x.size or x.size != y.size:
            raise ValueError(f"an isotonic model has as many x as y thresholds; found {x.size} and {y.size}")
        if not (np.isfinite(x).all() and np.isfinite(y).all()):
            raise ValueError("thresholds must be finite")
        if (np.diff(x) <= 0).any() or (np.diff(y) < 0).any():
            raise ValueError("x_thresholds must rise and y_thresholds must not fall")

    def apply(self, x: npt.ArrayLike) -> Floats:
        """Shape (n,), in [0, 1], of one feature (n,)."""
        given = np.interp(np.asarray(x, dtype=np.float64), self.x_thresholds, self.y_thresholds)
        return np.asarray(np.clip(given, 0, 1), dtype=np.float64)


def fit_isotonic(x: npt.ArrayLike, y: npt.ArrayLike) -> Isotonic:
    """Pool-adjacent-violators on the mean target of each distinct feature value.

    Args:
        x: Feature, shape (n,), n at least 1, finite.
        y: Target, shape (n,), in [0, 1].

    Returns:
        The model; thresholds inside a flat piece are left out.
    """
    # Only a fit needs it, and it is slow to import.
    from scipy.optimize import isotonic_regression

    levels, at, count = np.unique(np.asarray(x, dtype=np.float64), return_inverse=True, return_counts=True)
    means = np.bincount(at, weights=np.asarray(y, dtype=np.float64)) / count
    steps = isotonic_regression(means, weights=count).x
    differs = np.diff(steps) != 0
    keep = np.concatenate(([True], differs)) | np.concatenate((differs, [True]))
    return Isotonic(x_thresholds=tuple(levels[keep].tolist()), y_thresholds=tuple(steps[keep].tolist()))
