"""Tests the intake: what is acknowledged is stored, what cannot be stored is refused with a reason."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import func, select

from tests.otlp_requests import agent_trace, body, span
from trivium.errors import Overloaded, StoreError, TooLarge, TraceError
from trivium.monitor.intake import Intake
from trivium.monitor.otlp import IntakeLimits
from trivium.store import schema
from trivium.store.live_counts import counts_of
from trivium.store.live_traces import LiveTraces
from trivium.store.store import Store

NOW = 1_800_000_000.0
TRACE = bytes(range(16))


def number_of_spans(store):
    with store.engine.connect() as connection:
        return connection.execute(select(func.count()).select_from(schema.live_spans)).scalar()


class Held(LiveTraces):
    """Traces whose writing waits until the test lets it go on, and may fail."""

    def __init__(self, store):
        super().__init__(store)
        self.go, self.writing, self.groups, self.failure = threading.Event(), threading.Event(), [], None

    def add_all(self, batches, now, *, counts=None):
        self.writing.set()
        assert self.go.wait(60)
        self.groups.append(len(batches))
        if self.failure is not None:
            raise self.failure
        return super().add_all(batches, now, counts=counts)


def test_a_request_is_acknowledged_when_it_is_stored(any_url):
    spans = agent_trace()
    with Store(any_url) as store, Intake(LiveTraces(store), clock=lambda: NOW) as intake:
        receipt = intake.receive(body(spans), "protobuf")
        assert (receipt.new, receipt.again, receipt.rejected, receipt.message) == (3, 0, 0, "")
        assert number_of_spans(store) == 3
        assert intake.receive(body(spans), "protobuf").again == 3
        assert LiveTraces(store).found(spans[0].trace_id.hex()).first == NOW


def test_nothing_is_acknowledged_before_it_is_written(url):
    with Store(url) as store:
        traces = Held(store)
        with Intake(traces) as intake:
            receipt = intake.submit(body(agent_trace()), "protobuf")
            assert traces.writing.wait(60)
            assert not receipt.done()
            traces.go.set()
            assert receipt.result(60).new == 3


def test_a_caller_that_goes_away_cancels_nothing(url):
    with Store(url) as store:
        traces = Held(store)
        with Intake(traces) as intake:
            first, second = (intake.submit(body(agent_trace()), "protobuf") for _ in range(2))
            assert not first.cancel()
            assert not second.cancel()
            traces.go.set()
            assert (first.result(60).new, second.result(60).new) == (3, 3)


def test_requests_that_wait_share_a_transaction_and_each_gets_its_own_answer(url):
    with Store(url) as store:
        traces = Held(store)
        with Intake(traces) as intake:
            first = intake.submit(body(agent_trace()), "protobuf")
            assert traces.writing.wait(60)
            others = [intake.submit(body(agent_trace(tools=n)), "protobuf") for n in range(5)]
            traces.go.set()
            assert first.result(60).new == 3
            assert [each.result(60).new for each in others] == [1, 2, 3, 4, 5]
        assert traces.groups == [1, 5]


def test_a_transaction_has_about_so_many_spans(url):
    with Store(url) as store:
        traces = Held(store)
        with Intake(traces, limits=IntakeLimits(commit_spans=5)) as intake:
            requests = [intake.submit(body(agent_trace()), "protobuf")]
            assert traces.writing.wait(60)
            requests += [intake.submit(body(agent_trace()), "protobuf") for _ in range(4)]
            traces.go.set()
            assert [each.result(60).new for each in requests] == [3] * 5
        assert traces.groups == [1, 2, 2]


def test_too_many_waiting_requests_are_refused_for_now(url):
    with Store(url) as store:
        traces = Held(store)
        with Intake(traces, limits=IntakeLimits(waiting_requests=2)) as intake:
            accepted = [intake.submit(body(agent_trace()), "protobuf")]
            assert traces.writing.wait(60)
            accepted += [intake.submit(body(agent_trace()), "protobuf") for _ in range(2)]
            with pytest.raises(Overloaded, match="send this again"):
                intake.submit(body(agent_trace()), "protobuf")
            assert intake.waiting[0] == 2
            traces.go.set()
            assert [each.result(60).new for each in accepted] == [3, 3, 3]
            assert intake.receive(body(agent_trace()), "protobuf").new == 3
        assert counts_of(store)["", "refused_request", "overloaded"] == 1


def test_too_many_waiting_bytes_are_refused_for_now_but_one_request_always_fits(url):
    with Store(url) as store:
        traces = Held(store)
        with Intake(traces, limits=IntakeLimits(waiting_bytes=10)) as intake:
            accepted = [intake.submit(body(agent_trace()), "protobuf")]
            assert traces.writing.wait(60)
            accepted.append(intake.submit(body(agent_trace()), "protobuf"))
            with pytest.raises(Overloaded):
                intake.submit(body(agent_trace()), "protobuf")
            traces.go.set()
            assert [each.result(60).new for each in accepted] == [3, 3]


def test_a_closed_intake_writes_what_waits_and_refuses_the_rest(url):
    with Store(url) as store:
        traces = Held(store)
        intake = Intake(traces)
        waiting = [intake.submit(body(agent_trace()), "protobuf") for _ in range(3)]
        traces.go.set()
        intake.close()
        assert [each.result(0).new for each in waiting] == [3, 3, 3]
        with pytest.raises(Overloaded, match="stopping"):
            intake.submit(body(agent_trace()), "protobuf")
        intake.close()


def test_a_store_that_fails_acknowledges_nothing_and_comes_back(url, caplog):
    with Store(url) as store:
        traces = Held(store)
        traces.go.set()
        with Intake(traces) as intake:
            traces.failure = StoreError("the disk is full")
            with pytest.raises(StoreError, match="disk is full"):
                intake.receive(body(agent_trace()), "protobuf")
            traces.failure = KeyError("a defect")
            with pytest.raises(StoreError, match="could not be stored: KeyError"):
                intake.receive(body(agent_trace()), "protobuf")
            assert number_of_spans(store) == 0
            traces.failure = None
            assert intake.receive(body(agent_trace()), "protobuf").new == 3
    assert "disk is full" in caplog.text


def test_many_senders_at_once(any_url):
    bodies = [body(agent_trace(tools=4)) for _ in range(40)]
    with Store(any_url) as store, Intake(LiveTraces(store)) as intake, ThreadPoolExecutor(8) as senders:
        receipts = list(senders.map(lambda each: intake.receive(each, "protobuf"), bodies + bodies))
        assert sum(each.new for each in receipts) == sum(each.again for each in receipts) == 200
        assert number_of_spans(store) == 200


def test_a_request_that_is_too_large_is_refused(url):
    with Store(url) as store, Intake(LiveTraces(store)) as intake:
        for encoding in ("protobuf", "json"):
            with pytest.raises(TooLarge, match=r"52,428,800 bytes; at most 20,971,520 .* smaller batches"):
                intake.receive(b"\n" * (50 * 2**20), encoding)
        intake.receive(body(agent_trace()), "protobuf")
        assert counts_of(store)["", "refused_request", "too_large"] == 2


def test_a_body_that_is_cut_off_is_refused_whole(url):
    whole = body(agent_trace(tools=20))
    with Store(url) as store, Intake(LiveTraces(store)) as intake:
        for length in (1, 7, len(whole) // 2, len(whole) - 1):
            with pytest.raises(TraceError, match="not readable OTLP protobuf"):
                intake.receive(whole[:length], "protobuf")
        assert intake.receive(b"", "protobuf").new == 0  # an empty request is a valid one
        assert number_of_spans(store) == 0
        assert counts_of(store)["", "refused_request", "unreadable"] == 4


def test_spans_that_cannot_be_stored_are_refused_by_reason_and_the_others_are_stored(any_url):
    spans = [
        span(TRACE),
        span(bytes(16)),
        span(b""),
        span(b"short"),
        span(TRACE, id=bytes(8)),
        span(TRACE, id=b"far too long"),
        span(TRACE, text="x" * 2000),
    ]
    with Store(any_url) as store, Intake(LiveTraces(store), limits=IntakeLimits(span_bytes=1000)) as intake:
        receipt = intake.receive(body(spans), "protobuf")
        assert (receipt.new, receipt.rejected) == (1, 6)
        assert receipt.refused == {"bad_id": 5, "span_too_large": 1}
        assert receipt.message == ("refused spans: 5 without a valid trace id and span id; 1 too large")
        assert counts_of(store)["", "refused", "bad_id"] == 5


def test_a_resource_has_a_largest_size(url):
    with Store(url) as store, Intake(LiveTraces(store)) as intake:
        receipt = intake.receive(body(agent_trace(), text="x" * 70_000), "protobuf")
        assert (receipt.new, receipt.refused) == (0, {"resource_too_large": 3})


def test_a_service_name_that_no_database_stores_is_stored_without_what_it_cannot(any_url):
    with Store(any_url) as store, Intake(LiveTraces(store)) as intake:
        spans = agent_trace()
        intake.receive(body(spans, service="sh\x00op\n" + "p" * 500), "protobuf")
        found = LiveTraces(store).found(spans[0].trace_id.hex())
        assert found.service == "shop" + "p" * 196
        assert found.read().metadata["service"] == found.service


def test_a_database_that_goes_away_and_comes_back(any_url):
    with Store(any_url) as store, Intake(LiveTraces(store)) as intake:
        assert intake.receive(body(agent_trace()), "protobuf").new == 3
        if store.engine.dialect.name == "postgresql":
            import psycopg

            with psycopg.connect(any_url, autocommit=True) as other:
                other.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() "
                    "AND backend_type = 'client backend'"
                )
        else:
            store.engine.dispose()
        assert intake.receive(body(agent_trace()), "protobuf").new == 3
