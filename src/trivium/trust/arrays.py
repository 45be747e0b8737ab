"""Converts what callers give to statistics to arrays and checks it, with one wording for each mistake.

Every function raises :class:`~trivium.errors.TrustError`, which is a ValueError, and names the argument as
the caller knows it. NaN is never valid.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from trivium.errors import Problem, TrustError

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


def floats(*given: npt.ArrayLike) -> tuple[Floats, ...]:
    """Convert to arrays of double precision, each with the shape that it has."""
    return tuple(np.asarray(values, dtype=np.float64) for values in given)


DIGITS = 12


def without_noise(values: npt.ArrayLike) -> Floats:
    """Round confidences to 12 significant digits, so that those that only rounding tells apart are equal.

    Definition: docs/definitions/selective.md#equal-confidences.

    Args:
        values: Shape (n,); numbers that are not finite stay as they are.
    """
    (given,) = floats(values)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        exponent = np.floor(np.log10(np.abs(given)))
        digits = np.rint(given * 10.0 ** (DIGITS - 1 - exponent))
        # 9.99… is rounded up to 1.00… of the next exponent, whose scale it needs to become the same number.
        carried = np.abs(digits) >= 10.0**DIGITS
        rounded = np.where(carried, digits / 10, digits) / 10.0 ** (DIGITS - 1 - exponent - carried)
    return np.where(np.isfinite(rounded), rounded, given)


def check_lengths(**arrays: npt.NDArray[Any]) -> None:
    """Check that arrays have shape (n,), with the same n."""
    shapes = [array.shape for array in arrays.values()]
    if len(shapes[0]) != 1 or len(set(shapes)) > 1:
        expected = "one-dimensional and of equal length" if len(shapes) > 1 else "one-dimensional"
        found = ", ".join(map(str, shapes))
        raise TrustError(f"{', '.join(arrays)} must be {expected}; found {found}")


def check_each(name: str, values: Floats, valid: npt.NDArray[np.bool_], expected: str) -> None:
    """Check every value of an array.

    Args:
        name: Name of the array.
        values: Shape (n,).
        valid: Which of them are valid, shape (n,).
        expected: What a value must be, such as "0 or 1".
    """
    if not valid.all():
        at = int(np.argmin(valid))
        raise TrustError(Problem(f"{name}[{at}]", f"must be {expected}; found {values[at]}"))


def check_finite(**arrays: Floats) -> None:
    """Check that every value is a finite number."""
    for name, values in arrays.items():
        check_each(name, values, np.isfinite(values), "a finite number")


def check_binary(**arrays: Floats) -> None:
    """Check that every value is 0 or 1."""
    for name, values in arrays.items():
        check_each(name, values, np.isin(values, (0.0, 1.0)), "0 or 1")


def check_between(low: float, high: float, **arrays: Floats) -> None:
    """Check that every value lies in [low, high]."""
    for name, values in arrays.items():
        check_each(name, values, (values >= low) & (values <= high), f"between {low:g} and {high:g}")


def check_positive(most: float = np.inf, **arrays: Floats) -> None:
    """Check that every value lies in (0, most], and is finite."""
    expected = "above 0 and finite" if most == np.inf else f"above 0 and at most {most:g}"
    for name, values in arrays.items():
        check_each(name, values, (values > 0) & (values <= most) & (values < np.inf), expected)


def check_inside_unit(**numbers: float) -> None:
    """Check that numbers lie strictly between 0 and 1, as levels and probabilities of error do."""
    for name, number in numbers.items():
        if not 0 < number < 1:
            raise TrustError(f"{name} must lie between 0 and 1; found {number}")


def weights_of(weights: npt.ArrayLike | None, n: int) -> Floats:
    """Convert how many times each of n items counts, such as a label asked for actively; 1 by default.

    Returns:
        Shape (n,), above 0 and finite.
    """
    if weights is None:
        return np.ones(n)
    (each,) = floats(weights)
    if each.shape != (n,):
        raise TrustError(f"weights must have shape ({n},); found {each.shape}")
    check_positive(weights=each)
    return each
