"""Which rule ships or blocks a version wrongly, how often, and for how many attempts.

    python -m benchmarks.decisions [--quick] [--picture FILE.svg]

A version is worse if its true difference over cases like these is below -0.02, the margin. Wrong ship: it is
worse, and the rule lets it pass. Wrong block: it is not worse, and the rule fails it. Undecided: neither.
Worlds (benchmarks/decision_worlds.py) draw each comparison anew. All rules see the same outcomes, one attempt
of each version at each case:

    mean dropped         fails if the mean is lower
    beyond the margin    fails if the mean is lower by more than the margin
    McNemar              fails if the exact test of the cases that differ is significant (5 %, two sides)
    Fisher               fails if the exact test of both pass rates is significant, ignoring the pairs
    two errors           fails if mean ± 2 standard errors of both versions do not overlap
    balanced, proof,     Trivium's policies, by its own code and with its default prior
    strict
    proof, until         Trivium's --until-decided: case after case until it is proven, at most 300
    balanced, until      the same under balanced: also until the probability of a loss is below 5 % or above
                         95 %, from 20 cases on
    confirm              Trivium's further attempts at the same cases (benchmarks/decision_confirm.py)

Rules but proof, with --until-decided or not, always decide: what does not fail passes.
"""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import stats

from benchmarks.decision_confirm import confirm_rows
from benchmarks.decision_worlds import (
    MOST,
    SIMULATED_SAME,
    World,
    changed,
    same,
)
from benchmarks.sizes import sized
from trivium.runs.until_decided.difference import DOUBT, FEWEST_CASES, Difference
from trivium.suites.settings import DecideSettings, Policy
from trivium.trust.decision import DEFAULT_PRIOR, DifferencePrior, probability_of_loss
from trivium.trust.distributions import Answer, Interval
from trivium.trust.paired import non_inferiority, paired_means

MARGIN = 0.02
SIZES = (20, 60, 200)
FEW = (5, 10)
"""Numbers of cases for which only the rates of the policies are shown."""
LOOKS = np.arange(FEWEST_CASES, MOST + 1)
STOPS = (0.02, DOUBT, 0.1, 0.2)
"""Probabilities of being wrong at which balanced stops; the second is Trivium's."""

SHARES = (0.0, 0.25, 0.5, 0.75)
"""Shares of comparisons of a version with itself."""

OTHER_RULES = ("mean dropped", "beyond the margin", "McNemar", "Fisher", "two errors")
POLICIES: tuple[Policy, ...] = ("balanced", "proof", "strict")
NUMBER: dict[Answer, int] = {"pass": 1, "fail": -1, "inconclusive": 0}

Floats = npt.NDArray[np.float64]
Answers = npt.NDArray[np.int64]


class Cell(NamedTuple):
    """How a rule fared in a world: shares of comparisons, and attempts of each version."""

    wrong_ship: float
    wrong_block: float
    undecided: float
    calls: float
    count: int

    @classmethod
    def of(cls, answers: Answers, truth: Floats, calls: float) -> "Cell":
        """Count the answers: 1 pass, -1 fail, 0 neither."""
        worse = truth < -MARGIN
        shares = (worse & (answers > 0), ~worse & (answers < 0), answers == 0)
        return cls(*(float(each.mean()) for each in shares), calls, len(truth))

    @property
    def wrong(self) -> float:
        """Share of wrong decisions."""
        return self.wrong_ship + self.wrong_block

    @property
    def columns(self) -> str:
        """The cell in the columns of a table, with the standard error of the simulation."""
        shares = (
            f"{100 * each:.1f} ± {100 * (each * (1 - each) / self.count) ** 0.5:.1f}"
            for each in (self.wrong_ship, self.wrong_block)
        )
        return f"{' | '.join(shares)} | {100 * self.undecided:.0f} | {self.calls:.0f}"


Found = dict[tuple[str, int, str], Cell]
"""Cells by world, number of cases and rule."""


@cache
def fisher(base: int, head: int, n: int) -> float:
    """The p-value of Fisher's test of two pass rates."""
    return float(stats.fisher_exact([[base, n - base], [head, n - head]]).pvalue)


