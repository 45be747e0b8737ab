"""Tests stored traffic: spans in any order and number, completion, jobs, and what is on the disk."""

import json
import os
import sqlite3
from pathlib import Path
from threading import Thread

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import func, select

from tests.otlp_requests import BEGAN, SECOND, agent_trace, body, span
from tests.traces.opentelemetry.frameworks import RECORDED
from trivium.errors import StoreError, StoreLost
from trivium.monitor.interaction import interaction_of
from trivium.monitor.otlp import IntakeLimits, batch_of
from trivium.monitor.sampling import draw
from trivium.store import live_traces, schema
from trivium.store.live_alerts import open_traffic
from trivium.store.live_counts import counts_of
from trivium.store.live_records import Choice, RecordedTrace, TraceBounds
from trivium.store.live_traces import LiveTraces
from trivium.store.store import Store
from trivium.traces.opentelemetry.assemble import traces_of
from trivium.traces.outcome import completed, input_of, output_of
from trivium.traces.readers import read_trace
from trivium.traces.readers.otlp.protobuf import recorded_span, spans_of_protobuf

NOW = 1_800_000_000.0
HOUR = 3600.0
TRACE = bytes(range(16))


def batch(spans, **resource):
    return batch_of(body(spans, **resource), "protobuf", IntakeLimits())


def always(_trace):
    return [Choice(monitor="m", sampled=True, probability=0.25, rule="errors")]


def never(_trace):
    return [Choice(monitor="m", sampled=False, probability=0.25)]


def jobs(store):
    table = schema.live_jobs
    query = select(table.c.trace, table.c.version, table.c.probability, table.c.rule, table.c.state)
    with store.engine.connect() as connection:
        return [tuple(row) for row in connection.execute(query.order_by(table.c.number))]


def open_traces(store):
    found = open_traffic(store)
    return found.traces, found.due


def number_of_spans(store):
    with store.engine.connect() as connection:
        return connection.execute(select(func.count()).select_from(schema.live_spans)).scalar()


def test_a_trace_is_read_as_a_file_of_its_spans_would_be(any_url):
    spans = agent_trace(TRACE, tools=5)
    (expected,) = traces_of(spans_of_protobuf(body(spans, service="shop"), [], source="f"))
    with Store(any_url) as store:
        traces = LiveTraces(store)
        for index, one in enumerate(reversed(spans)):  # the root comes last
            assert traces.add(batch([one], service="shop"), NOW + index).new == 1
        found = traces.trace(TRACE.hex())
        assert found is not None
        assert found.spans == expected.spans
        assert found.metadata == expected.metadata | {"service": "shop", "conversation_id": "chat 7"}
        assert traces.trace("0" * 32) is None


@pytest.mark.parametrize("framework", RECORDED)
def test_what_a_framework_sends_is_read_as_from_its_file(framework, tmp_path):
    made = RECORDED[framework]()
    expected = read_trace(made, "otlp")
    with Store(f"sqlite:///{tmp_path / 's.db'}") as store:
        traces = LiveTraces(store)
        traces.add(batch_of(json.dumps(made).encode(), "json", IntakeLimits()), NOW)
        found = traces.found(expected.trace_id)
    live = interaction_of(found)
    spans = [sorted(trace.spans, key=lambda each: each.id) for trace in (live.trace, expected)]
    assert spans[0] == spans[1]  # of those that start together, the store keeps no order
    assert live.trace.messages == expected.messages
    assert (live.input, live.output) == (input_of(expected), output_of(expected))


