"""Linear calibration for a continuous target, such as one minus the share of error (spec: metrics, S.10)."""

import numpy as np
import numpy.typing as npt
from scipy.linalg import solve

from trivium.trust.calibration.linear_model import Floats, LinearModel, fit_scaler

RIDGE = 1.0
"""α of the penalty: Σ squared error + α·|coefficients|²; the intercept is free."""


def fit_linear(x: Floats, y: npt.ArrayLike) -> LinearModel:
    """The ridge regression on standardised features, in closed form.

    Args:
        x: Features, shape (n, d), n at least 1, finite.
        y: Target, shape (n,), in [0, 1].
    """
    target = np.asarray(y, dtype=np.float64)
    scaler = fit_scaler(x)
    design = scaler.standardise(x)
    middle = design.mean(axis=0)
    centred = design - middle
    penalty = RIDGE * np.eye(design.shape[1])
    weights = solve(centred.T @ centred + penalty, centred.T @ (target - target.mean()), assume_a="pos")
    return LinearModel(
        coefficients=tuple(weights.tolist()),
        intercept=float(target.mean() - middle @ weights),
        scaler=scaler,
        link="identity",
    )