def other_rules(base: Floats, head: Floats) -> dict[str, Answers]:
    """The answers of the rules beside Trivium's."""
    n = base.shape[1]
    change = head - base
    mean, wins, losses = change.mean(axis=1), (change > 0).sum(axis=1), (change < 0).sum(axis=1)
    mcnemar = 2 * stats.binom.cdf(np.minimum(wins, losses), wins + losses, 0.5)
    passed = zip(base.sum(axis=1), head.sum(axis=1), strict=True)
    unpaired = np.array([fisher(int(one), int(other), n) for one, other in passed])
    rates = base.mean(axis=1), head.mean(axis=1)
    errors = [2 * np.sqrt(rate * (1 - rate) / n) for rate in rates]
    fails = (
        mean < 0,
        mean < -MARGIN,
        (mcnemar < 0.05) & (mean < 0),
        (unpaired < 0.05) & (mean < 0),
        rates[1] + errors[1] < rates[0] - errors[0],
    )
    return {rule: np.where(each, -1, 1) for rule, each in zip(OTHER_RULES, fails, strict=True)}


def policies(base: Floats, head: Floats) -> tuple[dict[str, Answers], Floats]:
    """The answers of Trivium's policies, and the probabilities of a loss."""
    answers: dict[str, list[int]] = {policy: [] for policy in POLICIES}
    probabilities = []
    for found in paired_means(base, head, np.arange(base.shape[1]), resamples=1):
        assert found.delta is not None
        assert found.interval is not None
        probabilities.append(probability_of_loss(found.delta, found.interval, margin=MARGIN))
        proven = non_inferiority(found, margin=MARGIN)
        for policy in POLICIES:
            answer = DecideSettings(policy=policy).answer(proven, probabilities[-1:])
            answers[policy].append(NUMBER[answer])
    return {policy: np.array(each) for policy, each in answers.items()}, np.array(probabilities)


def probabilities_at(change: Floats, prior: DifferencePrior = DEFAULT_PRIOR) -> Floats:
    """Probability of a loss in each comparison, from the differences of its cases, shape (comparisons, n).

    Of the interval it needs only the standard error, which is quickly computed where each case is a group.
    """
    n = change.shape[1]
    errors = change.std(axis=1, ddof=1) / n**0.5
    found = [
        probability_of_loss(
            float(mean),
            Interval(low=-1, high=1, level=0.95, method="", n=n, groups=n, std_error=float(error)),
            margin=MARGIN,
            prior=prior,
        )
        for mean, error in zip(change.mean(axis=1), errors, strict=True)
    ]
    return np.array(found)


def bought(probabilities: Floats, looks: Sequence[int], stop: float) -> tuple[Answers, Floats]:
    """Answers and numbers of cases of balanced that asks case after case until it is sure enough.

    Args:
        probabilities: Probability of a loss at each look, shape (looks, comparisons).
        looks: Numbers of cases.
        stop: The probability of a loss, or of none, at which it stops.
    """
    sure = (probabilities < stop) | (probabilities > 1 - stop)
    sure[-1] = True
    first = sure.argmax(axis=0)
    last = np.take_along_axis(probabilities, first[None], axis=0)[0]
    return np.where(last > 0.5, -1, 1), np.asarray(looks)[first]


def until_decided(change: Floats) -> tuple[Answers, Floats]:
    """Answers and numbers of cases of ``--until-decided``."""
    found = []
    for cases in change:
        test = Difference(margin=MARGIN, level=0.95, largest=1)
        asked = 0
        while asked < len(cases) and not test.decided:
            test.bet(cases[asked : asked + 1], cases[asked : asked + 1])
            asked += 1
        found.append((NUMBER[test.answer], asked))
    answers, asked_cases = np.array(found).T
    return answers, asked_cases.astype(np.float64)


class Measured(NamedTuple):
    """What was measured in all worlds, with the probabilities beside what was true.

    Attributes:
        cells: Cells by world, number of cases and rule; of a rule that looks early, by the most cases.
        said: Probabilities of a loss and whether there was one, by world and number of cases.
    """

    cells: Found
    said: dict[tuple[str, int], tuple[Floats, npt.NDArray[np.bool_]]]


def measure(worlds: Mapping[str, World], count: int, until: int, seed: int = 32) -> Measured:
    """Try all rules in all worlds."""
    cells: Found = {}
    said = {}
    for number, (name, world) in enumerate(worlds.items()):
        drawn = world(np.random.default_rng([seed, number]), count)
        most = drawn.base.shape[1]
        for n in sorted({min(n, most) for n in (*FEW, *SIZES)}):
            base, head = drawn.base[:, :n], drawn.head[:, :n]
            own, probabilities = policies(base, head)
            said[name, n] = probabilities, drawn.truth < -MARGIN
            for rule, answers in (other_rules(base, head) | own).items():
                cells[name, n, rule] = Cell.of(answers, drawn.truth, n)
        change = drawn.head - drawn.base
        looks = [int(n) for n in LOOKS if n <= most]
        at = np.array([probabilities_at(change[:, :n]) for n in looks])
        for stop in STOPS:
            answers, asked = bought(at, looks, stop)
            cells[name, most, f"balanced, until {stop}"] = Cell.of(answers, drawn.truth, float(asked.mean()))
        answers, asked = until_decided(change[:until])
        cells[name, most, "proof, until"] = Cell.of(answers, drawn.truth[:until], float(asked.mean()))
    return Measured(cells, said)


