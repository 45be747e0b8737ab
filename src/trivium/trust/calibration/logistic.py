"""Logistic calibration, with one feature known as Platt scaling (spec: metrics, S.10)."""

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize
from scipy.special import expit

from trivium.errors import TrustError
from trivium.trust.calibration.linear_model import Floats, LinearModel, fit_scaler

STRENGTH = 1.0
"""C of the penalty: ½·|coefficients|² + C·Σ log-loss; the intercept is free."""


def fit_logistic(x: Floats, y: npt.ArrayLike) -> LinearModel:
    """The L2-penalised logistic regression on standardised features, at its exact optimum.

    Args:
        x: Features, shape (n, d), finite.
        y: Whether each prediction was right, 0 or 1, shape (n,).

    Raises:
        TrustError: If all predictions were right, or all wrong.
    """
    right = np.asarray(y, dtype=np.float64)
    if right.min() == right.max():
        word = "right" if right[0] else "wrong"
        raise TrustError(
            f"a logistic calibrator needs right and wrong predictions; all {right.size} are {word}"
        )
    scaler = fit_scaler(x)
    design = np.column_stack([scaler.standardise(x), np.ones(right.size)])
    penalised = np.ones(design.shape[1])
    penalised[-1] = 0.0

    def loss(weights: Floats) -> float:
        score = design @ weights
        return float(0.5 * weights @ (penalised * weights)) + STRENGTH * float(
            (np.logaddexp(0, score) - right * score).sum()
        )

    def slope(weights: Floats) -> Floats:
        slopes: Floats = penalised * weights + STRENGTH * design.T @ (expit(design @ weights) - right)
        return slopes

    def curvature(weights: Floats) -> Floats:
        p = expit(design @ weights)
        bends: Floats = np.diag(penalised) + STRENGTH * design.T @ (design * (p * (1 - p))[:, None])
        return bends

    start = np.zeros(design.shape[1])
    found = minimize(loss, start, jac=slope, hess=curvature, method="trust-exact", options={"gtol": 1e-8})
    *coefficients, intercept = (float(weight) for weight in found.x)
    return LinearModel(coefficients=tuple(coefficients), intercept=intercept, scaler=scaler, link="sigmoid")
