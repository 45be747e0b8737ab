"""Lists of a run's attempts, on both databases."""

import random

import pytest

from trivium.agents.attempt import Attempt
from trivium.metrics.evaluation import Composite, Evaluation
from trivium.store.browsing.attempts import (
    VERDICTS,
    attempts_of_case,
    count_attempts,
    find_attempts,
    position_of,
)
from trivium.store.records import StoredAttempt, StoredEvaluation
from trivium.store.store import Store
from trivium.suites.case import Case

PASSED = {"failed": False, "undecided": None, "passed": True}


@pytest.fixture
def run(any_url):
    """A run of 20 cases with two repeats, with verdicts and composites by chance."""
    draw = random.Random(5)
    with Store(any_url) as store:
        cases = [Case(id=f"case {n} %_", input=f"question {n}") for n in range(20)]
        store.save_cases("s", cases)
        run = store.new_run(id="r", suite_name="s", suite="s", kind="agent", settings={})
        keys = [(position, repeat) for position in range(20) for repeat in range(2)]
        attempts = [
            StoredAttempt(position=p, attempt=Attempt(case=cases[p].id, repeat=r, output="x"))
            for p, r in keys
        ]
        expected = {}
        evaluations = []
        for p, r in keys:
            passed, value = draw.choice([True, False, None]), draw.choice([None, 0.0, 0.5, 1.0])
            evaluation = Evaluation(
                case=cases[p].id, repeat=r, scores={}, composite=Composite(value=value), passed=passed
            )
            evaluations.append(StoredEvaluation(position=p, evaluation=evaluation))
            expected[p, r] = passed, value
        store.save(run, attempts=attempts, evaluations=evaluations)
        yield store, run, expected


def keys_of(store, run, **chosen):
    """Positions and repeats of all pages."""
    found, after = [], None
    while True:
        page = find_attempts(store, run, after=after, limit=7, **chosen)
        assert len(page.rows) <= 7
        found += [(int(row[0].id.split()[1]), row[1].repeat) for row in page.rows]
        if page.next is None:
            return found
        after = page.next


def test_pages_hold_every_attempt_once_in_the_order(run):
    store, record, expected = run

    def key(sign):
        def of(place):
            passed, value = expected[place]
            group = [False, None, True].index(passed)
            return sign * group, value is None, sign * (value or 0.0), place

        return of

    assert keys_of(store, record) == sorted(expected, key=key(1))
    assert keys_of(store, record, sort="best") == sorted(expected, key=key(-1))
    assert keys_of(store, record, sort="case") == sorted(expected)


@pytest.mark.parametrize("sort", ["worst", "best", "case"])
@pytest.mark.parametrize("verdict", VERDICTS)
def test_a_verdict_selects(run, sort, verdict):
    store, record, expected = run
    wanted = sorted(place for place, (passed, _) in expected.items() if passed is PASSED[verdict])
    assert sorted(keys_of(store, record, sort=sort, verdict=verdict)) == wanted
    assert count_attempts(store, record, verdict=verdict) == len(wanted)


def test_a_text_selects_cases_by_their_ids(run):
    store, record, _ = run
    assert keys_of(store, record, text="CASE 7 %", sort="case") == [(7, 0), (7, 1)]
    assert count_attempts(store, record, text="case 1") == 22
    assert keys_of(store, record, text="7_%") == []


def test_a_case_is_found_by_its_id(run):
    store, record, _ = run
    assert position_of(store, record, "case 7 %_") == 7
    assert position_of(store, record, "case 7") is None
    assert [row[1].repeat for row in attempts_of_case(store, record, 7)] == [0, 1]