def mixed(cells: Found, n: int, rule: str, share: float, worlds: tuple[Sequence[str], Sequence[str]]) -> Cell:
    """A rule over comparisons of which a share is of one version; worlds of each kind weigh the same."""
    weighed = [
        (weight / len(names), cells[name, n, rule])
        for weight, names in zip((share, 1 - share), worlds, strict=True)
        for name in names
    ]
    means = (sum(weight * cell[field] for weight, cell in weighed) for field in range(4))
    return Cell(*means, count=min(cell.count for _, cell in weighed))


def held_out(cells: Found) -> tuple[list[str], list[str]]:
    """Worlds of one version, and of two, that had no part in choosing the prior and have enough cases."""
    names = {name for name, n, _ in cells if n == SIZES[-1]} - {"agents, first five"}
    return sorted(names & set(SIMULATED_SAME)), sorted(names - set(SIMULATED_SAME))


def by_share(cells: Found) -> Iterator[str]:
    """Wrong decisions by the share of comparisons of a version with itself."""
    worlds = held_out(cells)
    shares = " | ".join(f"{share:.0%} the same" for share in SHARES)
    yield f"| cases | rule | {shares} | undecided, % | attempts |"
    yield "|---" * (4 + len(SHARES)) + "|"
    rows = [(n, rule) for n in SIZES for rule in (*OTHER_RULES, *POLICIES)]
    rows += [(MOST, rule) for rule in ("proof, until", f"balanced, until {STOPS[1]}")]
    for n, rule in rows:
        found = [mixed(cells, n, rule, share, worlds) for share in SHARES]
        wrong = " | ".join(f"{100 * cell.wrong_ship:.1f} + {100 * cell.wrong_block:.1f}" for cell in found)
        yield f"| {n} | {rule} | {wrong} | {100 * found[1].undecided:.0f} | {found[1].calls:.0f} |"


def side_by_side(cells: Found, n: int = 60) -> Iterator[str]:
    """Wrong ships + wrong blocks of each rule in each world, at a number of cases or at all there are."""
    rules = (*OTHER_RULES, "balanced")
    yield f"| world | {' | '.join(rules)} |"
    yield "|---" * (1 + len(rules)) + "|"
    for world in dict.fromkeys(name for name, _, _ in cells):
        cases = max(own for name, own, rule in cells if name == world and rule == "balanced" and own <= n)
        found = [cells[world, cases, rule] for rule in rules]
        shown = (f"{100 * cell.wrong_ship:.0f} + {100 * cell.wrong_block:.0f}" for cell in found)
        yield f"| {world} | {' | '.join(shown)} |"


def early_by_world(cells: Found) -> Iterator[str]:
    """How the policies fared in each world where they looked early."""
    columns = "wrong ship + wrong block, %", "attempts", "proof: undecided, %", "attempts"
    yield f"| world | {' | '.join(columns)} |"
    yield "|---" * (1 + len(columns)) + "|"
    balanced = f"balanced, until {STOPS[1]}"
    for (name, n, rule), cell in cells.items():
        if rule == balanced:
            proof = cells[name, n, "proof, until"]
            wrong = f"{100 * cell.wrong_ship:.1f} + {100 * cell.wrong_block:.1f}"
            yield f"| {name} | {wrong} | {cell.calls:.0f} | {100 * proof.undecided:.0f} | {proof.calls:.0f} |"


def by_world(cells: Found) -> Iterator[str]:
    """All cells."""
    yield "| world | cases | rule | wrong ship, % | wrong block, % | undecided, % | attempts |"
    yield "|---" * 7 + "|"
    for (name, n, rule), cell in cells.items():
        yield f"| {name} | {n} | {rule} | {cell.columns} |"


