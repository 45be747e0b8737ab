"""What a calibrator learns to predict (spec: metrics, S.10)."""

import numpy as np
import numpy.typing as npt

from trivium.errors import TrustError, suggest

Floats = npt.NDArray[np.float64]

TARGETS = ("correctness", "near_correct", "loss")

EQUAL = 1e-9
"""Errors of score arithmetic below which two scores are the same."""


def target_values(
    pred: npt.ArrayLike, truth: npt.ArrayLike, target: str, *, span: float | None = None
) -> Floats:
    """The target of each item.

    Args:
        pred: Predictions, shape (n,).
        truth: Truths, shape (n,).
        target: ``correctness`` (no error), ``near_correct`` (an error of at most 1) or ``loss``
            (1 - error / span).
        span: Width of the scale of predictions and truths, for ``loss``; 3 for 0 to 3.

    Returns:
        Shape (n,), in [0, 1].

    Raises:
        TrustError: If the target is unknown, or an error is wider than the scale.
    """
    known_target(target)
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


def known_target(target: str) -> None:
    """Raise TrustError unless there is such a target."""
    if target not in TARGETS:
        raise TrustError(
            f'no target is called "{target}".{suggest(target, TARGETS)}\n  known: {", ".join(TARGETS)}'
        )
