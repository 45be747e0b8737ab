"""Tests which differences between stored attempts count as changed outputs."""

import msgspec
import pytest

from tests.store.samples import attempt, new_run
from trivium.runs.run import Run, same_attempts
from trivium.store.store import Store
from trivium.traces.trace import Message, Span, Trace

TRACE = Trace(
    trace_id="t",
    spans=(
        Span(id="a", kind="tool", name="search", agent="x", start=0.0, end=1.0, input={"q": 1}, output="o"),
    ),
    messages=(Message(sender="x", receiver="y", time=0.5, content="c"),),
)
SPAN, MESSAGE = TRACE.spans[0], TRACE.messages[0]


@pytest.fixture
def same(tmp_path):
    with Store(str(tmp_path / "store.db")) as store:

        def compare(base, head):
            runs = []
            for id_, attempts in (("b", base), ("h", head)):
                record = new_run(store, id=f"{id_}{len(store.runs())}")
                store.save(record, attempts=attempts)
                runs.append(Run(store, record))
            return same_attempts(*runs)

        yield compare


def traced(**fields):
    return [attempt(0, trace=msgspec.structs.replace(TRACE, **fields))]


def test_times_and_ids_of_spans_do_not_count(same):
    later = msgspec.structs.replace(SPAN, id="other", start=5.0, end=9.0)
    changed = msgspec.structs.replace(MESSAGE, time=8.0)
    assert same(traced(), traced(trace_id="u", spans=(later,), messages=(changed,)))
    assert same([attempt(0, seconds=1.0)], [attempt(0, seconds=2.0)])


@pytest.mark.parametrize(
    "changes",
    [
        {"spans": (msgspec.structs.replace(SPAN, name="fetch"),)},
        {"spans": (msgspec.structs.replace(SPAN, ok=False),)},
        {"spans": (msgspec.structs.replace(SPAN, input={"q": 2}),)},
        {"spans": ()},
        {"messages": (msgspec.structs.replace(MESSAGE, type="handoff"),)},
    ],
)
def test_what_was_done_counts(same, changes):
    assert not same(traced(), traced(**changes))


@pytest.mark.parametrize(
    "head",
    [
        [attempt(0, output="else")],
        [attempt(0, error="failed")],
        [attempt(0, reward=0.5)],
        [attempt(0, repeat=1)],
        [attempt(1)],
        [attempt(0), attempt(1)],
        [],
    ],
)
def test_output_error_reward_and_whose_it_is_count(same, head):
    assert not same([attempt(0)], head)