def test_the_service_its_version_and_tags_are_in_the_metadata(any_url):
    root = span(TRACE, id=b"rootroot", **{"trivium.tags": ["vip", "eu"], "tag.tags": "eu, beta"})
    child = span(TRACE, parent=b"rootroot")
    with Store(any_url) as store:
        traces = LiveTraces(store)
        traces.add(batch([child], service="tools", version="9"), NOW)
        traces.add(batch([root], service="shop", version="1.2", environment="prod"), NOW)
        metadata = traces.trace(TRACE.hex()).metadata
        assert (metadata["service"], metadata["version"], metadata["environment"]) == ("shop", "1.2", "prod")
        assert metadata["tags"] == ["vip", "eu", "beta"]
        assert traces.found(TRACE.hex()).service == "shop"  # the root's, which came later


def test_what_is_sent_again_is_stored_once(any_url):
    first, second = batch(agent_trace(tools=3)), batch(agent_trace(tools=1))
    with Store(any_url) as store:
        traces = LiveTraces(store)
        accepted = traces.add_all([first, second, first], NOW)
        assert [(each.new, each.again) for each in accepted] == [(4, 0), (2, 0), (0, 4)]
        assert (traces.add(first, NOW + 1).again, number_of_spans(store)) == (4, 6)
        assert counts_of(store)["", "received", ""] == 6
        assert counts_of(store)["", "again", ""] == 8


def test_a_span_that_is_sent_longer_is_kept_beside_the_shorter_one_and_read_once(any_url):
    started = span(TRACE, id=b"spanspan")
    started.end_time_unix_nano = 0
    ended = span(TRACE, id=b"spanspan")
    with Store(any_url) as store:
        traces = LiveTraces(store)
        traces.add(batch([started]), NOW)
        assert traces.add(batch([ended]), NOW + 1).new == 1
        (only,) = traces.trace(TRACE.hex()).spans
        assert only.end == 2.0


def test_a_trace_is_complete_once_its_root_has_ended_and_nothing_came_for_a_while(any_url):
    root, *others = agent_trace(TRACE)
    with Store(any_url) as store:
        traces = LiveTraces(store, TraceBounds(quiet=30, longest=7200))
        traces.add(batch(others), NOW)
        assert open_traces(store) == (1, NOW + 7200)
        assert traces.complete(NOW + 3600, always) == 0
        traces.add(batch([root]), NOW + 3600)
        assert open_traces(store) == (1, NOW + 3630)
        assert traces.complete(NOW + 3629, always) == 0
        assert traces.complete(NOW + 3630, always) == 1
        assert jobs(store) == [(TRACE.hex(), 1, 0.25, "errors", "waiting")]
        assert traces.complete(NOW + 9999, always) == 0


def test_a_trace_whose_root_never_comes_is_complete_at_the_longest_time(any_url):
    with Store(any_url) as store:
        traces = LiveTraces(store, TraceBounds(quiet=30, longest=600))
        traces.add(batch([span(TRACE, parent=b"faraway!")]), NOW)
        traces.add(batch([span(TRACE, parent=b"faraway!")]), NOW + 500)
        assert traces.complete(NOW + 599, always) == 0
        assert traces.complete(NOW + 600, always) == 1


def test_the_clocks_of_the_senders_do_not_matter(any_url):
    early = span(TRACE, start=BEGAN - 3600 * SECOND)
    late = span(b"z" * 16, start=BEGAN + 10**6 * 3600 * SECOND)
    with Store(any_url) as store:
        traces = LiveTraces(store, TraceBounds(quiet=30))
        traces.add(batch([early, late]), NOW)
        assert traces.complete(NOW + 29, always) == 0
        assert traces.complete(NOW + 30, always) == 2


def test_a_late_span_makes_a_new_version_that_is_scored_once_more(any_url):
    seen = []

    def decide(trace):
        seen.append((trace.version, trace.late, len(trace.read().spans)))
        return always(trace)

    root, *others = agent_trace(TRACE)
    with Store(any_url) as store:
        traces = LiveTraces(store, TraceBounds(quiet=30))
        traces.add(batch([root]), NOW)
        assert traces.complete(NOW + 30, decide) == 1
        traces.add(batch(others), NOW + 5 * HOUR)
        assert traces.complete(NOW + 5 * HOUR + 29, decide) == 0
        assert traces.complete(NOW + 5 * HOUR + 30, decide) == 1
        assert seen == [(1, False, 1), (2, True, 3)]
        assert [job[:2] for job in jobs(store)] == [(TRACE.hex(), 1), (TRACE.hex(), 2)]
        traces.add(batch([root]), NOW + 6 * HOUR)  # sent again: nothing new
        assert traces.complete(NOW + 9 * HOUR, decide) == 0


