"""Paired scores are what plain dictionaries and NumPy make of the same evaluations, in little memory."""

import copy
import pickle
import tracemalloc
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.runs.comparing.told_runs import compared
from trivium.metrics.evaluation import Composite
from trivium.runs.comparing.pairing import (
    ABSENT,
    WHOLE,
    Methods,
    Numbers,
    Pairing,
    ScoredRun,
    code_of,
    numbers_of,
    repeats_of,
)
from trivium.store.records import EvaluationOutline, ScoreOutline
from trivium.suites.settings import Settings

REDUCED = {
    "mean": np.mean,
    "best": np.max,
    "worst": np.min,
    "majority": lambda values: max(sorted(set(values)), key=list(values).count),
}
METRIC, STATUSES = "told", ("ok", "ok", "ok", "error", "abstained", "skipped")

score = st.tuples(st.sampled_from(STATUSES), st.sampled_from((0.0, 0.25, 0.5, 1.0)), st.sampled_from("ab"))
attempts = st.lists(
    st.tuples(
        st.sampled_from([f"q{at}" for at in range(6)]), st.dictionaries(st.integers(0, 3), score, min_size=1)
    ),
    unique_by=lambda each: each[0],
    max_size=6,
)
"""A run: cases in any order, each with the scores of its repeats."""


def scored(cases, methods, **settings):
    """The run as it is read from a store."""

    def outlines():
        for position, (case, repeats) in enumerate(cases):
            for repeat, (status, value, method) in sorted(repeats.items()):
                known = value if status == "ok" else None
                one = ScoreOutline(tier="text", value=known, status=status, method=method)
                yield (
                    position,
                    EvaluationOutline(
                        case=case, repeat=repeat, scores={METRIC: one}, composite=Composite(value=known)
                    ),
                )

    return ScoredRun(Settings(metrics=("jaccard",), **settings), outlines(), methods)


def table(cases):
    return {(case, repeat): score for case, repeats in cases for repeat, score in repeats.items()}


def ends(entry, value):
    """Where the value may lie: itself, anywhere if it is missing, nowhere if it was skipped."""
    status = "error" if entry is None else entry[0]
    return value if status == "ok" else None if status == "skipped" else "missing"


@given(base=attempts, head=attempts, reduce=st.sampled_from(sorted(REDUCED)), same_method=st.booleans())
def test_values_by_case_and_counts_are_those_computed_plainly(base, head, reduce, same_method):
    methods = Methods()
    left, right = scored(base, methods), scored(head, methods, reduce=reduce)
    ours, theirs = table(base), table(head)
    both = [key for key in theirs if key in ours]
    lacking = [*(key for key in theirs if key not in ours), *(key for key in ours if key not in theirs)]
    if not (base and head):
        return
    clusters = {case: case for case, _ in [*base, *head]}
    codes = np.array([code_of(methods.cases[case], repeat) for case, repeat in lacking], np.int64)
    pairing = Pairing(left, right, clusters=clusters, absent=codes)
    found = pairing.reduced(METRIC, same_method=same_method)

    cases = list(dict.fromkeys(case for case, _ in sorted_as(both, head) + sorted_as(lacking, head, base)))
    pairs: dict[str, list[tuple[float, float]]] = {}
    worst: dict[str, list[tuple[float, float]]] = {}
    one_sided = missing = 0
    unlike: Counter[tuple[str, str]] = Counter()
    for key in [*both, *lacking]:
        before, after = ours.get(key), theirs.get(key)
        sides = ends(before, before and before[1]), ends(after, after and after[1])
        values = all(isinstance(side, float) for side in sides)
        if values and before[2] != after[2]:
            unlike[before[2], after[2]] += 1
            if same_method:
                continue
        if values:
            pairs.setdefault(key[0], []).append(sides)
        if None not in sides:
            missing += not values
            low = tuple(
                end if side == "missing" else side for side, end in zip(sides, (1.0, 0.0), strict=True)
            )
            worst.setdefault(key[0], []).append(low)
        elif any(isinstance(side, float) for side in sides):
            one_sided += 1

    def by_case(of, side):
        of = {case: [each[side] for each in of[case]] for case in of}
        return np.array([REDUCED[reduce](of[case]) if case in of else np.nan for case in cases])

    assert found.cases == cases
    np.testing.assert_array_equal(found.base, by_case(pairs, 0))
    np.testing.assert_array_equal(found.head, by_case(pairs, 1))
    assert (found.pairs, found.missing, found.one_sided) == (
        sum(map(len, pairs.values())),
        missing,
        one_sided,
    )
    names = methods.numbers.names
    named = {(names[a], names[b]): count for (a, b), count in found.unlike.items()}
    assert named == dict(unlike)
    assert pairing.attempts == len(both)
    if missing:
        np.testing.assert_array_equal(found.at_worst, [by_case(worst, 0), by_case(worst, 1)])


