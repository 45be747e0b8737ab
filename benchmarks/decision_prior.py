"""Which prior of a difference makes the best decisions: how the default one was chosen.

    python -m benchmarks.decision_prior [--quick]

The regret of a prior is its share of wrong decisions by `balanced`, less that of the best of the other rules
(benchmarks/decisions.py) on the same comparisons: 20, 60 or 200 cases, and each share of comparisons of a
version with itself. The best prior has the least sum of its largest regret and of what its probabilities are
off by in the tenth where they are off most. Tasks that were not run with an agent are left out, and then
taken for failed: the worse of both counts. Without public results only simulated versions are compared.
"""

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.decision_worlds import DATA, FIRST, SIMULATED_CHANGED, SIMULATED_SAME, Agents
from benchmarks.decisions import (
    MARGIN,
    OTHER_RULES,
    SHARES,
    SIZES,
    Cell,
    Floats,
    mixed,
    other_rules,
    probabilities_at,
)
from benchmarks.sizes import sized
from trivium.trust.decision import DifferencePrior

UNCHANGED = (0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35)
SPREADS = (0.06, 0.07, 0.08, 0.1, 0.12, 0.15)


def prior_rows(count: int, seed: int = 5) -> Iterator[str]:
    """A row for each prior, the best first."""
    priors = [DifferencePrior(unchanged=u, spread=s) for u in UNCHANGED for s in SPREADS]
    regrets: dict[DifferencePrior, list[float]] = {prior: [] for prior in priors}
    off: dict[DifferencePrior, float] = dict.fromkeys(priors, 0.0)
    for blank in (np.nan, 0.0) if DATA.is_dir() else (np.nan,):
        worlds = SIMULATED_SAME | SIMULATED_CHANGED
        if DATA.is_dir():
            worlds = worlds | {"agents": Agents(FIRST, FIRST, blank)}
        kinds = list(SIMULATED_SAME), [name for name in worlds if name not in SIMULATED_SAME]
        drawn = {
            name: world(np.random.default_rng([seed, number]), count)
            for number, (name, world) in enumerate(worlds.items())
        }
        lost = np.concatenate([each.truth < -MARGIN for each in drawn.values()])
        shares = [0.25 / len(kinds[0]) if name in kinds[0] else 0.75 / len(kinds[1]) for name in worlds]
        weights = np.repeat(np.array(shares) / count, count)
        for n in SIZES:
            cells: dict[Any, Cell] = {}
            for name, each in drawn.items():
                for rule, answers in other_rules(each.base[:, :n], each.head[:, :n]).items():
                    cells[name, n, rule] = Cell.of(answers, each.truth, n)
            for prior in priors:
                said = {
                    name: probabilities_at(each.head[:, :n] - each.base[:, :n], prior)
                    for name, each in drawn.items()
                }
                for name, own in said.items():
                    cells[name, n, prior] = Cell.of(np.where(own > 0.5, -1, 1), drawn[name].truth, n)
                off[prior] = max(off[prior], most_off(np.concatenate(list(said.values())), lost, weights))
                for share in SHARES:
                    best = min(mixed(cells, n, rule, share, kinds).wrong for rule in OTHER_RULES)
                    regrets[prior].append(mixed(cells, n, prior, share, kinds).wrong - best)
    yield "| u | s | largest regret | mean regret | probabilities off by |"
    yield "|---" * 5 + "|"
    for prior in sorted(priors, key=lambda each: max(regrets[each]) + off[each]):
        own_regrets = regrets[prior]
        figures = (max(own_regrets), sum(own_regrets) / len(own_regrets), off[prior])
        shown = " | ".join(f"{100 * figure:.1f}" for figure in figures)
        yield f"| {prior.unchanged:g} | {prior.spread:g} | {shown} |"


def most_off(said: Floats, lost: npt.NDArray[np.bool_], weights: Floats) -> float:
    """How far the mean probability is from the share of losses, in the worst tenth with 1 % of the weight."""
    tenth = np.minimum((said * 10).astype(int), 9)
    weight, gap = (
        np.bincount(tenth, weights=each, minlength=10) for each in (weights, weights * (said - lost))
    )
    return float(np.max(np.abs(gap[weight > 0.01]) / weight[weight > 0.01]))


if __name__ == "__main__":
    for row in prior_rows(sized(200 if "--quick" in sys.argv else 9_000, 20)):
        print(row)
