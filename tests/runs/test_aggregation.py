"""Tests that incremental aggregation gives the same summary as reading the store."""

import json
from contextlib import contextmanager

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import event

import trivium as tv
from tests.runs.suites import TOLD, told_suite, tv_composite
from trivium.store.store import Store

CASES = 40
"""More than are taken in at once."""

stated_values = st.sampled_from(["0.25", "1", "0.1", "0.7", "skip", "no number", None])
"""Values, a score that does not apply, one in error, and a failed attempt."""

attempts = st.lists(
    st.tuples(st.integers(0, CASES - 1), st.integers(0, 2), stated_values),
    min_size=1,
    max_size=90,
    unique_by=lambda one: one[:2],
)


@pytest.fixture
def store(tmp_path):
    with Store(str(tmp_path / "store.db")) as opened:
        yield opened


def recorded(folder, lines):
    path = folder / "outputs.jsonl"
    rows = [
        {"case": f"q{case}", "repeat": repeat}
        | ({"error": "it broke"} if output is None else {"output": output, "seconds": 1.5 + case})
        for case, repeat, output in lines
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def suite_of(**changes):
    groups = {f"q{i}": f"g{i % 7}" for i in range(CASES)}
    composite = tv_composite({"told": 1.0, "jaccard": 0.5, "time": 0.25})
    return told_suite(CASES, groups=groups, metrics=(TOLD, "jaccard", "time"), composite=composite, **changes)


@contextmanager
def evaluations_read(store):
    """The statements in the meantime that read evaluations."""
    read = []

    def note(_connection, _cursor, statement, *_):
        if statement.startswith("SELECT") and "evaluations.body" in statement:
            read.append(statement)

    event.listen(store.engine, "before_cursor_execute", note)
    yield read
    event.remove(store.engine, "before_cursor_execute", note)


def as_told(summary):
    return msgspec.json.encode(msgspec.to_builtins(summary))


@given(
    lines=attempts,
    in_order=st.booleans(),
    reduce=st.sampled_from(["mean", "best", "worst", "majority"]),
    failed=st.sampled_from(["zero", "skip"]),
)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_summary_is_the_one_that_is_read_back(tmp_path, store, lines, in_order, reduce, failed):
    suite = suite_of(repeats=3, reduce=reduce, failed_attempts=failed)
    outputs = recorded(tmp_path, sorted(lines, key=lambda one: one[:2]) if in_order else lines)
    run = tv.evaluate(suite, outputs=outputs, store=store)
    assert as_told(run.record.summary) == as_told(run.summary())


def test_evaluations_in_suite_order_are_not_read_back(tmp_path, store):
    outputs = recorded(tmp_path, [(case, 0, "0.5") for case in range(CASES)])
    with evaluations_read(store) as read:
        tv.evaluate(suite_of(), outputs=outputs, store=store)
    assert read == []


@pytest.mark.parametrize(
    "lines",
    [[(3, 0, "1"), (2, 0, "1")], [(2, 1, "1"), (2, 0, "1")], [(2, 0, "1"), (3, 0, "1"), (2, 1, "1")]],
    ids=["cases turned round", "repeats turned round", "a repeat that comes later"],
)
def test_evaluations_in_another_order_are_read_back(tmp_path, store, lines):
    with evaluations_read(store) as read:
        tv.evaluate(suite_of(repeats=2), outputs=recorded(tmp_path, lines), store=store)
    assert len(read) == 1


def test_evaluations_from_before_a_resume_count(tmp_path, store):
    suite = suite_of()
    whole = tv.evaluate(suite, outputs=recorded(tmp_path, [(i, 0, "0.7") for i in range(CASES)]), store=store)
    again = Store(str(tmp_path / "again.db"))
    part = tv.evaluate(suite, outputs=recorded(tmp_path, [(i, 0, "0.7") for i in range(9)]), store=again)
    again.finish(part.record, "interrupted", summary=None)
    outputs = recorded(tmp_path, [(i, 0, "0.7") for i in range(CASES)])
    done = tv.evaluate(suite, outputs=outputs, store=again, resume=part.id)
    assert msgspec.structs.replace(done.summary(), run="") == msgspec.structs.replace(whole.summary(), run="")
    assert as_told(done.record.summary) == as_told(done.summary())
    again.close()


def test_a_figure_that_json_does_not_have_is_none(store):
    rewards = {f"q{i}": float("nan") if i % 2 else 0.75 for i in range(6)}
    suite = told_suite(6, metrics=("success",), composite=tv_composite({"success": 1.0}))
    suite = suite.with_settings(success={"reward": 0.5}, passed=None, limits={"attempts_at_once": 1})
    run = tv.evaluate(suite, agent=lambda asked: {"output": "1", "reward": rewards[asked]}, store=store)
    assert run.summary().metrics["success"].raw_mean == 0.75
    assert as_told(run.record.summary) == as_told(run.summary())
