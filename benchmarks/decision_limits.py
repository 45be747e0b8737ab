"""What no rule can do better: how near ``balanced`` and ``proof`` are to what the outcomes allow.

    python -m benchmarks.decision_limits [--quick]

Comparisons as in benchmarks/decisions.py, a quarter of them of a version with itself. Four bounds:

    by hindsight    a classifier of the mean difference and its standard error (gradient boosting) that is
                    trained on the very comparisons that it decides. What the other rules see of a comparison
                    is little more, so that hardly any rule errs much less
    recalibrated    ``balanced``, its probabilities replaced by the share of losses (isotonic regression) in
                    the comparisons on which the prior was chosen: what is off then comes from the data, which
                    differ, not from the prior
    most powerful   the share that the best test of level 2.5 % leaves open, if it knows the variance and how
                    large the difference is (Neyman and Pearson). One that looks early knows no more than one
                    that looks once at all cases, so that it leaves no fewer open
    flaky           of 60 cases that are all flaky: how often the best test finds a loss of 0.1 at these very
                    cases if it blocks 5 % of the versions that did not change, knows all rates, and spreads
                    the attempts as is best
"""

import sys
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import stats
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.isotonic import IsotonicRegression

from benchmarks.decision_confirm import CASES
from benchmarks.decision_prior import most_off
from benchmarks.decision_worlds import (
    DATA,
    FIRST,
    MOST,
    OTHERS,
    SIMULATED_CHANGED,
    SIMULATED_SAME,
    Agents,
    Drawn,
    Floats,
    World,
    flaky,
)
from benchmarks.decisions import MARGIN, SIZES, probabilities_at
from benchmarks.sizes import sized

SAME = 0.25
"""Share of the comparisons that are of a version with itself."""

LEVEL = 0.025
"""At which ``proof`` proves on one side."""


class Seen(NamedTuple):
    """Comparisons with so many cases.

    Attributes:
        features: Mean difference and its standard error, shape (comparisons, 2).
        said: Probability of a loss, shape (comparisons,).
        lost: Whether there was one.
        weights: Of each comparison; their sum is 1.
    """

    features: Floats
    said: Floats
    lost: npt.NDArray[np.bool_]
    weights: Floats

    def wrong(self, probabilities: Floats) -> float:
        """Share of wrong decisions."""
        return float(self.weights @ ((probabilities > 0.5) != self.lost))


def drawn_of(different: dict[str, World], count: int, seed: int) -> dict[str, Drawn]:
    """Comparisons of simulated worlds and of these."""
    worlds = SIMULATED_SAME | SIMULATED_CHANGED | different
    return {
        name: world(np.random.default_rng([seed, number]), count)
        for number, (name, world) in enumerate(worlds.items())
    }


def weight_of(name: str, drawn: dict[str, Drawn]) -> float:
    """Of a world; those of a kind weigh the same."""
    same = len(SIMULATED_SAME)
    return SAME / same if name in SIMULATED_SAME else (1 - SAME) / (len(drawn) - same)


def seen(drawn: dict[str, Drawn], n: int) -> Seen:
    """What is seen of the first n cases."""
    parts = []
    for name, each in drawn.items():
        change = each.head[:, :n] - each.base[:, :n]
        features = np.stack([change.mean(axis=1), change.std(axis=1, ddof=1) / n**0.5], axis=1)
        weights = np.full(len(change), weight_of(name, drawn) / len(change))
        parts.append((features, probabilities_at(change), each.truth < -MARGIN, weights))
    return Seen(*(np.concatenate(each) for each in zip(*parts, strict=True)))


def limit_rows(chosen: dict[str, Drawn], others: dict[str, Drawn]) -> Iterator[str]:
    """Balanced beside what could have been, by number of cases."""
    yield "| cases | wrong, % | by hindsight | probabilities off by | recalibrated |"
    yield "|---" * 5 + "|"
    for n in SIZES:
        before, own = seen(chosen, n), seen(others, n)
        hindsight = GradientBoostingClassifier(max_depth=3, random_state=0)
        hindsight.fit(own.features, own.lost, sample_weight=own.weights * len(own.said))
        best = hindsight.predict_proba(own.features)[:, 1]
        mended = IsotonicRegression(out_of_bounds="clip").fit(before.said, before.lost, before.weights)
        off = (most_off(each, own.lost, own.weights) for each in (own.said, mended.predict(own.said)))
        figures = (own.wrong(own.said), own.wrong(best), *off)
        yield f"| {n} | {' | '.join(f'{100 * figure:.1f}' for figure in figures)} |"


def open_rows(drawn: dict[str, Drawn]) -> Iterator[str]:
    """The least share that a test at the level leaves open, by world."""
    yield f"| world | open at {MOST // 2} cases, % | at {MOST} |"
    yield "|---" * 3 + "|"
    total = np.zeros(2)
    for name, each in drawn.items():
        variance = np.maximum((each.head - each.base).var(axis=1, ddof=1), 1 / MOST**2)
        errors = np.sqrt(variance / np.array([[MOST // 2], [MOST]]))
        power = stats.norm.cdf(np.abs(each.truth + MARGIN) / errors + stats.norm.ppf(LEVEL))
        left = 1 - power.mean(axis=1)
        total += weight_of(name, drawn) * left
        yield f"| {name} | {' | '.join(f'{100 * share:.0f}' for share in left)} |"
    yield f"| all | {' | '.join(f'{100 * share:.0f}' for share in total)} |"


def flaky_rows(count: int, loss: float = 0.1, blocked: float = 0.05) -> Iterator[str]:
    """How often a loss at flaky cases can be found, by the number of attempts."""
    yield "| attempts of each version | losses found, % at most |"
    yield "|---" * 2 + "|"
    rates = flaky(np.random.default_rng(6), count)[:, :CASES]
    spread = np.sqrt(rates * (1 - rates)).mean(axis=1)
    for further in (0, CASES, 2 * CASES):
        attempts = CASES + further // 2
        found = stats.norm.cdf(loss / (spread * np.sqrt(2 / attempts)) + stats.norm.ppf(blocked))
        yield f"| {attempts} | {100 * found.mean():.0f} |"


def main() -> None:
    """Print the tables."""
    count = sized(300 if "--quick" in sys.argv else 4_000, 40)
    public: tuple[dict[str, World], dict[str, World]] = ({}, {})
    if DATA.is_dir():
        public[0]["agents, first five"] = Agents(FIRST, FIRST)
        public[1].update(
            {"agents, other four": Agents(OTHERS, OTHERS), "agents, one of each": Agents(FIRST, OTHERS)}
        )
    chosen, others = (drawn_of(each, count, seed) for each, seed in zip(public, (5, 32), strict=True))
    print(*limit_rows(chosen, others), "", *open_rows(others), "", *flaky_rows(count), sep="\n")


if __name__ == "__main__":
    main()
