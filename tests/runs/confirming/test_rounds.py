"""Which attempts are made next, and when to stop."""

import numpy as np
import pytest

from trivium.runs.comparing.decision import Options
from trivium.runs.comparing.earlier_runs import CaseCounts, SideCounts
from trivium.runs.confirming.rounds import SMALLEST_BATCH, Rounds
from trivium.suites.settings import Costs, DecideSettings
from trivium.trust.case_model import Tally, case_posterior


def side(passes, attempts=1):
    passes = np.asarray(passes, np.int64)
    return SideCounts(
        attempts=np.full(passes.size, attempts),
        sums=passes.astype(float),
        squares=passes.astype(float),
        earlier=np.zeros(passes.size, np.int64),
    )


def counts(base, head, attempts=1):
    names = [f"q{i}" for i in range(len(base))]
    return CaseCounts(
        cases=names, groups=np.arange(len(base)), base=side(base, attempts), head=side(head, attempts)
    )


def options(policy="balanced", about="these", **costs):
    decide = DecideSettings(policy=policy, about=about, costs=Costs(**costs))
    return Options(margin=0.02, level=0.95, resamples=1, seed=1, decide=decide)


MOVED = counts([1] * 60, [0] * 3 + [1] * 57)


def asked(rounds, *, broken=(), cases=60):
    """Go on until it ends; every attempt passes, but those of head at broken cases."""
    batches = []
    while batch := rounds.next():
        batches.append(batch)
        for number in (0, 1):
            at = [place for of_side, place in batch if of_side == number]
            made = np.bincount(at, minlength=cases).astype(float)
            passed = made * ~(np.isin(np.arange(cases), broken) & (number == 1))
            rounds.take(number, np.array([made, passed, passed]), at)
    return batches


def test_a_batch_has_second_attempts_where_a_case_may_have_broken_then_those_that_tell_most():
    first = Rounds(MOVED, options(), asked=(True, True), calls=100).next()
    unclear = [(number, place) for number in (0, 1) for place in range(3)]
    tallies = [Tally(each.attempts, each.sums, each.squares) for each in (MOVED.base, MOVED.head)]
    gains = case_posterior(*tallies, MOVED.groups).gains
    others = [gains[each] for each in np.ndindex(2, 60) if each not in first]

    assert len(set(first)) == 10  # a sixth of the cases, none twice on a side
    assert sorted(first[:6]) == unclear
    assert min(gains[each] for each in first[6:]) >= max(others)


@pytest.mark.parametrize("calls", [1, 3, 4, 11, 37])
def test_no_more_calls_are_made_than_may_be_and_a_small_number_is_used(calls):
    rounds = Rounds(MOVED, options("proof", about="like-these"), asked=(True, True), calls=calls)
    batches = asked(rounds)

    assert sum(map(len, batches)) == calls
    assert (rounds.end, rounds.calls) == ("calls", 0)


def test_a_side_that_cannot_be_asked_is_not_and_takes_no_place_in_a_batch():
    rounds = Rounds(MOVED, options("proof", about="like-these"), asked=(False, True), calls=32)
    batches = asked(rounds)

    assert {number for batch in batches for number, _ in batch} == {1}
    assert (sum(map(len, batches)), rounds.end) == (32, "calls")


def test_broken_cases_are_decided_with_few_calls():
    rounds = Rounds(MOVED, options(), asked=(True, True), calls=1000)
    batches = asked(rounds, broken=(0, 1, 2))

    assert rounds.end == "decided"
    assert sum(map(len, batches)) <= 40


def test_a_proof_takes_more_than_being_nearly_sure():
    made = {}
    for policy in ("balanced", "proof", "strict"):
        rounds = Rounds(MOVED, options(policy), asked=(True, True), calls=2000)
        made[policy] = sum(map(len, asked(rounds)))
        assert rounds.end == "decided"

    assert made["balanced"] < made["proof"] == made["strict"]


def test_what_was_decided_before_asks_nothing():
    rounds = Rounds(counts([6] * 60, [0] * 60, attempts=6), options(), asked=(True, True), calls=100)

    assert rounds.next() == []
    assert rounds.end == "decided"


def test_a_case_whose_attempt_gave_no_value_is_not_asked_again_on_that_side():
    rounds = Rounds(MOVED, options(), asked=(False, True), calls=200)
    seen = []
    while batch := rounds.next():
        seen += batch
        rounds.take(1, np.zeros((3, 60)), [place for _, place in batch])

    assert rounds.end == "nothing"
    assert len(seen) == len(set(seen)) <= 60


def test_calls_that_cost_more_than_they_save_are_not_made():
    def made(**costs):
        rounds = Rounds(MOVED, options(**costs), asked=(True, True), calls=300)
        return sum(map(len, asked(rounds))), rounds.end

    dear, cheap, free = made(call=0.5), made(call=1e-4), made()
    assert dear == (0, "costs")
    assert 0 < cheap[0] <= free[0]
    # Where wrong decisions cost 10,000 times as much, the dear calls pay.
    assert made(call=0.5, ship=1e4, block=1e4)[0] > 0


def test_cases_without_an_attempt_on_a_side_are_never_asked():
    one_sided = counts([1] * 12, [0, 1] * 6)
    one_sided.head.attempts[:6] = 0
    one_sided.head.sums[:6] = one_sided.head.squares[:6] = 0
    batches = asked(Rounds(one_sided, options("proof"), asked=(True, True), calls=50), cases=12)

    assert {place for batch in batches for _, place in batch} == set(range(6, 12))


def test_a_small_suite_has_batches_of_several_attempts():
    small = counts([1] * 6, [0, 1, 1, 1, 1, 1])
    (first, *_) = asked(Rounds(small, options(), asked=(True, True), calls=50), cases=6)

    assert len(first) == SMALLEST_BATCH
