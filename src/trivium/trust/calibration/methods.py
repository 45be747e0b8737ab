"""Maps confidences to probabilities: temperature scaling, logistic (Platt), isotonic and linear models."""

from math import isfinite
from typing import Literal

import msgspec
import numpy as np
import numpy.typing as npt
from scipy.linalg import solve
from scipy.optimize import minimize
from scipy.special import expit, logit

from trivium.errors import TrustError, suggest
from trivium.trust.arrays import Floats, weights_of, without_noise
from trivium.trust.calibration.quality import PROBABILITY_CLIP, checked
from trivium.values import resolved


@resolved
class Isotonic(msgspec.Struct, frozen=True, kw_only=True):
    """Linear between thresholds, constant beyond them, clipped to [0, 1].

    Attributes:
        x_thresholds: Values of the feature, strictly increasing.
        y_thresholds: The calibrated value at each, non-decreasing.
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
        """Calibrated values, shape (n,), in [0, 1], for one feature (n,)."""
        given = np.interp(without_noise(x), self.x_thresholds, self.y_thresholds)
        return np.asarray(np.clip(given, 0, 1), dtype=np.float64)


def fit_isotonic(x: npt.ArrayLike, y: npt.ArrayLike, weights: npt.ArrayLike | None = None) -> Isotonic:
    """Pool-adjacent-violators on the mean target of each distinct feature value.

    Definition: docs/definitions/calibration.md#isotonic.

    Args:
        x: Feature, shape (n,), n at least 1, finite.
        y: Target, shape (n,), in [0, 1].
        weights: How many times each item counts, shape (n,), above 0; once by default.

    Returns:
        The model, without thresholds inside flat pieces.
    """
    # Imported here because it is slow, and only fitting needs it.
    from scipy.optimize import isotonic_regression

    levels, at = np.unique(without_noise(x), return_inverse=True)
    each = weights_of(weights, at.size)
    count = np.bincount(at, weights=each)
    means = np.bincount(at, weights=each * np.asarray(y, dtype=np.float64)) / count
    steps = isotonic_regression(means, weights=count).x
    differs = np.diff(steps) != 0
    keep = np.concatenate(([True], differs)) | np.concatenate((differs, [True]))
    return Isotonic(x_thresholds=tuple(levels[keep].tolist()), y_thresholds=tuple(steps[keep].tolist()))


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
        """Standardised features, shape (n, d), for features (n, d)."""
        return np.asarray((x - np.asarray(self.mean)) / np.asarray(self.std), dtype=np.float64)


@resolved
class LinearModel(msgspec.Struct, frozen=True, kw_only=True):
    """link(intercept + coefficients · standardised features).

    Attributes:
        coefficients: One per feature.
        intercept: In the unit of the link's argument.
        link: ``sigmoid`` gives a probability; ``identity`` is clipped to [0, 1].
        scaler: Scaler of the features.
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
        """Calibrated values, shape (n,), in [0, 1], for features (n, d)."""
        score = self.scaler.standardise(np.asarray(x, dtype=np.float64)) @ np.asarray(self.coefficients)
        score += self.intercept
        return np.asarray(expit(score) if self.link == "sigmoid" else np.clip(score, 0, 1), dtype=np.float64)


def fit_scaler(x: Floats, weights: Floats) -> Scaler:
    """The scaler of features (n, d), n at least 1, with weights (n,).

    A column of equal values is constant, whatever the rounding error of its mean.
    """
    constant = x.min(axis=0) == x.max(axis=0)
    middle = np.average(x, axis=0, weights=weights)
    spread = np.sqrt(np.average(np.square(x - middle), axis=0, weights=weights))
    mean, std = np.where(constant, x[0], middle), np.where(constant, 1.0, spread)
    return Scaler(mean=tuple(mean.tolist()), std=tuple(std.tolist()))


RIDGE = 1.0
"""α of the penalty: Σ squared error + α·|coefficients|²; the intercept is not penalised."""


