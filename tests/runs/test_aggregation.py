"""Tests that incremental aggregation gives the same summary as reading the store."""

import json
import pickle
import random
from collections import Counter
from contextlib import contextmanager
from math import fsum, inf, isnan

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import event

import trivium as tv
from tests.runs.suites import TOLD, told_suite, tv_composite
from trivium.agents.attempt import Attempt, Usage
from trivium.metrics.evaluation import Composite, Evaluation
from trivium.metrics.metric import INCOMPLETE_TRACE, Score
from trivium.number_buffer import NumberBuffer
from trivium.runs.aggregation import IncrementalAggregation
from trivium.runs.case_values import CaseValues, Sum
from trivium.runs.columns import Column
from trivium.runs.costs import AgentTally
from trivium.store.store import Store
from trivium.suites.settings import Settings

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
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
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


def evaluated(rng: random.Random, case: int, repeat: int) -> tuple[Attempt, Evaluation]:
    """An attempt with scores of all kinds; some are missing, stand in for others, or have odd reasons."""
    failed = "it broke" if rng.random() < 0.1 else None
    scores = {}
    for name, tier in (("plain", "text"), ("path", "trace"), ("asked", "judge"), ("rare", "text")):
        if name == "rare" and rng.random() < 0.7:
            continue
        status = rng.choice(["ok", "ok", "ok", "fallback", "skipped", "error", "abstained"])
        has_value = status in ("ok", "fallback")
        scores[name] = Score(
            name=name,
            tier=tier,
            status=status,
            value=rng.random() if has_value else None,
            raw=rng.choice([rng.random() * 1e6, rng.randrange(9), "text", True, None]),
            reason=rng.choice(
                [None, f"reason {rng.randrange(60)}", f"{INCOMPLETE_TRACE}: {rng.randrange(30)}"]
            ),
            method=rng.choice([None, "exact", f"method {rng.randrange(30)}"]),
            missing=status == "skipped" and rng.random() < 0.5,
            detail={"shown": {"output": {"shown": 5, "of": 9, "unit": "characters"}}}
            if rng.random() < 0.3
            else {},
        )
    low = rng.random()
    composite = Composite(
        value=rng.choice([None, low]),
        coverage=rng.random(),
        parts={"plain": None},
        recommendation=rng.choice([None, "accept", "reject"]),
        bounds=rng.choice([None, (low, (1 + low) / 2)]),
    )
    usage = rng.choice([Usage(), Usage(input_tokens=7, output_tokens=3, cost_usd=rng.random() / 1e5)])
    attempt = Attempt(case=f"q{case}", repeat=repeat, seconds=rng.random(), error=failed, usage=usage)
    made = Evaluation(
        case=f"q{case}", repeat=repeat, scores=scores, composite=composite,
        passed=rng.choice([True, False, False, None]), failed=failed,
    )  # fmt: skip
    return attempt, made


def contents(value):
    """All that an object holds, down to numbers and texts; of a column only what it counts and computes."""
    if isinstance(value, NumberBuffer):
        return [repr(each) for each in value.read(0, len(value))]
    if isinstance(value, Sum):
        return value.value
    if isinstance(value, dict):
        return [(key, contents(each)) for key, each in value.items()]
    if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        return [contents(each) for each in value]
    if isinstance(value, Column):
        kept = {name: each for name, each in vars(value).items() if name != "_most_reasons"}
        return contents(kept | {"figure": repr(value.figure(level=0.95))})
    if isinstance(value, CaseValues | AgentTally):
        return contents({name: each for name, each in vars(value).items() if name != "_prices"})
    return value if isinstance(value, str | int | float | None) else repr(value)


def state_of(aggregation):
    whole = {name: each for name, each in vars(aggregation).items() if name not in ("_worst", "_worst_limit")}
    return contents(whole | {"failures": aggregation.failures, "all": aggregation.all_columns})


@pytest.mark.parametrize("repeats", [1, 3])
@pytest.mark.parametrize("failed_attempts", ["zero", "skip"])
def test_parts_aggregated_in_other_processes_are_merged_to_the_same(repeats, failed_attempts):
    """Whole and parts agree to the bit, wherever a run is divided; also with more failures than are shown."""
    settings = Settings(repeats=repeats, failed_attempts=failed_attempts)
    for seed in range(2):
        rng = random.Random(seed)
        places, attempts, evaluations = [], [], []
        for case in range(400):
            for repeat in sorted(rng.sample(range(repeats), rng.randint(1, repeats))):
                attempt, made = evaluated(rng, case, repeat)
                places.append((case, f"g{case % 50}"))
                attempts.append(attempt)
                evaluations.append(made)
        whole = IncrementalAggregation(settings)
        whole.add(places, attempts, evaluations)
        merged = IncrementalAggregation(settings)
        ends = sorted(rng.sample(range(len(places)), rng.choice([1, 5, 40])))
        for first, last in zip([0, *ends], [*ends, len(places)], strict=True):
            if rng.random() < 0.2:  # scored by the process of the run, as at first
                merged.add(places[first:last], attempts[first:last], evaluations[first:last])
                continue
            part = IncrementalAggregation(settings, part=True)
            middle = (first + last) // 2
            part.add(places[first:middle], attempts[first:middle], evaluations[first:middle])
            part.add(places[middle:last], attempts[middle:last], evaluations[middle:last])
            merged.merge(pickle.loads(pickle.dumps(part.finished())))
        complete = sum(count == repeats for count in Counter(places).values())
        one, other = whole.aggregation(complete), merged.aggregation(complete)
        assert one is not None
        assert other is not None
        assert (state_of(one), whole.repeats) == (state_of(other), merged.repeats)


@pytest.mark.parametrize("where", ["in a part", "between parts"])
def test_parts_in_another_order_end_the_aggregation(where):
    attempts, evaluations = zip(*[evaluated(random.Random(1), case, 0) for case in range(4)], strict=True)
    places = [(case, "g") for case in ([0, 2, 1, 3] if where == "in a part" else [2, 3, 0, 1])]
    whole = IncrementalAggregation(Settings())
    for part_of in (slice(4),) if where == "in a part" else (slice(2), slice(2, 4)):
        assert whole.active
        part = IncrementalAggregation(Settings(), part=True)
        part.add(places[part_of], attempts[part_of], evaluations[part_of])
        whole.merge(part.finished())
    assert not whole.active
    assert whole.repeats
    assert whole.aggregation(4) is None


def test_a_sum_does_not_depend_on_the_parts():
    rng = random.Random(3)
    for _ in range(200):
        numbers = [rng.uniform(-1, 1) * 10.0 ** rng.randint(-20, 20) for _ in range(50)]
        whole, merged = Sum(), Sum()
        whole.add(numbers)
        step = rng.randint(1, 9)
        for first in range(0, 50, step):
            part = Sum()
            part.add(numbers[first : first + step])
            merged.merge(part)
        assert whole.value == merged.value == fsum(numbers)


def test_a_sum_that_is_too_large_is_infinite():
    total, other = Sum(), Sum()
    total.add([1e308, 1e308])
    total.add([1.0])
    assert total.value == inf
    other.add([-1e308, -1e308])
    total.merge(other)
    assert isnan(total.value)