def calibration(measured: Measured) -> Iterator[str]:
    """What was true of what was said, by tenths, a quarter of the comparisons being of one version."""
    alike, different = held_out(measured.cells)
    columns = []
    for n in SIZES:
        count = len(measured.said[different[0], n][0])
        some = round(count * len(different) / 3 / len(alike))
        taken = [measured.said[name, n] for name in different]
        taken += [(own[:some], true[:some]) for own, true in (measured.said[name, n] for name in alike)]
        said, true = (np.concatenate(each) for each in zip(*taken, strict=True))
        tenth = np.minimum((said * 10).astype(int), 9)
        columns.append(
            [
                f"{100 * said[at].mean():.0f} → {100 * true[at].mean():.0f} ({at.sum():,})"
                if at.any()
                else ""
                for at in (tenth == number for number in range(10))
            ]
        )
    yield f"| said, % | {' | '.join(f'{n} cases' for n in SIZES)} |"
    yield "|---" * (1 + len(SIZES)) + "|"
    for number, row in enumerate(zip(*columns, strict=True)):
        yield f"| {10 * number} to {10 * number + 10} | {' | '.join(row)} |"


def rates(cells: Found) -> Iterator[str]:
    """How often each policy is wrong, for ``trivium.runs.comparing.decision.wrong_rates``."""
    yield "| policy | cases | wrong ship, % | wrong block, % | undecided, % |"
    yield "|---" * 5 + "|"
    for policy in POLICIES:
        for n in (*FEW, *SIZES):
            cell = mixed(cells, n, policy, 0.25, held_out(cells))
            shares = (cell.wrong_ship, cell.wrong_block, cell.undecided)
            yield f"| {policy} | {n} | {' | '.join(f'{100 * share:.0f}' for share in shares)} |"


def picture(cells: Found, file: Path) -> None:
    """Draw wrong ships and wrong blocks against attempts; a quarter of the comparisons is of one version."""
    import altair

    curves = {rule: [(n, rule) for n in SIZES] for rule in (*OTHER_RULES, *POLICIES)}
    curves["balanced, until"] = [(MOST, f"balanced, until {stop}") for stop in STOPS]
    curves["proof, until"] = [(MOST, "proof, until")]
    rows: list[dict[str, Any]] = []
    for curve, points in curves.items():
        for point in points:
            cell = mixed(cells, *point, 0.25, held_out(cells))
            for kind, share in (("wrong ship", cell.wrong_ship), ("wrong block", cell.wrong_block)):
                rows.append({"rule": curve, "attempts": cell.calls, "kind": kind, "%": 100 * share})
    order = list(curves)
    strong = {"balanced": "#1f5f8b", "balanced, until": "#0b84f3", "proof": "#6a4c93", "strict": "#2a9d8f"}
    strong["proof, until"] = "#c2185b"
    colours = [strong.get(rule, "#9aa0a6") for rule in order]
    shapes = ["circle", "square", "triangle-up", "diamond", "cross", *["circle"] * len(strong)]
    panels = []
    for kind in ("wrong ship", "wrong block"):
        base = altair.Chart(altair.Data(values=[row for row in rows if row["kind"] == kind])).encode(
            x=altair.X(
                "attempts:Q",
                title="attempts of each version",
                scale=altair.Scale(domain=[0, 260]),
                axis=altair.Axis(values=[0, 60, 120, 180, 240]),
            ),
            y=altair.Y(
                "%:Q",
                title=f"{kind}, of 100 comparisons (root scale)",
                scale=altair.Scale(type="sqrt", domain=[0, 70]),
            ),
            color=altair.Color("rule:N", title=None, scale=altair.Scale(domain=order, range=colours)),
            shape=altair.Shape("rule:N", title=None, scale=altair.Scale(domain=order, range=shapes)),
        )
        marks = base.mark_line(strokeWidth=2) + base.mark_point(filled=True, size=60, opacity=1)
        panels.append(marks.properties(width=330, height=300))
    shown = altair.hconcat(*panels).configure(background="white")
    shown.save(str(file))


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer comparisons: under a minute")
    parser.add_argument("--picture", type=Path, help="SVG file to draw")
    given = parser.parse_args()
    count, until, confirmed = sized((300, 30, 15) if given.quick else (1_500, 150, 300), (8, 2, 1))
    measured = measure(same() | changed(), count, until)
    tables = {
        "Wrong ships + wrong blocks of 100, by the share of comparisons of a version with itself": by_share,
        "Wrong ships + wrong blocks of 100 by world, at 60 cases": side_by_side,
        "Where they look early, at most 300 attempts of each version": early_by_world,
        "How often each policy is wrong": rates,
        "All cells": by_world,
    }
    for title, table in tables.items():
        print(f"\n{title}\n", *table(measured.cells), sep="\n")
    title = "Of the answers that say so, mean probability of a loss → share of losses (answers)"
    print(f"\n{title}\n", *calibration(measured), sep="\n")
    title = "With further attempts at 60 cases"
    print(f"\n{title}\n", *confirm_rows(confirmed, MARGIN), sep="\n")
    if given.picture:
        picture(measured.cells, given.picture)


if __name__ == "__main__":
    main()