def sorted_as(keys, *runs):
    """The keys in the order of the runs' rows: of the first run, then of the second."""
    order = [key for run in runs for key in sorted_table(run)]
    return [key for key in dict.fromkeys(order) if key in set(keys)]


def sorted_table(cases):
    return [(case, repeat) for case, repeats in cases for repeat in sorted(repeats)]


@given(attempts, attempts)
def test_rows_are_found_by_case_and_repeat(first, second):
    methods = Methods()
    scored(second, methods)  # has numbered some of the cases before
    one, other = scored(first, methods), scored(second, methods)

    def rows(keys):
        return one.find(
            np.array([code_of(methods.cases[case], repeat) for case, repeat in keys], np.int64)
        ).tolist()

    assert rows(sorted_table(first)) == list(range(one.attempts))
    assert [row == ABSENT for row in rows(table(second))] == [
        key not in table(first) for key in table(second)
    ]
    assert rows([("never seen", 0)]) == [ABSENT]
    assert one.lacking(other).tolist() == [
        code_of(methods.cases[case], repeat)
        for case, repeat in sorted_table(first)
        if (case, repeat) not in table(second)
    ]


@given(attempts, st.sets(st.sampled_from([f"q{at}" for at in range(8)])))
def test_only_the_named_cases_are_paired(cases, only):
    methods = Methods()
    left, right = scored(cases, methods), scored(cases, methods)
    pairing = Pairing(left, right, clusters={case: "one" for case, _ in cases}, only=only)
    assert pairing.cases == [case for case, _ in cases if case in only]
    assert pairing.attempts == sum(len(repeats) for case, repeats in cases if case in only)


def test_cases_are_found_at_their_positions_in_a_suite_with_gaps():
    outlines = [
        (position, EvaluationOutline(case=case, repeat=repeat, scores={}, composite=Composite(value=None)))
        for position, case, repeat in ((2, "b", 0), (2, "b", 1), (5, "a", 0))
    ]
    run = ScoredRun(Settings(metrics=("jaccard",)), outlines, Methods())
    assert list(run.names) == ["b", "a"]
    assert run.positions_of(["a", "b"]).tolist() == [5, 2]


def test_a_code_stands_for_a_case_and_a_repeat():
    numbers = Numbers()
    keys = [("a", 0), ("b", WHOLE), ("a", 2**31), ("b", 0), ("a", WHOLE)]
    codes = np.array([code_of(numbers[case], repeat) for case, repeat in keys])
    assert len(set(codes)) == len(keys)
    named = [numbers.names[number] for number in numbers_of(codes)]
    assert list(zip(named, repeats_of(codes), strict=True)) == keys


def test_a_run_of_known_cases_takes_few_bytes_an_attempt():
    # 8 for the code, 16 for case and position, 3 columns of 12; arrays grow by an eighth beforehand.
    cases = [(f"q{at}", {0: ("ok", 0.5, "a")}) for at in range(5_000)]
    methods = Methods()
    first = scored(cases, methods)
    tracemalloc.start()
    second = scored(cases, methods)
    taken = tracemalloc.get_traced_memory()[0] / len(cases)
    tracemalloc.stop()
    assert first.attempts == second.attempts == len(cases)
    assert taken < 80


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda moved: pickle.loads(pickle.dumps(moved))])
def test_moved_cases_are_copied_without_the_stores_that_are_open(store, copied):
    moved = compared(store, [0.4, 0.9, 0.6], [0.6, 0.1, 0.6]).moved_cases
    again = copied(moved)
    assert again == moved
    assert again.changes == moved.changes
    assert [change.case for change in again.changes] == ["q1", "q0"]


def test_moved_cases_and_their_order_are_those_of_numpy(store):
    rng = np.random.default_rng(11)
    base, head = np.round(rng.uniform(size=(2, 300)), 1)
    moved = compared(store, base.tolist(), head.tolist()).moved_cases
    passes = (head >= 0.5) * 1.0 - (base >= 0.5) * 1.0
    rows = [
        (-abs(passes[at]), passes[at] > 0, -abs(head[at] - base[at]), at)
        for at in range(300)
        if head[at] != base[at]
    ]
    # Cases that changed alike keep the order of the suite.
    assert [change.case for change in moved.changes] == [f"q{at}" for *_, at in sorted(rows)]
    assert all(
        change.values["composite"] == (base[int(change.case[1:])], head[int(change.case[1:])])
        for change in moved.changes
    )
    assert moved.counts()["pass_rate"] == (int((passes > 0).sum()), int((passes < 0).sum()))
    assert moved.better + moved.worse == len(moved) == len(rows)


def test_values_of_two_methods_are_not_compared_whatever_the_methods_are_called():
    methods = Methods()
    runs = [scored([("q0", {0: ("ok", 0.5, name)})], methods) for name in ("any", "other")]
    assert Pairing(*runs, clusters={"q0": "q0"}).reduced(METRIC, same_method=True).unlike.total() == 1