@pytest.mark.parametrize(("first", "second"), [(0.75, 0.25), (0.25, 0.75), (0.5, 0.5)])
def test_a_trace_with_a_late_span_counts_once_whatever_its_probabilities(any_url, first, second):
    """Its newest sample has the probability that it has a sample at all: that u is below the higher one."""
    ids = [number.to_bytes(16, "big") for number in range(1, 61)]

    def decide(probability):
        def choose(trace):
            sampled = draw(trace.trace_id) < probability
            return [Choice(monitor="m", sampled=sampled, probability=probability, rule=f"{probability}")]

        return choose

    with Store(any_url) as store:
        traces = LiveTraces(store, TraceBounds(quiet=30))
        traces.add(batch([span(id_) for id_ in ids]), NOW)
        assert traces.complete(NOW + 30, decide(first)) == 60
        traces.add(batch([span(id_, id=b"latelate") for id_ in ids]), NOW + 60)
        assert traces.complete(NOW + 90, decide(second)) == 60
        higher = max(first, second)
        newest = {job[0]: job[1:4] for job in jobs(store)}
        sampled = {id_.hex() for id_ in ids if draw(id_.hex()) < higher}
        assert 0 < len(sampled) < 60
        assert newest == dict.fromkeys(sampled, (2, higher, f"{higher}"))


def test_a_trace_that_goes_on_without_its_root_is_not_scored_for_each_span(any_url):
    with Store(any_url) as store:
        traces = LiveTraces(store, TraceBounds(quiet=30, longest=3600))
        for minute in range(0, 240, 5):
            now = NOW + 60 * minute
            traces.add(batch([span(TRACE, parent=b"faraway!")]), now)
            traces.complete(now, always)
        assert len(jobs(store)) == 3


def test_a_trace_with_the_most_spans_is_complete_and_further_ones_are_refused(any_url):
    root, *tools = agent_trace(TRACE, tools=6)
    with Store(any_url) as store:
        traces = LiveTraces(store, TraceBounds(max_spans=5))
        accepted = traces.add(batch(tools), NOW)
        assert (accepted.new, accepted.refused) == (5, {"too_many_spans": 1})
        assert traces.complete(NOW + 30, always) == 1
        found = traces.trace(TRACE.hex())
        assert (found.cut, found.missing_part) == (
            True,
            "it is larger than allowed: 1 of its spans are left out",
        )
        # The root comes last, as exporters send it: there is room for it.
        accepted = traces.add(batch([*tools, root]), NOW + 31)
        assert (accepted.new, accepted.again, accepted.refused) == (1, 5, {"too_many_spans": 1})
        assert traces.complete(NOW + 61, always) == 1
        assert completed(traces.trace(TRACE.hex())) is True
        accepted = traces.add(batch(tools), NOW + 100)  # what is refused again completes nothing again
        assert (accepted.new, accepted.refused) == (0, {"too_many_spans": 1})
        assert traces.complete(NOW + 9999, always) == 0
        assert counts_of(store)["", "refused", "too_many_spans"] == 3


