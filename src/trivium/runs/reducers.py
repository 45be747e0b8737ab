"""Reduces the values of several attempts of a case to one (spec: metrics, Repeats)."""

from collections import Counter
from collections.abc import Callable, Sequence
from math import comb

Reducer = Callable[[Sequence[float]], float]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _majority(values: Sequence[float]) -> float:
    """The most frequent value; in a tie, the smallest."""
    counts = Counter(values)
    highest = max(counts.values())
    return min(value for value, count in counts.items() if count == highest)


REDUCERS: dict[str, Reducer] = {"mean": _mean, "best": max, "worst": min, "majority": _majority}


def pass_at_k(attempts: int, successes: int, k: int) -> float:
    """Probability that at least one of k attempts succeeds: 1 − C(n−c, k)/C(n, k) (Chen et al. 2021).

    Args:
        attempts: n, at least k.
        successes: c, in [0, n].
        k: Number of attempts drawn, at least 1.

    Raises:
        ValueError: If k is not in [1, n] or c not in [0, n].
    """
    _check(attempts, successes, k)
    return 1 - comb(attempts - successes, k) / comb(attempts, k)


def pass_hat_k(attempts: int, successes: int, k: int) -> float:
    """Probability that all of k attempts succeed: C(c, k)/C(n, k) (Yao et al. 2024, τ-bench).

    Args and errors are those of :func:`pass_at_k`.
    """
    _check(attempts, successes, k)
    return comb(successes, k) / comb(attempts, k)


def _check(attempts: int, successes: int, k: int) -> None:
    if not 1 <= k <= attempts:
        raise ValueError(f"k must lie in [1, {attempts}], found {k}")
    if not 0 <= successes <= attempts:
        raise ValueError(f"successes must lie in [0, {attempts}], found {successes}")
