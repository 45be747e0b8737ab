"""Attempts and passes of each case, over repeats and earlier runs of the same version."""

from collections import Counter

import numpy as np
import pytest

import trivium as tv
from tests.runs.suites import Says, told_suite
from trivium.runs.comparing.earlier_runs import CaseTotals, earlier_runs
from trivium.runs.comparing.pairing import Methods, Pairing, ScoredRun
from trivium.store.store import Store


def run_of(store, answers, version=None, *, suite=None, **options):
    says = Says({f"q{i}": each for i, each in enumerate(answers)})
    suite = suite or told_suite(len(answers), **options)
    return tv.evaluate(suite, agent=says, store=store, version=version)


def counts_of(base, head, name="pass_rate"):
    methods = Methods()
    left, right = ScoredRun.of(base, methods), ScoredRun.of(head, methods)
    pairing = Pairing(left, right, clusters={case: case for case in right.names})
    return CaseTotals(pairing, methods, name).of_runs(left, right, earlier_runs(base, head))


def test_all_attempts_of_a_version_count_and_no_others(store):
    rng = np.random.default_rng(1)
    told, runs = {"a": Counter(), "b": Counter()}, {}
    for version, repeats in (("b", 1), ("a", 2), ("a", 3), ("b", 2), ("a", 2), ("b", 3)):
        answers = rng.uniform(size=(4, repeats)).round(3)
        runs[version] = run_of(store, answers.tolist(), version, repeats=repeats)
        for case, values in enumerate(answers):
            told[version].update({(case, "n"): repeats, (case, "passed"): int((values >= 0.5).sum())})
            told[version].update({(case, "sum"): values.sum(), (case, "squares"): (values**2).sum()})
    run_of(store, [1.0] * 4)  # of no version
    run_of(store, [1.0] * 4, "c")
    for name in ("pass_rate", "told", "composite"):
        found = counts_of(runs["a"], runs["b"], name)
        for side, version in ((found.base, "a"), (found.head, "b")):
            expected = told[version]
            assert side.attempts.tolist() == [expected[case, "n"] for case in range(4)]
            if name == "pass_rate":
                assert side.passes.tolist() == [expected[case, "passed"] for case in range(4)]
            else:
                assert side.sums.tolist() == pytest.approx([expected[case, "sum"] for case in range(4)])
                squares = [expected[case, "squares"] for case in range(4)]
                assert side.squares.tolist() == pytest.approx(squares)
        assert found.base.earlier.tolist() == [5] * 4
        assert found.head.earlier.tolist() == [3] * 4
    assert found.cases == ["q0", "q1", "q2", "q3"]


def test_failed_attempts_count_as_not_passed_or_not_at_all(store):
    for failed, passes, attempts in (("zero", 1, 2), ("skip", 1, 1)):
        runs = [
            run_of(store, [[0.9, ValueError("no")]], f"{failed} {name}", repeats=2, failed_attempts=failed)
            for name in ("a", "a", "b")
        ]
        found = counts_of(runs[1], runs[2])
        assert (found.base.passes[0], found.base.attempts[0]) == (2 * passes, 2 * attempts)
        assert (found.head.passes[0], found.head.attempts[0]) == (passes, attempts)


def test_attempts_that_are_scored_again_count_once(store):
    first = run_of(store, [0.9, 0.1], "a")
    again = tv.evaluate(told_suite(2), attempts_of=first.id, store=store)
    head = run_of(store, [0.9, 0.1], "b")
    assert again.provenance.version == "a"
    for base in (first, again):
        assert counts_of(base, head).base.attempts.tolist() == [1, 1]


def test_nothing_is_pooled_of_two_runs_of_one_version_or_of_none(store):
    for version in ("a", None):
        runs = [run_of(store, [0.9], version) for _ in range(4)]
        assert counts_of(*runs[2:]).base.attempts.tolist() == [1]


def test_runs_that_mean_something_else_or_came_later_are_left_out(store):
    earlier = run_of(store, [0.9], "a")
    run_of(store, [0.9], "a", passed={"metric": "told", "at_least": 0.95})
    base, head = run_of(store, [0.1], "a"), run_of(store, [0.1], "b")
    run_of(store, [0.9], "a")
    assert [run.id for run in earlier_runs(base, head).base] == [earlier.id]


def test_cases_are_told_by_their_ids_when_the_suite_has_grown(store):
    def suite(*names):
        cases = [tv.Case(id=name, input=name, references=("r",)) for name in names]
        return tv.Suite(name="told", cases=cases, settings=told_suite(1).settings)

    run_of(store, [0.9, 0.1, 0.1], "a", suite=suite("q2", "q1", "q0"))
    base, head = (run_of(store, [0.1, 0.1, 0.1], name, suite=suite("q0", "q2")) for name in "ab")
    found = counts_of(base, head)
    assert found.cases == ["q0", "q2"]
    assert found.base.passes.tolist() == [1, 0]
    assert found.base.attempts.tolist() == [2, 2]


def test_runs_of_two_stores_count_the_earlier_runs_of_their_own(store, tmp_path):
    with Store(str(tmp_path / "other.db")) as other:
        for place in (store, other):
            run_of(place, [0.9], "a")
            run_of(place, [0.1], "b")
        base, head = run_of(store, [0.9], "a"), run_of(other, [0.1], "b")
        found = counts_of(base, head)
    assert (found.base.attempts[0], found.head.attempts[0]) == (2, 2)