def test_a_trace_that_was_complete_is_scored_again_once_it_is_cut(any_url):
    root, *tools = agent_trace(TRACE, tools=9)
    with Store(any_url) as store:
        traces = LiveTraces(store, TraceBounds(max_spans=5))
        traces.add(batch([root, *tools[:4]]), NOW)
        assert traces.complete(NOW + 30, always) == 1
        assert traces.trace(TRACE.hex()).cut is False
        traces.add(batch(tools[4:]), NOW + 40)
        assert traces.complete(NOW + 70, always) == 1
        assert [version for _, version, *_ in jobs(store)] == [1, 2]
        assert "5 of its spans" in traces.trace(TRACE.hex()).missing_part


def test_a_span_that_is_too_large_by_itself_cuts_its_trace_whenever_it_comes(any_url):
    root, *tools = agent_trace(TRACE, tools=2)
    root.name = "x" * 2000
    limits = IntakeLimits(span_bytes=1000)
    for order in ([tools, [root]], [[root], tools], [[*tools, root]]):
        trace = os.urandom(16)
        for each in (root, *tools):
            each.trace_id = trace
        with Store(any_url) as store:
            traces = LiveTraces(store)
            for spans in order:
                traces.add(batch_of(body(spans), "protobuf", limits), NOW)
            found = traces.trace(trace.hex())
            assert (len(found.spans), found.cut, completed(found)) == (2, True, None)
            assert traces.complete(NOW + 30, always) == 1  # it waits no longer for its root


def failing(made):
    made.status.code = 2
    return made


@pytest.mark.parametrize("bound", ["max_spans", "max_bytes"])
def test_spans_that_failed_and_the_root_have_room_beyond_either_bound(any_url, bound):
    root, *tools = agent_trace(TRACE, tools=60)
    size = sum(len(each.SerializeToString()) for each in tools[:30])
    bounds = TraceBounds(**{bound: 30 if bound == "max_spans" else size})
    late = [failing(each) for each in tools[40:42]]  # less than a tenth of 30
    with Store(any_url) as store:
        traces = LiveTraces(store, bounds)
        accepted = traces.add(batch([*tools[:40], *late, failing(root)]), NOW)
        assert (accepted.new, sum(accepted.refused.values())) == (33, 10)
        found = traces.trace(TRACE.hex())
    assert (found.cut, completed(found)) == (True, False)
    assert sum(each.ok is False for each in found.spans) == 3


@pytest.fixture(scope="module")
def one_store(tmp_path_factory):
    with Store(f"sqlite:///{tmp_path_factory.mktemp('cut')}/s.db") as store:
        yield store


@given(data=st.data())
def test_a_trace_that_is_cut_has_not_passed_unless_the_whole_one_has(one_store, data):
    """By every order of arrival and every bound; failed calls are never lost within the room."""
    trace = os.urandom(16)
    root, *tools = agent_trace(trace, tools=data.draw(st.integers(1, 12)))
    for each in (root, *tools):
        if data.draw(st.booleans()):
            failing(each)
    order = data.draw(st.permutations([root, *tools]))
    arrived = order[: data.draw(st.integers(1, len(order)))]  # the rest is lost on the way
    whole = traces_of([recorded_span(each, "") for each in [root, *tools]])[0]
    traces = LiveTraces(one_store, TraceBounds(max_spans=data.draw(st.integers(1, 14))))
    for each in arrived:
        traces.add(batch([each]), NOW)
    found = traces.trace(trace.hex())
    assert completed(found) is not True or completed(whole) is True
    if root not in arrived:
        assert completed(found) is not True
    if found.cut and len(arrived) == len(order):
        failed = [sum(each.ok is False for each in trace.tool_calls) for trace in (found, whole)]
        assert failed[0] == failed[1]


def test_a_trace_has_a_largest_size(any_url):
    spans = [span(TRACE, parent=b"elsewher", text="x" * 1000) for _ in range(5)]
    with Store(any_url) as store:
        traces = LiveTraces(store, TraceBounds(max_bytes=3500))
        accepted = traces.add(batch(spans), NOW)
        assert (accepted.new, accepted.refused) == (3, {"trace_too_large": 2})
        assert traces.trace(TRACE.hex()).cut is True


