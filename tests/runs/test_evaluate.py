"""Tests evaluation from the suite to the stored summary, for every source of attempts."""

import asyncio
import json
import signal
import threading

import pandas as pd
import pytest

import trivium as tv
from tests.runs.suites import Says, told_suite
from trivium.errors import InputError, OutputsError, StoreError, SuiteError
from trivium.store.store import Store
from trivium.suites.settings import Limits


@pytest.fixture
def store(tmp_path):
    with Store(str(tmp_path / "store.db")) as opened:
        yield opened


def test_every_case_is_asked_once_for_each_repeat(store):
    agent = Says({f"q{i}": 0.5 for i in range(5)})
    run = tv.evaluate(told_suite(5, repeats=3), agent=agent, store=store)
    assert sorted(agent.asked) == [(f"q{i}", repeat) for i in range(5) for repeat in range(3)]
    assert [(one.case, one.repeat) for one in run.attempts()] == sorted(agent.asked)
    assert run.record.state == "done"


def test_it_works_inside_a_running_event_loop(store):
    async def notebook():
        return tv.evaluate(told_suite(2), agent=Says({"q0": 1, "q1": 0}), store=store)

    assert asyncio.run(notebook()).summary().pass_rate.value == 0.5


def test_the_async_face_asks_coroutines(store):
    async def agent(question):
        return "1"

    run = asyncio.run(tv.evaluate_async(told_suite(2), agent=agent, store=store))
    assert run.summary().passed == 2


def test_a_failing_attempt_is_counted_and_the_run_continues(store):
    answers = {"q0": 1, "q1": ValueError("no idea"), "q2": 1}
    summary = tv.evaluate(told_suite(3), agent=Says(answers), store=store).summary()
    assert summary.errors == {"attempts": 1, "scores": 0, "judgements": 0}
    assert (summary.passed, summary.failed, summary.attempts) == (2, 1, 3)
    assert summary.failures[0].why == "ValueError: no idea"


def test_a_metric_that_raises_costs_that_score_alone(store):
    summary = tv.evaluate(told_suite(2), agent=Says({"q0": "not a number", "q1": 1}), store=store).summary()
    assert summary.errors == {"attempts": 0, "scores": 1, "judgements": 0}
    assert summary.metrics["told"].status == {"error": 1, "ok": 1}
    assert any("could not convert string to float" in warning for warning in summary.warnings)


def test_scoring_a_stored_run_again_calls_no_agent(store):
    agent = Says({f"q{i}": i / 4 for i in range(5)})
    suite = told_suite(5)
    first = tv.evaluate(suite, agent=agent, store=store)
    asked = list(agent.asked)
    again = tv.evaluate(suite, attempts_of=first.id, metrics=["jaccard"], store=store)
    assert agent.asked == asked
    assert list(again.summary().metrics) == ["jaccard"]
    assert [one.output for one in again.attempts()] == [one.output for one in first.attempts()]
    third = tv.evaluate(suite, attempts_of=again.id, store=store)
    assert third.summary().metrics["told"].mean == first.summary().metrics["told"].mean


def test_recorded_outputs_take_the_same_path(tmp_path, store):
    outputs = tmp_path / "outputs.jsonl"
    outputs.write_text("".join(json.dumps({"case": f"q{i}", "output": "1"}) + "\n" for i in range(3)))
    asked = tv.evaluate(told_suite(3), agent=lambda question: "1", store=store)
    read = tv.evaluate(told_suite(3), outputs=outputs, store=store)
    assert [one.scores for one in read.evaluations()] == [one.scores for one in asked.evaluations()]


def test_outputs_that_are_not_there_are_missing(tmp_path, store):
    outputs = tmp_path / "outputs.jsonl"
    outputs.write_text('{"case": "q1", "output": "1"}\n')
    summary = tv.evaluate(told_suite(3), outputs=outputs, store=store).summary()
    assert (summary.attempts, summary.total_tests, summary.missing) == (1, 3, 2)
    assert summary.metrics["told"].coverage == pytest.approx(1 / 3)
    assert summary.metrics["told"].bounds == pytest.approx((1 / 3, 1.0))


