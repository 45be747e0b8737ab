"""Runs that hold further attempts at some cases of another run."""

import msgspec
import pytest

import trivium as tv
from trivium.errors import ComparisonError
from trivium.runs.comparing.earlier_runs import confirming_runs, earlier_runs
from trivium.runs.run import Run
from trivium.store.records import Confirms
from trivium.store.store import Store

CASES = [{"id": f"q{i}", "input": f"{i}?", "references": [f"{i}"]} for i in range(4)]


@pytest.fixture
def store(tmp_path):
    with Store(str(tmp_path / "store.db")) as opened:
        yield opened


def evaluated(store, wrong=()):
    suite = tv.Suite.load(CASES, name="numbers", success={"exact": True}, metrics=["success"])
    outputs = [{"case": c["id"], "output": "no" if c["id"] in wrong else c["references"][0]} for c in CASES]
    return tv.evaluate(suite, outputs=outputs, store=store)


def confirming(store, run, against, *, right=(), state="done", **more):
    """A confirming run of a run, with one attempt at each of all cases."""
    made = evaluated(store, wrong={case["id"] for case in CASES} - set(right)).record
    what = Confirms(run=run.id, against=against.id, budget=made.id, **more)
    new = store.new_run(
        id=store.new_run_id(),
        suite_name=made.suite_name,
        suite=made.suite,
        kind="confirm",
        settings=made.settings,
        provenance=msgspec.structs.replace(made.provenance, confirms=what),
    )
    store.save(
        new, attempts=tuple(store.attempts(made)), evaluations=tuple(store.evaluations(made)), own_cases=False
    )
    store.finish(new, state, summary=made.summary)
    return store.run(new.id)


def test_the_runs_of_this_comparison_that_are_finished_and_count_are_found(store):
    base, head, other = (evaluated(store) for _ in range(3))
    of_base = confirming(store, base, head)
    of_head = [confirming(store, head, base), confirming(store, head, base)]
    confirming(store, head, other)
    confirming(store, head, base, refused="every attempt failed")
    begun = confirming(store, head, base, state="interrupted")

    found = confirming_runs(store, base.record, head.record)
    unfinished = confirming_runs(store, base.record, head.record, finished=False)

    assert [run.id for run in found.base] == [of_base.id]
    assert [run.id for run in found.head] == [run.id for run in of_head]
    assert [run.id for run in unfinished.head] == [*(run.id for run in of_head), begun.id]


def test_their_attempts_tell_whether_a_case_broke(store):
    base, head = evaluated(store), evaluated(store, wrong=["q1"])
    confirming(store, base, head, right=["q0", "q1", "q2", "q3"])
    confirming(store, head, base, right=["q0", "q2", "q3"])

    (moved,) = tv.compare(base, head).moved_cases.changes

    assert (moved.case, moved.state) == ("q1", "broke")
    assert moved.why == "passed 2 of 2 (1 in other runs), then 0 of 2 (1 in other runs)"


def test_none_is_the_newest_run_or_is_compared(store):
    base, head = evaluated(store), evaluated(store, wrong=["q1"])
    made = confirming(store, head, base)

    assert store.run().kind == "recorded"
    with pytest.raises(ComparisonError, match="holds further attempts at some cases of another run"):
        tv.compare(base, Run(store, made))
    assert not earlier_runs(base, evaluated(store)).head
