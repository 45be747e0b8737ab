"""Which cases moved, in which order, and what is read of them."""

import msgspec
import pytest

import trivium as tv
from tests.runs.comparing.told_runs import compared, run_of
from trivium.errors import StoreError
from trivium.runs.comparing import moved_cases as module


def test_no_case_moved_between_equal_runs(store):
    moved = compared(store, [0.5, 0.6, 0.7], [0.5, 0.6, 0.7]).moved_cases
    assert (len(moved), list(moved), moved.compared, moved.better, moved.worse) == (0, [], 3, 0, 0)


def test_cases_that_pass_or_no_longer_pass_come_first_and_worse_before_better(store):
    # Passed from 0.5: q0 and q3 cross it. Of the others q1 changes most, q4 not at all.
    base, head = [0.4, 0.1, 0.8, 0.7, 0.9], [0.6, 0.45, 0.7, 0.3, 0.9]
    moved = compared(store, base, head).moved_cases
    assert [change.case for change in moved.changes] == ["q3", "q0", "q1", "q2"]
    assert [change.by for change in moved.changes] == ["pass_rate", "pass_rate", "composite", "composite"]
    assert [change.better for change in moved.changes] == [False, True, True, False]
    assert (moved.better, moved.worse, moved.compared) == (2, 2, 5)
    assert moved.counts() == {"pass_rate": (1, 1), "composite": (1, 1)}
    assert moved.changes[0].values == {"pass_rate": (1.0, 0.0), "composite": (0.7, 0.3)}


def test_a_metric_with_a_gate_moves_a_case_on_its_own(store):
    metric = "tests.runs.suites:Told"
    gated = {"metrics": (metric, "jaccard"), "composite": None, "gates": {"jaccard": tv_gate()}}
    del gated["composite"]
    suite = {key: value for key, value in gated.items() if key != "metrics"}
    comparison = compared(store, [0.5, 0.6], [0.6, 0.6], settings={**suite, "metrics": gated["metrics"]})
    assert comparison.moved_cases.by == ("pass_rate", "composite", "jaccard")


def tv_gate():
    from trivium.suites.settings import Gate

    return Gate(at_least=0.1)


def test_a_moved_case_has_its_texts_and_the_reason(store):
    (moved,) = compared(store, [0.7, 0.6], [0.2, 0.6]).moved_cases
    assert (moved.case.id, moved.case.input, moved.case.references) == ("q0", "q0", ("r",))
    assert (moved.base.attempt.output, moved.head.attempt.output) == ("0.7", "0.2")
    assert (moved.base.evaluation.passed, moved.head.evaluation.passed) == (True, False)
    assert moved.base.why is None
    assert moved.head.why == "told 0.200 is under 0.5"


def test_of_several_repeats_the_one_that_changed_most_is_read(store):
    settings = {"repeats": 3}
    comparison = compared(store, [[0.9, 0.9, 0.1]], [[0.9, 0.2, 0.3]], settings=settings)
    (moved,) = comparison.moved_cases
    assert (moved.repeats, moved.base.attempt.repeat, moved.head.attempt.repeat) == (3, 1, 1)


def test_cases_are_found_by_name_where_suites_differ_in_order(store):
    base = run_of(store, [0.9, 0.1, 0.8])
    cases = [tv.Case(id=name, input=name, references=("r",)) for name in ("new", "q2", "q0")]
    from tests.runs.suites import Says, told_suite

    suite = tv.Suite(name="told", cases=cases, settings=told_suite(1).settings)
    head = tv.evaluate(suite, agent=Says({"new": 1.0, "q2": 0.1, "q0": 0.9}), store=store)
    (moved,) = tv.compare(base, head).moved_cases
    assert (moved.case.id, moved.base.attempt.output, moved.head.attempt.output) == ("q2", "0.8", "0.1")


def test_cases_are_read_a_few_at_a_time_and_only_when_used(store, monkeypatch):
    monkeypatch.setattr(module, "READ_AT_ONCE", 4)
    moved = compared(store, [0.9] * 10, [0.1] * 10).moved_cases
    asked = []
    views = type(store).views

    def counted(self, run, **options):
        asked.append(len(options["positions"]))
        return views(self, run, **options)

    monkeypatch.setattr(type(store), "views", counted)
    assert len(moved) == 10
    assert moved[-1].case.id == "q9"
    assert [each.case.id for each in moved[2:4]] == ["q2", "q3"]
    assert asked == [1, 1, 2, 2]
    asked.clear()
    cases = iter(moved)
    assert [next(cases).case.id for _ in range(4)] == ["q0", "q1", "q2", "q3"]
    assert asked == [4, 4]
    assert [each.case.id for each in cases] == [f"q{at}" for at in range(4, 10)]
    assert asked == [4, 4, 4, 4, 2, 2]


def test_a_comparison_read_from_json_knows_the_changes_but_not_the_texts(store):
    comparison = compared(store, [0.7, 0.6], [0.2, 0.6])
    again = msgspec.json.decode(msgspec.json.encode(comparison), type=type(comparison))
    assert again.moved_cases == comparison.moved_cases
    with pytest.raises(StoreError, match="the texts of these cases are unknown"):
        list(again.moved_cases)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames_have_a_row_a_case_with_texts_and_values(store, library):
    pytest.importorskip(library)
    moved = compared(store, [0.4, 0.9, 0.6], [0.6, 0.1, 0.6]).moved_cases
    frame = getattr(moved, f"to_{library}")()
    columns = {name: list(frame[name]) for name in frame.columns}
    assert columns["case"] == ["q1", "q0"]
    assert columns["better"] == [False, True]
    assert columns["head_output"] == ["0.1", "0.6"]
    assert columns["reference"] == ["r", "r"]
    assert columns["base_passed"] == [True, False]
    assert columns["head_composite"] == [0.1, 0.6]
    assert columns["head_why"][0] == "told 0.100 is under 0.5"
    empty = compared(store, [0.4], [0.4]).moved_cases
    assert len(getattr(empty, f"to_{library}")()) == 0


def test_runs_that_share_no_repeat_of_a_case_show_the_first_of_each(store):
    base, head = run_of(store, [0.9]), run_of(store, [0.1])
    (moved,) = tv.compare(base, head).moved_cases
    sides = {0: (moved.case, moved.base)}, {2: (moved.case, moved.head), 1: (moved.case, moved.base)}
    shown = module._moved_case(moved.change, *sides)
    assert (shown.base, shown.head, shown.repeats) == (moved.base, moved.base, 0)


@pytest.mark.parametrize("lacks", ["base", "head"])
def test_a_case_that_a_run_has_no_attempt_of_did_not_move_whatever_earlier_runs_show(store, lacks):
    from tests.runs.suites import told_suite

    def run(version, answers):
        outputs = [{"case": f"q{at}", "output": each} for at, each in enumerate(answers) if each is not None]
        return tv.evaluate(told_suite(3), outputs=outputs, store=store, version=version)

    for _ in range(3):  # together they show that q2 broke
        run("a", ["0.9", "0.9", "0.9"])
        run("b", ["0.9", "0.1", "0.1"])
    answers = {"base": ["0.9", "0.9", "0.9"], "head": ["0.9", "0.1", "0.1"]}
    answers[lacks][2] = None
    moved = tv.compare(run("a", answers["base"]), run("b", answers["head"])).moved_cases
    assert [(each.case.id, each.state) for each in moved] == [("q1", "broke")]
    assert moved.states["broke"] == 1
