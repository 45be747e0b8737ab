"""The answer against the run before: that of a comparison, kept until a run is written again."""

import pytest

import trivium as tv
from trivium.reports.before import answer_before
from trivium.runs.comparing.compare import compare
from trivium.runs.run import Run
from trivium.store.browsing.before import before, forget_answers, keep_answer
from trivium.store.store import Store

CASES = [{"id": f"c{n}", "input": str(n), "references": [str(n)]} for n in range(12)]


def evaluated(store, good, *, name="sums", **suite):
    def agent(question: str) -> str:
        return question if int(question) < good else "no"

    settings = {"metrics": ["success"], "success": {"exact": True}} | suite
    return tv.evaluate({"name": name, "cases": CASES} | settings, agent=agent, store=store)


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "store.db") as opened:
        yield opened


def test_it_is_the_answer_of_the_comparison_with_the_newest_earlier_run_of_the_suite(store):
    runs = [evaluated(store, 2), evaluated(store, 12, name="other"), evaluated(store, 12)]
    answer = answer_before(store, runs[2].id)
    found = compare(runs[0], runs[2])
    assert (answer.base, answer.verdict) == (runs[0].id, found.verdict) == (runs[0].id, "better")
    assert answer.answer == found.answer == "pass"
    assert answer.delta == found.metrics[answer.metric].delta == pytest.approx(10 / 12)
    assert (answer.low, answer.high) == found.metrics[answer.metric].ci95
    assert [answer_before(store, each.id) for each in runs[:2]] == [None, None]


def test_it_is_kept_until_one_of_the_runs_is_written_again(store):
    first, second = evaluated(store, 2), evaluated(store, 12)
    assert before(store, [second.id])[second.id].answer is None
    answer = answer_before(store, second.id)
    assert before(store, [second.id])[second.id].answer == answer
    record = store.run(first.id)
    store.finish(record, "done", summary=record.summary)
    assert before(store, [second.id])[second.id].answer is None


def test_what_was_kept_is_not_computed_again(store):
    first, second = evaluated(store, 2), evaluated(store, 12)
    answer_before(store, second.id)
    with store.engine.begin() as connection:
        connection.exec_driver_sql("DELETE FROM evaluations")
    assert answer_before(store, second.id).base == first.id


def test_it_is_forgotten_when_either_run_is_confirmed(store):
    first, second = evaluated(store, 2), evaluated(store, 12)
    for forgotten in (first, second):
        pair = before(store, [second.id])[second.id]
        keep_answer(store, pair, answer_before(store, second.id))
        forget_answers(store, [forgotten.id])
        assert before(store, [second.id])[second.id].answer is None


def test_runs_that_cannot_be_compared_say_so(store):
    evaluated(store, 2)
    other = evaluated(store, 2, success={"contains": "any"})
    answer = answer_before(store, other.id)
    assert answer.verdict is None
    assert "do not mean the same" in answer.words


def test_an_unfinished_run_is_neither_compared_nor_compared_with(store):
    first, second, third = (evaluated(store, 2) for _ in range(3))
    store.finish(store.run(second.id), "interrupted", summary=None)
    assert answer_before(store, second.id) is None
    assert answer_before(store, third.id).base == first.id


def test_a_store_that_is_only_read_keeps_nothing(tmp_path):
    with Store(tmp_path / "store.db") as opened:
        first, second = evaluated(opened, 2), evaluated(opened, 12)
    with Store(tmp_path / "store.db", read_only=True) as opened:
        assert answer_before(opened, second.id).base == first.id
        assert before(opened, [second.id])[second.id].answer is None
        assert Run.load(second.id, store=opened).id == second.id
