"""A weighted sum of standardised features behind a link: what logistic and linear calibrators are."""

from typing import Literal

import msgspec
import numpy as np
import numpy.typing as npt
from scipy.special import expit

Floats = npt.NDArray[np.float64]


class Scaler(msgspec.Struct, frozen=True, kw_only=True):
    """Mean and population standard deviation of each feature; a constant feature has deviation 1."""

    mean: tuple[float, ...]
    std: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.mean) != len(self.std):
            raise ValueError(f"scaler has {len(self.mean)} means and {len(self.std)} deviations")
        if not np.isfinite(self.mean).all():
            raise ValueError("scaler.mean must be finite")
        if not (np.isfinite(self.std).all() and np.greater(self.std, 0).all()):
            raise ValueError(f"scaler.std must be above 0; found {list(self.std)}")

    def standardise(self, x: Floats) -> Floats:
        """Shape (n, d), of features (n, d)."""
        return np.asarray((x - np.asarray(self.mean)) / np.asarray(self.std), dtype=np.float64)


class LinearModel(msgspec.Struct, frozen=True, kw_only=True):
    """link(intercept + coefficients · standardised features).

    Attributes:
        coefficients: One a feature.
        intercept: In the unit of the link's argument.
        link: ``sigmoid`` gives a probability; ``identity`` is clipped to [0, 1].
        scaler: Of the features.
    """

    coefficients: tuple[float, ...]
    intercept: float
    scaler: Scaler
    link: Literal["sigmoid", "identity"] = "sigmoid"

    def __post_init__(self) -> None:
        if len(self.coefficients) != len(self.scaler.mean):
            raise ValueError(
                f"model has {len(self.coefficients)} coefficients and a scaler for {len(self.scaler.mean)}"
            )
        if not np.isfinite([*self.coefficients, self.intercept]).all():
            raise ValueError("coefficients and intercept must be finite")

    def apply(self, x: npt.ArrayLike) -> Floats:
        """Shape (n,), in [0, 1], of features (n, d)."""
        score = self.scaler.standardise(np.asarray(x, dtype=np.float64)) @ np.asarray(self.coefficients)
        score += self.intercept
        return np.asarray(expit(score) if self.link == "sigmoid" else np.clip(score, 0, 1), dtype=np.float64)


def fit_scaler(x: Floats) -> Scaler:
    """The scaler of features (n, d), n at least 1.

    A column of equal values is constant whatever the rounding of its mean says.
    """
    constant = x.min(axis=0) == x.max(axis=0)
    mean = np.where(constant, x[0], x.mean(axis=0))
    std = np.where(constant, 1.0, x.std(axis=0))
    return Scaler(mean=tuple(mean.tolist()), std=tuple(std.tolist()))
