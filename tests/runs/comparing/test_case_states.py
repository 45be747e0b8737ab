"""Whether a case broke, was fixed, is flaky or unclear, by its passes on both sides."""

import itertools
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from scipy.stats import binom, fisher_exact

import trivium as tv
from tests.runs.comparing.test_case_counts import run_of
from trivium.reports.comparison import what_moved
from trivium.reports.junit import comparison_junit
from trivium.runs.comparing.moved_cases import STATES, case_states

ALL = [(b, m, h, k) for m in range(10) for k in range(10) for b in range(m + 1) for h in range(k + 1)]


def states_of(rows):
    return [(*STATES, None)[state] for state in case_states(*np.array(rows).T)]


def expected(passed, attempts, passes, tries):
    """The rule of the definitions, one case at a time, with SciPy's Fisher test."""
    if not attempts or not tries:
        return None
    table = [[passed, attempts - passed], [passes, tries - passes]]
    for state, more, lost in (("broke", "greater", (attempts, 0)), ("fixed", "less", (0, tries))):
        steady = attempts > 1 and tries > 1 and (passed, passes) == lost
        if steady or fisher_exact(table, alternative=more).pvalue <= 0.05 + 1e-9:
            return state
    if 0 < passed < attempts or 0 < passes < tries:
        return "flaky"
    return None if (passed > 0) == (passes > 0) else "unclear"


def test_states_are_those_of_the_definition():
    chosen = ALL[::3]
    assert states_of(chosen) == [expected(*row) for row in chosen]


def test_exchanging_the_sides_exchanges_broke_and_fixed():
    other = {"broke": "fixed", "fixed": "broke"}
    exchanged = states_of([(h, k, b, m) for b, m, h, k in ALL])
    assert [other.get(state, state) for state in states_of(ALL)] == exchanged


def test_a_flaky_side_that_explains_the_other_breaks_nothing():
    rows = np.array([row for row in ALL if row[1] and row[3]])
    passed, attempts, passes, tries = rows[case_states(*rows.T) == 0].T
    assert passed.size > 100
    flaky = (passed > 0) & (passed < attempts)
    assert (binom.cdf(passes, tries, passed / attempts)[flaky] <= 0.05).all()
    flaky = (passes > 0) & (passes < tries)
    assert (binom.sf(passed - 1, attempts, passes / tries)[flaky] <= 0.05).all()


@pytest.mark.parametrize(("attempts", "at_most"), [(1, 0), (2, 1 / 16), (3, 1 / 64), (5, 0.011), (10, 0.022)])
def test_an_unchanged_case_seldom_broke_and_a_broken_one_always_did(attempts, at_most):
    rows = [(b, attempts, h, attempts) for b, h in itertools.product(range(attempts + 1), repeat=2)]
    broke = np.array([state == "broke" for state in states_of(rows)])
    for rate in np.linspace(0, 1, 21):
        chance = [binom.pmf(b, attempts, rate) * binom.pmf(h, attempts, rate) for b, _, h, _ in rows]
        assert np.dot(chance, broke) <= at_most + 1e-12
    assert states_of([(attempts, attempts, 0, attempts)]) == ["unclear" if attempts == 1 else "broke"]


def test_moved_cases_come_by_state_with_their_attempts(store):
    run_of(store, [[0.9] * 2, [0.9] * 2, [0.1, 0.9], [0.1] * 2, [0.9, 0.1]], "a", repeats=2)
    base = run_of(store, [[0.9] * 2, [0.6] * 2, [0.1] * 2, [0.1] * 2, [0.9] * 2], "a", repeats=2)
    head = run_of(store, [[0.9] * 2, [0.9] * 2, [0.9] * 2, [0.9] * 2, [0.1] * 2], "b", repeats=2)
    moved = tv.compare(base, head).moved_cases
    assert [(each.case.id, each.state) for each in moved] == [
        ("q3", "fixed"),
        ("q4", "flaky"),
        ("q2", "flaky"),
        ("q1", None),
    ]
    assert moved.states == {"broke": 0, "fixed": 1, "flaky": 2, "unclear": 0}
    flaky, *_, alone = moved.changes[1:]
    assert flaky.why == "passed 3 of 4 (2 in other runs), then 0 of 2"
    assert (flaky.base_passes, flaky.base_attempts, flaky.base_earlier, flaky.head_attempts) == (3, 4, 2, 2)
    assert (alone.why, alone.by) == ("", "composite")
    assert what_moved(moved).startswith(
        "4 of 5 cases moved: 1 fixed, 2 flaky (with 10 attempts of other runs of the same version) · by pass"
    )
    frame = pytest.importorskip("polars") and moved.to_polars()
    assert frame["state"].to_list() == ["fixed", "flaky", "flaky", None]


def test_a_case_that_broke_by_its_earlier_attempts_moved_whatever_the_last_ones_say(store):
    for version, value in (("a", 0.9), ("b", 0.1)):
        for _ in range(4):
            run_of(store, [value, 1 - value], version)
    base, head = (run_of(store, [value, 1 - value], version) for version, value in (("a", 0.1), ("b", 0.1)))
    moved = tv.compare(base, head).moved_cases
    assert [(one.case, one.state, one.better, one.why) for one in moved.changes] == [
        ("q0", "broke", False, "passed 4 of 5 (4 in other runs), then 0 of 5 (4 in other runs)"),
        ("q1", "fixed", True, "passed 1 of 5 (4 in other runs), then 5 of 5 (4 in other runs)"),
    ]
    assert (moved.better, moved.worse) == (1, 1)
    assert [each.case.id for each in moved] == ["q0", "q1"]


def test_in_junit_a_case_that_broke_failed_and_a_flaky_one_is_skipped(store):
    base = run_of(store, [[0.9] * 3, [0.1] * 3, [0.9] * 3, [0.9] * 3], repeats=3)
    head = run_of(store, [[0.1] * 3, [0.9] * 3, [0.9, 0.9, 0.1], [0.8] * 3], repeats=3)
    suite = ET.fromstring("".join(comparison_junit(tv.compare(base, head, policy="proof"))))[0]
    found = {case.get("name"): next((part.tag for part in case), "") for case in suite.iter("testcase")}
    assert found == {
        "answer": "skipped",
        "q0": "failure",
        "q1": "system-out",
        "q2": "skipped",
        "q3": "system-out",
    }
    assert {name: suite.get(name) for name in ("tests", "failures", "skipped")} == {
        "tests": "5",
        "failures": "1",
        "skipped": "2",
    }
    printed = " ".join(suite.find("system-out").text.split())
    assert "4 cases in common" in printed
    assert "+/−/=" in printed


def test_a_case_without_a_verdict_on_a_side_has_no_state(store):
    base, head = run_of(store, ["skip", 0.9]), run_of(store, [0.9, 0.1])
    assert [(one.case, one.state) for one in tv.compare(base, head).moved_cases.changes] == [
        ("q1", "unclear")
    ]
    assert states_of([(0, 0, 1, 1), (3, 3, 0, 0), (0, 0, 0, 0)]) == [None] * 3
