"""``trivium confirm`` in simulated worlds: its decisions, for the benchmark of decisions, and its estimate.

    python -m benchmarks.decision_confirm

prints how far off the estimate is, and how often its interval holds the truth, in 10,000 worlds (minutes).

For the decisions 60 cases have one attempt of each version. Then

    one attempt   no further attempts are made
    confirm       further attempts in the batches that Trivium chooses, until ``balanced`` is sure enough, at
                  most 40 or 60: a third or half of what repeating everything takes
    repeat all    one more attempt of each version at each case, 120 in all

and ``balanced`` decides about these very cases, or about cases like them. Where one attempt makes it sure
enough, confirm asks nothing.

What breaks, where a version is worse:

    3 broken      3 of the cases that always passed always fail
    10 flaky      10 of the cases that always passed pass every second time
    all worse     all rates are 0.1 lower, or 0
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from benchmarks.decision_worlds import (
    SIMULATED_CHANGED,
    SIMULATED_SAME,
    Drawn,
    Floats,
    World,
    from_rates,
    steady,
)
from benchmarks.sizes import sized
from trivium.runs.comparing.decision import Options
from trivium.runs.comparing.earlier_runs import CaseCounts, SideCounts
from trivium.runs.comparing.moved_cases import BROKE, case_states
from trivium.runs.confirming.rounds import DOUBT, Rounds
from trivium.suites.settings import About, DecideSettings
from trivium.trust.case_model import Tally, case_posterior, error_on_these_cases
from trivium.trust.decision import loss_beyond, loss_of_differences

CASES, SMALL = 60, 20
WAYS: dict[str, int] = {"one attempt": 0, "confirm, 40": 40, "confirm, 60": 60, "repeat all": 2 * CASES}
"""How further attempts are made, and at most how many."""


class Confirmed(NamedTuple):
    """One comparison after further attempts.

    Attributes:
        probability: Probability of a loss beyond the margin.
        calls: Further attempts, of both sides together.
        named: Share of the cases which broke in truth that are said to have broken; NaN if none did.
    """

    probability: float
    calls: int
    named: float


def tallied(sums: Floats, attempts: Floats) -> tuple[Tally, Tally]:
    """Attempts that passed or failed, as base and head; shape (2, n) each."""
    base, head = (Tally(np.rint(n).astype(np.int64), own, own) for own, n in zip(sums, attempts, strict=True))
    return base, head


def unchosen(sums: Floats, attempts: Floats, about: About, margin: float) -> float:
    """Probability of a loss where no attempt was made because of others; shape (2, n) each."""
    rates = sums / attempts
    change = rates[1] - rates[0]
    if about == "like-these":
        return loss_of_differences(change, np.arange(change.size), margin=margin)
    return loss_beyond(float(change.mean()), error_on_these_cases(*tallied(sums, attempts)), -margin)


def asked_again(
    outcomes: Floats, rates: Floats, *, about: About, calls: int, margin: float, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Sums and numbers of attempts once no more are asked, shape (2, n) each; see :func:`confirmed`."""
    n = outcomes.shape[1]
    sums, attempts, none = outcomes.copy(), np.ones_like(outcomes), np.zeros(n, np.int64)
    sides = [SideCounts(attempts=none + 1, sums=each, squares=each, earlier=none) for each in outcomes]
    counts = CaseCounts(cases=[str(i) for i in range(n)], groups=np.arange(n), base=sides[0], head=sides[1])
    decide = DecideSettings(policy="balanced", about=about)
    options = Options(margin=margin, level=0.95, resamples=1, seed=1, decide=decide)
    rounds = Rounds(counts, options, asked=(True, True), calls=calls)
    while batch := rounds.next():
        made = np.zeros_like(sums)
        made[tuple(np.array(batch).T)] = 1
        passed = made * (rng.random(made.shape) < rates)
        sums, attempts = sums + passed, attempts + made
        for side in (0, 1):
            totals = np.array([made[side], passed[side], passed[side]])
            rounds.take(side, totals, np.flatnonzero(made[side]).tolist())
    return sums, attempts


def confirmed(
    outcomes: Floats, rates: Floats, *, about: About, how: str, margin: float, rng: np.random.Generator
) -> Confirmed:
    """Confirm one comparison.

    Args:
        outcomes: First attempts of base and head, shape (2, n).
        rates: Their success rates, shape (2, n).
        about: The question.
        how: One of ``WAYS``.
        margin: The loss that does not matter.
        rng: Draws the outcomes.
    """
    n = outcomes.shape[1]
    sums, attempts = outcomes.copy(), np.ones_like(outcomes)
    if how == "repeat all":
        sums, attempts = sums + (rng.random(sums.shape) < rates), attempts + 1
    probability = unchosen(sums, attempts, about, margin)
    if how.startswith("confirm") and DOUBT <= probability <= 1 - DOUBT:
        sums, attempts = asked_again(outcomes, rates, about=about, calls=WAYS[how], margin=margin, rng=rng)
        if attempts.sum() > 2 * n:
            posterior = case_posterior(*tallied(sums, attempts), np.arange(n))
            probability = (posterior.these if about == "these" else posterior.like_these).below(-margin)
    broken = (rates[0] == 1) & (rates[1] == 0)
    whole = [np.rint(each).astype(np.int64) for each in (sums[0], attempts[0], sums[1], attempts[1])]
    said = case_states(*whole) == BROKE
    return Confirmed(
        probability,
        int(attempts.sum()) - 2 * n,
        float(said[broken].mean()) if broken.any() else np.nan,
    )


Change = Callable[[Floats, np.random.Generator], Floats]
"""Gives the rates of the worse version from those of the other, shape (n,)."""


