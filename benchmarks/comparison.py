"""How often a comparison of two runs is wrong, and what it finds: ours beside the tests people use.

    python benchmarks/comparison.py [comparisons a row, default 4000]

Two agents answer the same cases, which come in groups (documents). Cases differ in how hard they are, much
more than the agents do; a change of the agent helps some groups and hurts others. "Wrong" is how often a loss
(or a gain) is called sure at 95 % though the agents are equally good on average: 5 % is promised. "Finds" is
how often a true loss of 0.05 is called sure. The Monte Carlo error of a share near 5 % is printed.

A second table is of losses that come in bunches (whole cases are lost, with an intra-group correlation of
0.5, and none is won): how often a comparison passes at a margin of 0.02 though the true loss is larger (2.5 %
is promised), how often it fails, and how often the interval holds the true loss; beside it mean ± t errors.
"""

import sys
import time

import numpy as np
import numpy.typing as npt
from scipy import stats

from trivium.trust.intervals import difference_interval, mean_interval

Floats = npt.NDArray[np.float64]

ROWS = (
    (10, 1, 0.0),
    (40, 1, 0.0),
    (200, 1, 0.0),
    (10, 8, 0.05),
    (20, 8, 0.05),
    (40, 8, 0.05),
    (200, 4, 0.05),
)
"""Groups, cases in each, and how much the effect of the change differs from group to group."""
DIFFICULTY, NOISE, LOSS = 0.2, 0.08, 0.05

BUNCHES = ((20, 8), (25, 20), (40, 4), (200, 8))
LOST, BUNCHED, MARGIN = (0.03, 0.05), 0.5, 0.02


def runs(
    rng: np.random.Generator, rounds: int, groups: int, size: int, spread: float, loss: float
) -> tuple[Floats, Floats, npt.NDArray[np.int64]]:
    """Scores of two runs in ``rounds`` worlds, shape (rounds, cases), and the group of each case."""
    codes = np.repeat(np.arange(groups), size)
    hard = rng.normal(0.5, DIFFICULTY / 2, (rounds, groups))[:, codes]
    hard = hard + rng.normal(0, DIFFICULTY, (rounds, codes.size))
    change = rng.normal(-loss, spread, (rounds, groups))[:, codes]
    noise = rng.normal(0, NOISE, (2, rounds, codes.size))
    return hard + noise[0], hard + change + noise[1], codes


def share_sure(
    rng: np.random.Generator, rounds: int, row: tuple[int, int, float], loss: float
) -> list[float]:
    """How often each test calls a difference sure."""
    base, head, codes = runs(rng, rounds, *row, loss)
    ours = [difference_interval(each, codes) for each in head - base]
    unpaired = stats.ttest_ind(head, base, axis=1, equal_var=False).pvalue
    ungrouped = stats.ttest_rel(head, base, axis=1).pvalue
    sure = [one.low > 0 or one.high < 0 for one in ours if one is not None]
    return [float(np.mean(each)) for each in (sure, ungrouped < 0.05, unpaired < 0.05)]


def bunched(
    rng: np.random.Generator, rounds: int, groups: int, size: int, loss: float
) -> tuple[Floats, npt.NDArray[np.int64]]:
    """Differences of outcomes in ``rounds`` worlds, shape (rounds, cases), and the group of each case."""
    room = (1 - BUNCHED) / BUNCHED
    rates, codes = (
        rng.beta(loss * room, (1 - loss) * room, (rounds, groups)),
        np.repeat(np.arange(groups), size),
    )
    return -(rng.uniform(size=(rounds, codes.size)) < rates[:, codes]).astype(np.float64), codes


def losses_in_bunches(rng: np.random.Generator, rounds: int) -> None:
    """Print how often a true loss passes, fails and is held by the interval."""
    print(f"\n{'lost in bunches':24}{'passes, of 2.5 % promised':^26}{'fails':^18}{'interval holds it':^20}")
    print(f"{'groups × cases, loss':24}{'ours':>13}{'± t':>13}{'ours':>9}{'± t':>9}{'ours':>10}{'± t':>10}")
    for groups, size in BUNCHES:
        for loss in LOST:
            values, codes = bunched(rng, rounds, groups, size, loss)
            ours = [difference_interval(each, codes) for each in values]
            plain = [mean_interval(each, codes, low=None, high=None) for each in values]
            ends = [
                np.array([(0.0, 0.0) if one is None else (one.low, one.high) for one in way])
                for way in (ours, plain)
            ]
            cells = [
                np.mean(found, axis=-1)
                for found in (
                    [low > -MARGIN for low, _ in (each.T for each in ends)],
                    [high < 0 for _, high in (each.T for each in ends)],
                    [(low <= -loss) & (-loss <= high) for low, high in (each.T for each in ends)],
                )
            ]
            widths = ((13, 13), (9, 9), (10, 10))
            shown = "".join(
                f"{share:{width}.1%}"
                for cell, both in zip(cells, widths, strict=True)
                for share, width in zip(cell, both, strict=True)
            )
            print(f"{f'{groups} × {size}, {loss:g}':24}{shown}", flush=True)


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 4_000
    start, rng = time.perf_counter(), np.random.default_rng(42)
    error = (0.05 * 0.95 / rounds) ** 0.5
    print(f"{rounds:,} comparisons a row; Monte Carlo error near 5 %: ±{error:.1%}\n")
    print(f"{'':24}{'wrong, of 5 % promised':^34}  {'finds a loss of 0.05':^34}")
    names = f"{'ours':>8}{'paired t':>12}{'unpaired t':>14}"
    print(f"{'groups × cases, spread':24}{names}  {names}")
    for row in ROWS:
        groups, size, spread = row
        wrong, finds = share_sure(rng, rounds, row, 0.0), share_sure(rng, rounds, row, LOSS)
        cells = "  ".join(f"{ours:8.1%}{paired:12.1%}{apart:14.1%}" for ours, paired, apart in (wrong, finds))
        print(f"{f'{groups} × {size}, {spread:g}':24}{cells}")
    losses_in_bunches(rng, max(1, rounds // 4))
    print(f"\n{time.perf_counter() - start:.1f} s")


if __name__ == "__main__":
    main()