def fit_linear(x: Floats, y: npt.ArrayLike, weights: npt.ArrayLike | None = None) -> LinearModel:
    """Ridge regression on standardised features, in closed form.

    Definition: docs/definitions/calibration.md#linear.

    Args:
        x: Features, shape (n, d), n at least 1, finite.
        y: Target, shape (n,), in [0, 1].
        weights: How many times each item counts, shape (n,), above 0; once by default.
    """
    target = np.asarray(y, dtype=np.float64)
    each = weights_of(weights, target.size)
    scaler = fit_scaler(x, each)
    design = scaler.standardise(x)
    middle, level = np.average(design, axis=0, weights=each), np.average(target, weights=each)
    centred = design - middle
    penalty = RIDGE * np.eye(design.shape[1])
    pulls = centred.T @ (each * (target - level))
    slopes = solve((centred.T * each) @ centred + penalty, pulls, assume_a="pos")
    return LinearModel(
        coefficients=tuple(slopes.tolist()),
        intercept=float(level - middle @ slopes),
        scaler=scaler,
        link="identity",
    )


STRENGTH = 1.0
"""C of the penalty: ½·|coefficients|² + C·Σ log-loss; the intercept is not penalised."""


def fit_logistic(x: Floats, y: npt.ArrayLike, weights: npt.ArrayLike | None = None) -> LinearModel:
    """L2-penalised logistic regression on standardised features, at its exact optimum.

    Definition: docs/definitions/calibration.md#logistic.

    Args:
        x: Features, shape (n, d), finite.
        y: Whether each prediction was right, 0 or 1, shape (n,).
        weights: How many times each item counts, shape (n,), above 0; once by default.

    Raises:
        TrustError: If all predictions were right, or all wrong.
    """
    right = np.asarray(y, dtype=np.float64)
    if right.min() == right.max():
        word = "right" if right[0] else "wrong"
        raise TrustError(
            f"a logistic calibrator needs right and wrong predictions; all {right.size} are {word}"
        )
    each = STRENGTH * weights_of(weights, right.size)
    scaler = fit_scaler(x, each)
    design = np.column_stack([scaler.standardise(x), np.ones(right.size)])
    penalised = np.ones(design.shape[1])
    penalised[-1] = 0.0

    def loss(b: Floats) -> float:
        score = design @ b
        return float(0.5 * b @ (penalised * b) + each @ (np.logaddexp(0, score) - right * score))

    def slope(b: Floats) -> Floats:
        slopes: Floats = penalised * b + design.T @ (each * (expit(design @ b) - right))
        return slopes

    def curvature(b: Floats) -> Floats:
        p = expit(design @ b)
        bends: Floats = np.diag(penalised) + design.T @ (design * (each * p * (1 - p))[:, None])
        return bends

    start = np.zeros(design.shape[1])
    found = minimize(loss, start, jac=slope, hess=curvature, method="trust-exact", options={"gtol": 1e-8})
    *coefficients, intercept = (float(number) for number in found.x)
    return LinearModel(coefficients=tuple(coefficients), intercept=intercept, scaler=scaler, link="sigmoid")


MIN_TEMPERATURE, MAX_TEMPERATURE = 0.05, 10.0


@resolved
class Temperature(msgspec.Struct, frozen=True, kw_only=True):
    """sigmoid(logit(p) / T), with p clipped to [1e-6, 1 - 1e-6].

    It preserves the order of the probabilities, so metrics that depend only on the order (AURC, AUGRC, AUROC)
    cannot change, except for ties created by the clipping.

    Attributes:
        temperature: Above 1 moves probabilities towards 0.5, below 1 away from it.
    """

    temperature: float

    def __post_init__(self) -> None:
        if not (isfinite(self.temperature) and self.temperature > 0):
            raise ValueError(f"temperature must be a number above 0; found {self.temperature}")

    def apply(self, p: npt.ArrayLike) -> Floats:
        """Calibrated probabilities, shape (n,), for probabilities (n,)."""
        inside = np.clip(np.asarray(p, dtype=np.float64), PROBABILITY_CLIP, 1 - PROBABILITY_CLIP)
        return np.asarray(expit(logit(inside) / self.temperature), dtype=np.float64)

    def warnings(self) -> list[str]:
        """Caveats about this temperature."""
        if self.temperature not in {MIN_TEMPERATURE, MAX_TEMPERATURE}:
            return []
        at_most = self.temperature == MAX_TEMPERATURE
        why = "hardly depends on being right" if at_most else "separates right from wrong almost perfectly"
        return [f"the temperature reached its bound, {self.temperature:g}: confidence {why}"]