def test_what_the_monitors_decide_is_counted(any_url):
    with Store(any_url) as store:
        traces = LiveTraces(store)
        traces.add_all([batch(agent_trace()) for _ in range(3)], NOW)
        assert traces.complete(NOW + 30, always, limit=1) == 1
        assert traces.complete(NOW + 30, never) == 2
        counts = counts_of(store, since=NOW)
        assert counts["m", "complete", ""] == 3
        assert counts["m", "unsampled", ""] == 2
        assert counts["m", "sampled", "errors"] == 1
        assert counts_of(store, since=NOW + 2 * HOUR) == {}


def test_a_span_that_comes_while_a_trace_is_read_keeps_it_open(any_url):
    spans = agent_trace(TRACE)
    with Store(any_url) as store:
        traces = LiveTraces(store, TraceBounds(quiet=30))
        traces.add(batch(spans[:1]), NOW)
        coming = Thread(target=lambda: LiveTraces(store).add(batch(spans[1:]), NOW + 30))

        def decide(trace):
            coming.start()
            if store.engine.dialect.name == "sqlite":  # on PostgreSQL it waits for the trace's row
                coming.join()
            return always(trace)

        assert traces.complete(NOW + 30, decide) == 1
        coming.join()
        on_sqlite = store.engine.dialect.name == "sqlite"
        assert len(jobs(store)) == (0 if on_sqlite else 1)
        assert traces.complete(NOW + 60, always) == 1
        assert [job[1] for job in jobs(store)] == ([1] if on_sqlite else [1, 2])


def test_two_servers_complete_each_trace_once(any_url):
    with Store(any_url) as store:
        LiveTraces(store).add_all([batch(agent_trace()) for _ in range(60)], NOW)

        def serve():
            with Store(any_url) as own:
                traces = LiveTraces(own)
                while open_traffic(own).traces:
                    traces.complete(NOW + 30, always, limit=5)

        servers = [Thread(target=serve) for _ in range(3)]
        for server in servers:
            server.start()
        for server in servers:
            server.join()
        assert len(jobs(store)) == 60
        assert counts_of(store)["m", "complete", ""] == 60


def test_several_processes_add_to_the_same_traces(any_url):
    names = [os.urandom(16) for _ in range(20)]
    with Store(any_url) as store:

        def serve(order):
            with Store(any_url) as own:
                traces = LiveTraces(own)
                for name in order:
                    traces.add(batch([span(name), span(names[0])]), NOW)

        servers = [
            Thread(target=serve, args=[order]) for order in (names, names[::-1], names[7:] + names[:7])
        ]
        for server in servers:
            server.start()
        for server in servers:
            server.join()
        assert number_of_spans(store) == 120
        assert open_traffic(store).traces == 20


def test_what_an_application_records_is_complete_at_once(any_url):
    with Store(any_url) as store:
        traces = LiveTraces(store)
        mine = RecordedTrace(trace_id="t1", body=b'{"a": 1}', service="shop", choices=always(None))
        traces.record([mine], NOW)
        found = traces.found("t1")
        assert (found.body, found.version, found.late, found.service) == (b'{"a": 1}', 1, False, "shop")
        assert open_traces(store) == (0, None)
        assert jobs(store) == [("t1", 1, 0.25, "errors", "waiting")]
        traces.record([RecordedTrace(trace_id="t1", body=b"{}", choices=never(None))], NOW + 1)
        assert (traces.found("t1").version, traces.found("t1").late) == (2, True)
        assert jobs(store)[1:] == [("t1", 2, 0.25, "errors", "waiting")]  # a sample stays a sample


def test_commits_are_synced_to_the_disk_and_other_writes_are_as_before(url):
    with Store(url) as store:
        traces, seen = LiveTraces(store), []
        with traces._durable() as connection:
            seen.append(connection.exec_driver_sql("PRAGMA synchronous").scalar())
        with store.engine.connect() as connection:
            seen.append(connection.exec_driver_sql("PRAGMA synchronous").scalar())
        assert seen == [2, 1]  # FULL, NORMAL


