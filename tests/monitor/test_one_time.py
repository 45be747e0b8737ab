"""A trace has one start and one duration, whichever way it comes in."""

from datetime import UTC, datetime, timedelta, timezone

import msgspec
import pytest

from trivium.agents.recorded import open_recorded
from trivium.monitor.intake import Intake
from trivium.monitor.interaction import interaction_of
from trivium.monitor.monitor import Monitor
from trivium.store.live_traces import LiveTraces
from trivium.store.store import Store
from trivium.suites.suite import Suite
from trivium.traces.outcome import started
from trivium.traces.readers.collection import read_trace_file
from trivium.traces.trace import Span, Trace, wall_seconds
from trivium.traces.writers.otlp import request, resource_spans, traces_to_export

BEGAN, SECONDS = 1_700_000_000.25, 3.5
ID = "ab" * 16


def near(values):
    return pytest.approx(values, rel=0, abs=1e-6)  # a double has microseconds of a Unix time


def made(form: str) -> Trace:
    moment = datetime.fromtimestamp(BEGAN, UTC)
    stated = {
        "unix": None,
        "utc": moment.isoformat(),
        "zone": moment.astimezone(timezone(timedelta(hours=-5))).isoformat(),
        "no zone": moment.replace(tzinfo=None).isoformat(),
    }[form]
    zero = BEGAN if stated is None else 0.0
    root = Span(id="1" * 16, kind="agent", name="a", input="q", output="x", start=zero, end=zero + SECONDS)
    tool = Span(id="2" * 16, parent=root.id, kind="tool", name="t", start=zero + 1, end=zero + 2)
    return Trace(trace_id=ID, spans=(root, tool), metadata={} if stated is None else {"started": stated})


@pytest.mark.parametrize("form", ["unix", "utc", "zone", "no zone"])
@pytest.mark.parametrize("late", [3600.0, -3600.0])
def test_a_trace_has_one_time_from_every_entry_point(tmp_path, form, late):
    trace, received = made(form), BEGAN + late
    native, otlp = tmp_path / "native.jsonl", tmp_path / "otlp.json"
    native.write_bytes(msgspec.json.encode(trace) + b"\n")
    otlp.write_bytes(request(list(resource_spans(traces_to_export([trace])))))
    read = [each for path in (native, otlp) for each in read_trace_file(path)]
    assert [started(each) for each in read] == near([BEGAN] * 2)
    assert [wall_seconds(each) for each in read] == near([SECONDS] * 2)
    suite = Suite.from_dict({"cases": [{"id": ID, "input": "q"}]})
    outputs = tmp_path / "outputs.jsonl"
    outputs.write_bytes(msgspec.json.encode({"case": ID, "output": "else", "trace": trace}))
    sources = [f"traces:{native}", f"traces:{otlp}", str(outputs)]
    scored = [attempt.seconds for path in sources for _, attempt in open_recorded(path, suite)]
    assert scored == near([SECONDS] * 3)

    url = f"sqlite:///{tmp_path / 's.db'}"
    with Store(url) as store, Intake(LiveTraces(store), clock=lambda: received) as intake:
        intake.receive(otlp.read_bytes(), "json")
        found = [interaction_of(LiveTraces(store).found(ID))]
    with Monitor({"name": "m"}, store=url, sample_rate=1, score=False, clock=lambda: received) as monitor:
        monitor.record(input="q", output="x", trace=trace, trace_id="recorded")
        monitor.record(input="q", output="else", trace=trace, trace_id="other")
        monitor.flush()
    with Store(url) as store:
        found += [interaction_of(LiveTraces(store).found(id_)) for id_ in ("recorded", "other")]
    assert [each.attempt(limit=99).seconds for each in found] == near([SECONDS] * 3)
    # A trace cannot begin after it came: then the clock of the sender is ahead.
    assert [each.time for each in found] == near([min(BEGAN, received)] * 3)