def fit_temperature(p: npt.ArrayLike, y: npt.ArrayLike, weights: npt.ArrayLike | None = None) -> Temperature:
    """The temperature in [0.05, 10] with the smallest negative log-likelihood.

    Definition: docs/definitions/calibration.md#temperature.

    The negative log-likelihood is convex in 1 / T, so its slope has at most one root. If it is flat (every p
    is 0.5) the temperature is undefined and stays 1.

    Args:
        p: Probabilities, shape (n,), in [0, 1].
        y: Whether each prediction was right, 0 or 1, shape (n,).
        weights: How many times each item counts, shape (n,), above 0; once by default.

    Raises:
        TrustError: If the data are invalid or empty.
    """
    # Imported here because it is slow, and only fitting needs it.
    from scipy.optimize import brentq

    probability, right = checked(p, y)
    if not right.size:
        raise TrustError("a temperature needs at least one prediction to fit on; found none")
    z = logit(np.clip(probability, PROBABILITY_CLIP, 1 - PROBABILITY_CLIP))
    weighted = z * weights_of(weights, right.size)
    if not z.any():
        return Temperature(temperature=1.0)

    def slope(sharpness: float) -> float:
        return float(weighted @ (expit(sharpness * z) - right))

    if slope(1 / MAX_TEMPERATURE) >= 0:
        return Temperature(temperature=MAX_TEMPERATURE)
    if slope(1 / MIN_TEMPERATURE) <= 0:
        return Temperature(temperature=MIN_TEMPERATURE)
    return Temperature(
        temperature=1 / float(brentq(slope, 1 / MAX_TEMPERATURE, 1 / MIN_TEMPERATURE, xtol=1e-14))
    )


TARGETS = ("correctness", "near_correct", "loss")

EQUAL = 1e-9
"""Scores that differ by less than this are equal up to rounding."""


def target_values(
    pred: npt.ArrayLike, truth: npt.ArrayLike, target: str, *, span: float | None = None
) -> Floats:
    """The target of each item.

    Definition: docs/definitions/calibration.md#target.

    Args:
        pred: Predictions, shape (n,).
        truth: Truths, shape (n,).
        target: ``correctness`` (no error), ``near_correct`` (an error of at most 1) or ``loss``
            (1 - error / span).
        span: Width of the scale of predictions and truths, for ``loss``; 3 for the scale 0 to 3.

    Returns:
        Shape (n,), in [0, 1].

    Raises:
        TrustError: If the target is unknown, or an error exceeds the width of the scale.
    """
    check_target(target)
    error = np.abs(np.asarray(pred, dtype=np.float64) - np.asarray(truth, dtype=np.float64))
    if not np.isfinite(error).all():
        raise TrustError("predictions and truths must be finite")
    if target != "loss":
        return (error <= (1 if target == "near_correct" else 0) + EQUAL).astype(np.float64)
    if span is None or not span > 0:
        raise TrustError('target "loss" needs the width of the scale, a number above 0')
    if (error > span + EQUAL).any():
        raise TrustError(f"an error of {error.max():g} is wider than the scale, {span:g}")
    return np.clip(1 - error / span, 0, 1)


def check_target(target: str) -> None:
    """Raise TrustError if there is no such target."""
    if target not in TARGETS:
        raise TrustError(
            f'no target is called "{target}".{suggest(target, TARGETS)}\n  known: {", ".join(TARGETS)}'
        )