def _planted(change: Change) -> World:
    def world(rng: np.random.Generator, count: int) -> Drawn:
        base = steady(rng, count)[:, :CASES]
        head = np.array([change(rates.copy(), rng) for rates in base])
        return from_rates(rng, base, head, (head - base).mean(axis=1))

    return world


def _some(number: int, rate: float) -> Change:
    def change(rates: Floats, rng: np.random.Generator) -> Floats:
        rates[rng.permutation(np.flatnonzero(rates == 1))[:number]] = rate
        return rates

    return change


PLANTED: dict[str, World] = {
    "3 broken": _planted(_some(3, 0.0)),
    "10 flaky": _planted(_some(10, 0.5)),
    "all worse": _planted(lambda rates, _: np.maximum(rates - 0.1, 0)),
}
"""Worlds in which every head is worse at these very cases."""


def confirm_rows(count: int, margin: float, seed: int = 33) -> Iterator[str]:
    """Wrong ships + wrong blocks of 100 by how attempts were made, and how many further ones."""
    yield f"| question | world | {' | '.join(WAYS)} | further attempts | named, % |"
    yield "|---" * (4 + len(WAYS)) + "|"
    worlds = PLANTED | SIMULATED_SAME | SIMULATED_CHANGED
    questions: tuple[About, ...] = ("these", "like-these")
    for about in questions:
        for number, (name, world) in enumerate(worlds.items()):
            if about == "like-these" and name in PLANTED:
                continue  # drawn with these very cases in mind
            drawn = world(np.random.default_rng([seed, number]), count)
            assert drawn.rates is not None
            rates = drawn.rates[:, :, :CASES]
            outcomes = np.stack([drawn.base, drawn.head])[:, :, :CASES]
            worse = ((rates[1] - rates[0]).mean(axis=1) if about == "these" else drawn.truth) < -margin
            wrong, asked, named = [], [], []
            for how in WAYS:
                rng = np.random.default_rng([seed, number, 1])
                found = [
                    confirmed(outcomes[:, at], rates[:, at], about=about, how=how, margin=margin, rng=rng)
                    for at in range(count)
                ]
                fails = np.array([each.probability > 0.5 for each in found])
                wrong.append(f"{100 * (worse & ~fails).mean():.1f} + {100 * (~worse & fails).mean():.1f}")
                if how.startswith("confirm"):
                    asked.append(f"{np.mean([each.calls for each in found]):.0f}")
                    named.append(f"{100 * np.mean([each.named for each in found]):.0f}")
            told = ", ".join(named) if name == "3 broken" else ""
            yield f"| {about} | {name} | {' | '.join(wrong)} | {', '.join(asked)} | {told} |"


def _same(rates: Floats, _: np.random.Generator) -> Floats:
    return rates


def _down(rates: Floats, _: np.random.Generator) -> Floats:
    return np.maximum(rates - 0.1, 0)


def _drawn_anew(rates: Floats, rng: np.random.Generator) -> Floats:
    return rng.permutation(rates)


ESTIMATED: dict[str, tuple[Callable[[np.random.Generator], Floats], Change]] = {
    "all noise": (lambda rng: rng.uniform(0.3, 0.9, SMALL), _same),
    "steady, the same": (lambda rng: (rng.random(SMALL) < 0.8).astype(float), _same),
    "steady, 2 broken": (lambda _: np.ones(SMALL), _some(2, 0.0)),
    "flaky, all worse": (lambda rng: rng.uniform(0.3, 0.9, SMALL), _down),
    "two rates, the same": (lambda rng: rng.choice([0.15, 0.85], SMALL), _same),
    "two rates, drawn anew": (lambda rng: rng.choice([0.15, 0.85], SMALL), _drawn_anew),
    "second attempts worse": (lambda rng: rng.uniform(0.5, 1, SMALL), _same),
    "prior of the model": (lambda rng: rng.choice([0, 0.5, 0.9, 1], SMALL, p=[0.2, 0.1, 0.2, 0.5]), _down),
}
"""Worlds of ``SMALL`` cases: rates of base, and those of head from them. In "second attempts worse" the rates
of both fall by 0.2 after the first attempt, which the model does not know."""


def estimate_rows(count: int, margin: float, seed: int = 35) -> Iterator[str]:
    """Error and coverage of the estimate about these cases, once attempts were chosen by what was seen."""
    yield "| world | truth | one attempt, mean error | confirmed, mean error | 95 % interval covers, % |"
    yield "|---" * 5 + "|"
    for number, (name, (drawn, change)) in enumerate(ESTIMATED.items()):
        rng = np.random.default_rng([seed, number])
        found = []
        for _ in range(count):
            base = drawn(rng)
            rates = np.stack([base, change(base.copy(), rng)])
            outcomes = (rng.random(rates.shape) < rates).astype(np.float64)
            later = np.maximum(rates - 0.2, 0) if name == "second attempts worse" else rates
            sums, attempts = asked_again(outcomes, later, about="these", calls=SMALL, margin=margin, rng=rng)
            these = case_posterior(*tallied(sums, attempts), np.arange(SMALL)).these
            truth = float((rates[1] - rates[0]).mean())
            covered = these.quantile(0.025) - 1e-6 <= truth <= these.quantile(0.975) + 1e-6
            found.append((truth, (outcomes[1] - outcomes[0]).mean() - truth, these.mean - truth, covered))
        truth, first, error, covers = np.mean(found, axis=0)
        yield f"| {name} | {truth:+.3f} | {first:+.3f} | {error:+.3f} | {100 * covers:.0f} |"


if __name__ == "__main__":
    print(*estimate_rows(sized(1_250, 1), 0.02), sep="\n")