class TestPythonObjects:
    """A suite and outputs that are in memory need no file."""

    QUESTIONS = ({"input": "2 + 2?", "references": ["4"]}, {"input": "3 + 4?", "references": ["7"]})

    def test_a_list_of_cases_is_evaluated(self, store):
        run = tv.evaluate(list(self.QUESTIONS), agent=lambda _: "4", metrics=["jaccard"], store=store)
        assert run.summary().metrics["jaccard"].mean == 0.5

    def test_a_frame_and_a_mapping_are_the_same_suite(self, store):
        runs = [
            tv.evaluate(suite, agent=lambda _: "4", metrics=["jaccard"], store=store)
            for suite in (pd.DataFrame(self.QUESTIONS), {"cases": self.QUESTIONS}, self.QUESTIONS)
        ]
        assert len({run.record.suite for run in runs}) == 1

    @pytest.mark.parametrize("made", [list, iter, pd.DataFrame])
    def test_outputs_may_be_mappings(self, made, store):
        rows = [{"case": "0", "output": "4", "seconds": 2.0}, {"case": "1", "output": "5"}]
        run = tv.evaluate(self.QUESTIONS, outputs=made(rows), metrics=["jaccard", "time"], store=store)
        assert [one.output for one in run.attempts()] == ["4", "5"]
        assert [one.seconds for one in run.attempts()] == [2.0, None]
        assert run.summary().metrics["jaccard"].mean == 0.5
        assert run.record.provenance.agent == "outputs in memory"

    def test_attempts_of_a_run_are_outputs(self, store):
        run = tv.evaluate(self.QUESTIONS, agent=lambda _: "4", metrics=["jaccard"], store=store)
        again = tv.evaluate(self.QUESTIONS, outputs=run.attempts(), metrics=["jaccard"], store=store)
        assert [one.scores for one in again.evaluations()] == [one.scores for one in run.evaluations()]

    @pytest.mark.parametrize(
        ("outputs", "message"),
        [
            (3, "outputs: found the number 3, expected a file, a prefixed source, a list of mappings"),
            ({"case": "0"}, "outputs: found a mapping"),
            ([], "outputs: holds no output"),
            (["4"], r'outputs\[0\]: found the text "4", expected a mapping with keys case, repeat, output'),
            ([{"case": "0", "out": 1}], r'outputs\[0\]: unknown key "out". Did you mean "output"'),
            ([{"case": "2"}], r'outputs\[0\]: the suite has no case "2"'),
            ([{"case": "0"}] * 2, r'outputs\[1\]: duplicate of outputs\[0\]: case "0", repeat 0'),
            ([{"case": "0", "output": len}], r"outputs\[0\]: is no JSON value"),
            ([{"case": "0", "trace": {"file": "x"}}], r'outputs\[0\]: trace.file: there is no file "x"'),
        ],
    )
    def test_wrong_outputs_are_one_plain_message(self, outputs, message, store):
        with pytest.raises(OutputsError, match=message):
            tv.evaluate(self.QUESTIONS, outputs=outputs, store=store)

    def test_people_are_left_out_of_a_source_alone(self, store):
        with pytest.raises(OutputsError, match="leave_one_out needs a source"):
            tv.evaluate(self.QUESTIONS, outputs=[{"case": "0"}], leave_one_out=True, store=store)

    def test_what_is_no_suite_is_one_plain_message(self, store):
        with pytest.raises(SuiteError, match="suite: found the number 3, expected a suite, a file"):
            tv.evaluate(3, agent=len, store=store)