def test_nothing_is_stored_of_what_fails(any_url):
    with Store(any_url) as store:
        traces = LiveTraces(store)
        good = batch(agent_trace())
        with store.engine.begin() as connection:
            connection.exec_driver_sql("ALTER TABLE live_counts RENAME TO elsewhere")
        with pytest.raises(StoreError):
            traces.add(good, NOW)
        with store.engine.begin() as connection:
            connection.exec_driver_sql("ALTER TABLE elsewhere RENAME TO live_counts")
        assert (number_of_spans(store), open_traces(store)) == (0, (0, None))
        assert traces.add(good, NOW).new == 3


def test_a_locked_store_is_a_store_error_and_later_it_goes_on(url, monkeypatch):
    monkeypatch.setattr("trivium.store.connection.BUSY_MS", 50)
    with Store(url) as store:
        traces = LiveTraces(store)
        other = sqlite3.connect(store.engine.url.database, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match="locked"):
            traces.add(batch(agent_trace()), NOW)
        other.execute("ROLLBACK")
        other.close()
        assert traces.add(batch(agent_trace()), NOW).new == 3


def test_a_full_disk_is_a_store_error_and_later_it_goes_on(url):
    with Store(url) as store:
        traces = LiveTraces(store)
        with store.engine.connect() as connection:  # the pool hands the same connection out again
            pages = connection.exec_driver_sql("PRAGMA page_count").scalar()
            connection.exec_driver_sql(f"PRAGMA max_page_count = {pages}")
        large = batch([span(TRACE, text="x" * 100_000) for _ in range(20)])
        with pytest.raises(StoreError, match="full"):
            traces.add(large, NOW)
        assert number_of_spans(store) == 0
        with store.engine.connect() as connection:
            connection.exec_driver_sql("PRAGMA max_page_count = 1000000")
        assert traces.add(large, NOW).new == 20


def test_a_deleted_file_is_not_acknowledged(url):
    with Store(url) as store:
        traces = LiveTraces(store)
        traces.add(batch(agent_trace()), NOW)
        Path(store.engine.url.database).unlink()
        with pytest.raises(StoreLost):
            traces.add(batch(agent_trace()), NOW)


def test_many_open_traces_do_not_slow_the_look_for_due_ones(url):
    with Store(url) as store:
        with store.engine.connect() as connection:
            plan = connection.exec_driver_sql(
                "EXPLAIN QUERY PLAN SELECT * FROM live_traces "
                "WHERE state = 'open' AND due <= 5 ORDER BY due LIMIT 9"
            ).all()
        assert [row[3] for row in plan] == [
            "SEARCH live_traces USING INDEX ix_live_traces_due (state=? AND due<?)"
        ]


def test_resources_are_stored_once(any_url):
    with Store(any_url) as store:
        traces = LiveTraces(store)
        for _ in range(3):
            traces.add(batch(agent_trace(), service="shop"), NOW)
        with store.engine.connect() as connection:
            rows = connection.execute(select(func.count()).select_from(schema.live_resources)).scalar()
        assert rows == 2  # the resource and the scope


def test_resources_are_read_again_however_many_there_are(url, monkeypatch):
    monkeypatch.setattr(live_traces, "_MOST_SHARED", 3)
    names = [os.urandom(16) for _ in range(9)]
    with Store(url) as store:
        traces = LiveTraces(store)
        for number, name in enumerate(names):
            traces.add(batch([span(name)], service=f"s{number}"), NOW)
        for _ in range(2):
            found = [traces.trace(name.hex()).metadata["service"] for name in names]
            assert found == [f"s{number}" for number in range(9)]
        assert len(traces._shared._bodies) <= 3
