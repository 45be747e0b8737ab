"""How often a case is said to have broken, by its true pass rates and the attempts a side.

    python -m benchmarks.case_states

Every outcome of both sides is enumerated with its binomial probability, so the figures have no error of
simulation. "most often": the pass rate, the same on both sides, at which an unchanged case is most often said
to have broken.
"""

from math import nan

import numpy as np
from scipy.stats import binom

from trivium.runs.comparing.moved_cases import BROKE, SAME, STATES, case_states

SIZES = ((1, 1), (2, 2), (3, 3), (5, 5), (10, 10), (9, 1), (9, 3), (20, 1))
"""Attempts in base and in head."""
RATES = ((0.5, 0.5), (0.9, 0.9), (1.0, 0.0), (0.95, 0.05), (0.9, 0.5))
"""True pass rates in base and in head."""


def shares(rates: tuple[float, float], sizes: tuple[int, int]) -> list[float]:
    """Probability of each state, and of none."""
    passes = np.indices((sizes[0] + 1, sizes[1] + 1)).reshape(2, -1)
    probability = np.prod(
        [binom.pmf(some, size, rate) for some, size, rate in zip(passes, sizes, rates, strict=True)], axis=0
    )
    attempts = [np.full(passes.shape[1], size) for size in sizes]
    found = case_states(passes[0], attempts[0], passes[1], attempts[1])
    return np.bincount(found, probability, SAME + 1).tolist()


def main() -> None:
    """Print a table for each pair of rates, and the rate at which an unchanged case most often broke."""
    for rates in RATES:
        print(f"pass rate {rates[0]:g} in base, {rates[1]:g} in head")
        for sizes in SIZES:
            told = dict(zip((*STATES, "none"), shares(rates, sizes), strict=True))
            print(
                f"  {sizes[0]:2} and {sizes[1]:2}:", *(f"{name} {100 * p:6.2f} %" for name, p in told.items())
            )
    print("an unchanged case is most often said to have broken")
    for sizes in SIZES:
        share, rate = max((shares((rate, rate), sizes)[BROKE], rate) for rate in np.arange(0.01, 1, 0.01))
        print(f"  {sizes[0]:2} and {sizes[1]:2}: {100 * share:5.2f} % at {rate if share else nan:.2f}")


if __name__ == "__main__":
    main()