class TestResuming:
    def test_asks_only_what_is_not_there(self, store):
        suite = told_suite(6, limits=Limits(attempts_at_once=1))
        run_id = _interrupted(suite, store)
        before = set(store.attempt_keys(store.run(run_id)))
        agent = Says({f"q{i}": 1 for i in range(6)})
        run = tv.evaluate(suite, agent=agent, store=store, resume=run_id)
        assert {(f"q{position}", repeat) for position, repeat in before}.isdisjoint(agent.asked)
        assert len(before) + len(agent.asked) == 6
        assert run.summary().passed == 6

    def test_a_finished_run_asks_nothing_more(self, store):
        suite = told_suite(2)
        run = tv.evaluate(suite, agent=Says({"q0": 1, "q1": 1}), store=store)
        again = Says({})
        assert tv.evaluate(suite, agent=again, store=store, resume=run.id).id == run.id
        assert again.asked == []

    def test_with_other_cases_is_refused(self, store):
        run = tv.evaluate(told_suite(2), agent=Says({"q0": 1, "q1": 1}), store=store)
        with pytest.raises(InputError, match="its cases or their ids have changed since run"):
            tv.evaluate(told_suite(3), agent=Says({}), store=store, resume=run.id)

    def test_with_other_settings_is_refused(self, store):
        run = tv.evaluate(told_suite(2), agent=Says({"q0": 1, "q1": 1}), store=store)
        with pytest.raises(InputError, match=r"its settings have changed since run .* began: seed$"):
            tv.evaluate(told_suite(2, seed=7), agent=Says({}), store=store, resume=run.id)
        slower = told_suite(2, limits={"attempts_at_once": 1, "seconds": 5})
        with pytest.raises(InputError, match=r"began: limits.seconds$"):
            tv.evaluate(slower, agent=Says({}), store=store, resume=run.id)

    def test_with_another_concurrency_continues(self, store):
        run = tv.evaluate(told_suite(2), agent=Says({"q0": 1, "q1": 1}), store=store)
        slower = told_suite(2, limits={"attempts_at_once": 1})
        assert tv.evaluate(slower, agent=Says({}), store=store, resume=run.id).id == run.id

    def test_with_another_agent_or_outputs_is_refused(self, store, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        (tmp_path / "agents.py").write_text(
            "def one(question):\n    return '1'\n\n\ndef two(question):\n    return '0'\n"
        )
        (tmp_path / "outputs.jsonl").write_text('{"case": "q0", "output": "1"}\n')
        run = tv.evaluate(told_suite(2), agent="agents.py:one", store=store)
        for other in ({"agent": "agents.py:two"}, {"outputs": "outputs.jsonl"}):
            with pytest.raises(InputError, match=rf"run {run.id} is of agents\.py:one: nothing else can"):
                tv.evaluate(told_suite(2), **other, store=store, resume=run.id)
        assert tv.evaluate(told_suite(2), agent="agents.py:one", store=store, resume=run.id).id == run.id


def _interrupted(suite, store) -> str:
    """A run that Ctrl-C ended after three attempts."""
    ready = threading.Event()

    async def agent(question):
        if question == "q3":
            ready.set()
            await asyncio.Event().wait()
        return "1"

    def press():
        ready.wait()
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    presser = threading.Thread(target=press)
    presser.start()
    with pytest.raises(KeyboardInterrupt):
        tv.evaluate(suite, agent=agent, store=store)
    presser.join()
    run = store.run()
    assert run.state == "interrupted"
    assert len(set(store.attempt_keys(run))) == 3
    return run.id


def test_an_unknown_metric_names_the_nearest(store):
    with pytest.raises(SuiteError, match='no metric is called "jacard". Did you mean "jaccard"'):
        tv.evaluate(told_suite(1, metrics=("jacard",)), agent=Says({}), store=store)


def test_exactly_one_source_of_attempts_is_required(store):
    for options in ({}, {"agent": len, "outputs": "x"}):
        with pytest.raises(InputError, match="give exactly one of"):
            tv.evaluate(told_suite(1), store=store, **options)


def test_another_suites_attempts_cannot_be_scored(store):
    run = tv.evaluate(told_suite(2), agent=Says({"q0": 1, "q1": 1}), store=store)
    with pytest.raises(InputError, match="differ from those of run"):
        tv.evaluate(told_suite(3), attempts_of=run.id, store=store)


def test_a_store_that_fails_ends_the_run_with_what_was_stored(tmp_path):
    from sqlalchemy import event

    store = Store(str(tmp_path / "store.db"))
    suite = told_suite(40, limits=Limits(attempts_at_once=2))

    inserted, kept = threading.Event(), threading.Event()

    def agent(question):
        if question == "q0":
            return "1"
        kept.wait()  # or both would be in flight together
        return "1" + " " * 2_000_000

    def note(connection, cursor, statement, *_):
        if statement.startswith("INSERT INTO attempts"):
            inserted.set()

    store.save_cases(suite.digest, suite)
    event.listen(store.engine, "after_cursor_execute", note)
    event.listen(store.engine, "commit", lambda _: kept.set() if inserted.is_set() else None)
    event.listen(store.engine, "connect", lambda c, _: c.execute("PRAGMA max_page_count=100"))
    store.engine.dispose()
    with pytest.raises(StoreError, match="the disk is full"):
        tv.evaluate(suite, agent=agent, store=store)
    store.close()
    with Store(str(tmp_path / "store.db")) as again:
        assert (0, 0) in set(again.attempt_keys(again.run()))


def test_the_seed_of_an_attempt_is_its_own_and_the_same_in_every_run(store):
    def agent(question, *, seed):
        seeds.append((question, seed))
        return "1"

    runs = []
    for _ in range(2):
        seeds: list[tuple[str, int]] = []
        tv.evaluate(told_suite(4), agent=agent, store=store)
        runs.append(sorted(seeds))
    assert runs[0] == runs[1]
    assert len({seed for _, seed in runs[0]}) == 4


def test_provenance_names_versions_seed_and_metrics(store):
    run = tv.evaluate(told_suite(1), agent=Says({"q0": 1}), store=store)
    assert run.provenance.trivium == tv.__version__
    assert run.provenance.seed == 42
    assert run.provenance.metrics == {"told": "1"}
    assert run.provenance.agent == "Says"
    assert run.provenance.packages["numpy"]


def test_progress_covers_every_attempt(store):
    class Watch:
        def __init__(self):
            self.calls = []

        def begin(self, *, run, total, already):
            self.calls.append(("begin", total, already))

        def advance(self, *, done, failed):
            self.calls.append((done, failed))

        def end(self):
            self.calls.append("end")

    watch = Watch()
    answers = {"q0": 1, "q1": ValueError("x"), "q2": 1}
    tv.evaluate(told_suite(3), agent=Says(answers), store=store, progress=watch)
    assert watch.calls[0] == ("begin", 3, 0)
    assert watch.calls[-1] == "end"
    assert [sum(column) for column in zip(*watch.calls[1:-1], strict=True)] == [3, 1]
