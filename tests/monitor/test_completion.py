"""Tests the loop that completes traces: in virtual time, as a thread, and when something fails."""

import threading

from tests.otlp_requests import agent_trace, body
from trivium.errors import StoreError
from trivium.monitor import completion
from trivium.monitor.completion import Completer, bounds_of, decider
from trivium.monitor.intake import Intake
from trivium.monitor.interaction import Recorded, encode_recorded, interaction_of
from trivium.monitor.sampling import Sampler
from trivium.store.live_alerts import open_traffic
from trivium.store.live_counts import counts_of
from trivium.store.live_records import Choice, CompleteTrace, TraceBounds
from trivium.store.live_traces import LiveTraces
from trivium.store.store import Store
from trivium.suites.monitor_settings import MonitorSettings, SamplingRule
from trivium.traces.trace import Span, Trace

NOW = 1_800_000_000.0
FAILED = Span(id="a", kind="agent", name="a", ok=False)


def always(_trace):
    return [Choice(monitor="m", sampled=True, probability=1.0)]


def filled(store, number, bounds=None):
    traces = LiveTraces(store, bounds)
    with Intake(traces, clock=lambda: NOW) as intake:
        for _ in range(number):
            intake.receive(body(agent_trace()), "protobuf")
    return traces


def test_the_bounds_are_the_widest_of_all_monitors():
    few = MonitorSettings(quiet=5, longest=900, max_spans=50)
    more = MonitorSettings(quiet=1, longest=1000, max_spans=20)
    assert bounds_of([few, more]) == TraceBounds(quiet=5, longest=1000, max_spans=50)
    assert bounds_of([]) == TraceBounds(quiet=30, longest=7200, max_spans=10_000)


def test_one_round_completes_all_that_is_due(any_url, monkeypatch):
    monkeypatch.setattr(completion, "TRACES_AT_ONCE", 3)
    with Store(any_url) as store:
        completer = Completer(filled(store, 7), always)
        assert completer.complete(NOW + 29) == 0
        assert completer.complete(NOW + 30) == 7
        assert completer.complete(NOW + 30) == 0
        assert counts_of(store)["m", "sampled", ""] == 7


def test_a_trace_that_cannot_be_read_does_not_keep_others_waiting(url, caplog):
    def decide(trace):
        if len(seen) == 1:
            seen.append(trace.trace_id)
            raise KeyError("odd")
        seen.append(trace.trace_id)
        return always(trace)

    seen = []
    with Store(url) as store:
        completer = Completer(filled(store, 3), decide)
        assert completer.complete(NOW + 30) == 3
        assert completer.complete(NOW + 30) == 0
        counts = counts_of(store)
        assert counts["m", "sampled", ""] == 2
        assert counts["", "failed", "unreadable"] == 1
    assert f"trace {seen[1]} cannot be read" in caplog.text


def test_the_thread_completes_traces_and_goes_on_after_a_failure(url, monkeypatch, caplog):
    monkeypatch.setattr(completion, "LOOK_SECONDS", 0.001)
    completed, failures = threading.Event(), [StoreError("locked"), KeyError("a defect")]
    with Store(url) as store:
        traces = filled(store, 1)
        real = traces.complete

        def complete(*args, **kwargs):
            if failures:
                raise failures.pop(0)
            number = real(*args, **kwargs)
            if number:
                completed.set()
            return number

        monkeypatch.setattr(traces, "complete", complete)
        with Completer(traces, always, clock=lambda: NOW + 30) as completer:
            completer.start()
            assert completed.wait(60)
        assert open_traffic(store).traces == 0
        assert completer.complete(NOW + 60) == 0
    assert "traces cannot be completed now: locked" in caplog.text
    assert "KeyError" in caplog.text


def test_a_completer_that_was_not_started_can_be_stopped(url):
    with Store(url) as store:
        Completer(LiveTraces(store), always).stop()


def test_a_trace_that_no_monitor_would_sample_is_not_read_and_is_decided_as_if_it_were(url):
    errors = SamplingRule(errors=True, rate=0.5)
    with Store(url) as store:
        samplers = [
            Sampler("few", MonitorSettings(sample_rate=0.1, salt="a"), store),
            Sampler("errors", MonitorSettings(sample_rate=0.1, rules=(errors,), salt="b"), store),
            Sampler("elsewhere", MonitorSettings(sample_rate=1.0, services=("b",)), store),
        ]
        decide = decider(samplers[:2])
        read = []
        for number in range(200):
            found = CompleteTrace(
                trace_id=f"t{number}", version=1, first=NOW, last=NOW, late=False, service="a", body=None,
                read=lambda: read.append(1) or Trace(spans=(FAILED,)),
            )  # fmt: skip
            expected = [each.decide(interaction_of(found)).sampled for each in samplers[:2]]
            assert [each.sampled for each in decide(found)] == expected
        assert 400 < len(read) < 560  # each was read twice for what is expected
        assert decider(samplers[2:])(found) == []


def test_what_an_application_recorded_is_decided_by_what_it_says(url):
    rule = SamplingRule(tag="vip", rate=1.0)
    with Store(url) as store:
        decide = decider([Sampler("m", MonitorSettings(sample_rate=1e-9, rules=(rule,)), store)])
        body = encode_recorded(Recorded(time=NOW, tags=("vip",)))
        found = CompleteTrace(
            trace_id="t", version=1, first=NOW, last=NOW, late=False, service=None, body=body, read=Trace
        )
        (choice,) = decide(found)
        assert (choice.sampled, choice.rule) == (True, "tag=vip")


def test_a_trace_that_only_sets_agents_up_is_no_interaction(url):
    def found(**metadata):
        trace = Trace(trace_id="t", spans=(FAILED,), metadata=metadata)
        return CompleteTrace(
            trace_id="t",
            version=1,
            first=NOW,
            last=NOW,
            late=False,
            service=None,
            body=None,
            read=lambda: trace,
        )

    with Store(url) as store:
        decide = decider([Sampler("m", MonitorSettings(sample_rate=1.0), store)])
        assert len(decide(found())) == 1
        assert decide(found(sets_up=True)) == []
