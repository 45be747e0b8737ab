"""How often a slice is called worse or better than the others when no slice is: should be at most 5 % a run.

    python -m benchmarks.slices [runs]

Each run has groups of 1 or 5 cases; every case has one of several tags, mixed within groups or one a group.
The outcome of a case is 1 with the rate of its group, drawn from a beta distribution with the given
intra-group correlation. The last columns show the power: the share of runs in which a tag whose rate is lower
by 0.4 is found.
"""

import sys

import numpy as np

from benchmarks.sizes import sized
from trivium.trust.subsets import adjusted, subset_difference

RUNS = sized(1000, 5)
LEVEL = 0.95


def found(values: np.ndarray, groups: np.ndarray, tags: np.ndarray, count: int) -> list[bool]:
    """Which tags are called different from the others."""
    differences = adjusted([subset_difference(values, groups, tags == tag) for tag in range(count)])
    return [each is not None and each.p_holm is not None and each.p_holm <= 1 - LEVEL for each in differences]


def main() -> None:
    """Print the table."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else RUNS
    rng = np.random.default_rng(5)
    print(
        f"{'groups':>7}{'cases':>7}{'tags':>6}{'rate':>6}{'corr.':>7}{'tags are':>12}{'false':>8}{'power':>8}"
    )
    for size, count, nested in ((1, 5, False), (1, 12, False), (5, 4, False), (5, 4, True), (5, 12, False)):
        for groups in (12, 40, 100):
            for rate in (0.5, 0.8, 0.95):
                for correlation in (0.0,) if size == 1 else (0.1, 0.5):
                    false = power = 0
                    for _ in range(runs):
                        of = np.repeat(np.arange(groups), size)
                        tags = of % count if nested else rng.integers(0, count, of.size)
                        total = 1 / correlation - 1 if correlation else 0
                        chance = (
                            rng.beta(rate * total, (1 - rate) * total, groups)[of]
                            if correlation
                            else np.full(of.size, rate)
                        )
                        draws = rng.random(of.size)
                        false += any(found((draws < chance).astype(float), of, tags, count))
                        worse = np.where(tags == 0, np.maximum(0.0, chance - 0.4), chance)
                        power += found((draws < worse).astype(float), of, tags, count)[0]
                    print(
                        f"{groups:>7}{of.size:>7}{count:>6}{rate:>6}{correlation:>7}"
                        f"{'one a group' if nested else 'mixed':>12}{false / runs:>8.1%}{power / runs:>8.1%}"
                    )


if __name__ == "__main__":
    main()
