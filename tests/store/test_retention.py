"""Retention deletes what the settings let go, and nothing that anybody waits for."""

import time
from pathlib import Path

import pytest
from sqlalchemy import func, insert, select
from sqlalchemy.exc import OperationalError

from tests.store.samples import attempt, evaluation, new_run
from trivium.store import schema
from trivium.store.live_counts import counts_of, spent_usd
from trivium.store.retention import DAY, Retention
from trivium.store.store import Store
from trivium.suites.monitor_settings import RetentionSettings

NOW = 1_000 * DAY


def number(name: str) -> int:
    return int.from_bytes(name.encode()[:7], "big")


def trace(name: str, *, age: float, state: str = "complete", size: int = 1_000) -> dict:
    last = NOW - age * DAY
    return {
        "number": number(name), "trace": name, "state": state, "version": 1, "first": last, "last": last,
        "opened": last, "due": last, "root": True, "spans": 1, "size": size, "service": None, "late": False,
        "body": None,
    }  # fmt: skip


def span(name: str, *, size: int = 1_000) -> dict:
    return {
        "number": number(name), "span": "s", "digest": "d", "resource": "r", "received": NOW,
        "body": b"x" * size,
    }  # fmt: skip


def job(name: str, state: str) -> dict:
    return {
        "monitor": "m", "trace": name, "version": 1, "probability": 0.5, "weight": 1.0,
        "rule": "", "state": state, "created": NOW, "due": NOW, "owner": None, "tries": 0, "reason": None,
    }  # fmt: skip


def sample(name: str, *, age: float, run: int = 1, version: int = 1, monitor: str = "m") -> dict:
    return {
        "monitor": monitor, "trace": name, "version": version, "run": run, "position": 0,
        "time": NOW - age * DAY, "scored": NOW, "probability": 0.5, "weight": 1.0, "rule": "",
        "score": 1.0, "passed": True, "confidence": None, "failed": False, "seconds": 1.0,
        "query": "q", "output": "o", "session": None,
        "facets": "{}",
    }  # fmt: skip


def score(name: str, *, version: int = 1) -> dict:
    return {
        "monitor": "m", "trace": name, "version": version, "metric": "completed", "fingerprint": "f",
        "trial": 0, "status": "ok", "value": 1.0,
    }  # fmt: skip


def fill(store: Store, **tables: list[dict]) -> None:
    with store.engine.begin() as connection:
        for name, rows in tables.items():
            connection.execute(insert(schema.metadata.tables[f"live_{name}"]), rows)


def names(store: Store, table: str = "live_traces") -> set[str]:
    with store.engine.connect() as connection:
        return set(connection.execute(select(schema.metadata.tables[table].c.trace)).scalars())


def numbers(store: Store) -> set[int]:
    with store.engine.connect() as connection:
        return set(connection.execute(select(schema.live_spans.c.number)).scalars())


def pruned(store: Store, settings: RetentionSettings | None = None, **others: RetentionSettings):
    every = {"m": settings or RetentionSettings(), **others}
    return Retention(store, every, pause=lambda _seconds: None).prune(NOW)


def test_an_unsampled_trace_goes_after_its_days_and_a_sampled_one_stays(any_url):
    with Store(any_url) as store:
        fill(
            store,
            traces=[trace("old", age=2), trace("young", age=0.5), trace("sampled", age=2)],
            spans=[span("old"), span("young"), span("sampled")],
            samples=[sample("sampled", age=2)],
        )
        result = pruned(store)
        assert names(store) == {"young", "sampled"}
        assert numbers(store) == {number("young"), number("sampled")}
        assert (result.traces, result.bytes, result.samples) == (1, 1_000, 0)


def test_what_is_open_or_waits_to_be_scored_stays(any_url):
    with Store(any_url) as store:
        old = {"done": "complete", "waiting": "complete", "scoring": "complete", "open": "open"}
        fill(
            store,
            traces=[trace(name, age=50, state=state) for name, state in old.items()],
            jobs=[job(name, name) for name in ("done", "waiting", "scoring")],
        )
        pruned(store, RetentionSettings(max_gb=1e-9))
        assert names(store) == {"waiting", "scoring", "open"}
        assert names(store, "live_jobs") == {"waiting", "scoring"}


def test_a_sample_goes_after_its_days_with_its_scores_and_then_its_trace(any_url):
    with Store(any_url) as store:
        fill(
            store,
            traces=[trace("old", age=91), trace("young", age=89)],
            samples=[sample("old", age=91), sample("young", age=89)],
            scores=[score("old"), score("young")],
        )
        result = pruned(store)
        for table in ("live_samples", "live_scores", "live_traces"):
            assert names(store, table) == {"young"}
        assert (result.samples, result.traces) == (1, 1)


def test_samples_are_kept_for_as_many_days_as_the_settings_say(url):
    with Store(url) as store:
        fill(store, samples=[sample("old", age=6), sample("young", age=4)])
        pruned(store, RetentionSettings(days=5))
        assert names(store, "live_samples") == {"young"}


def test_the_scores_of_a_newer_version_stay(any_url):
    with Store(any_url) as store:
        both = {1: 91.0, 2: 1.0}
        fill(
            store,
            samples=[sample("t", age=age, version=version) for version, age in both.items()],
            scores=[score("t", version=version) for version in both],
        )
        pruned(store)
        with store.engine.connect() as connection:
            assert connection.execute(select(schema.live_scores.c.version)).scalars().all() == [2]


def test_a_trace_that_another_monitor_wants_stays(any_url):
    with Store(any_url) as store:
        fill(store, traces=[trace("t", age=3)], samples=[sample("t", age=3, monitor="other")])
        pruned(store)
        assert names(store) == {"t"}
        fill(store, traces=[trace("u", age=3)])
        pruned(store, other=RetentionSettings(unsampled_days=5))
        assert names(store) == {"t", "u"}
        pruned(store)
        assert names(store) == {"t"}


def test_above_the_size_the_oldest_go_until_the_others_fit(any_url):
    with Store(any_url) as store:
        traces = [trace(str(age), age=age / 100, size=1_000_000) for age in range(10)]
        fill(store, traces=traces, samples=[sample("9", age=0.09)])
        result = pruned(store, RetentionSettings(max_gb=0.0065))
        assert names(store) == {"0", "1", "2", "3", "4", "5"}
        assert (result.traces, result.bytes, result.samples) == (4, 4_000_000, 0)


def test_the_run_of_a_day_goes_when_its_samples_have_gone(any_url):
    with Store(any_url) as store:
        for name, kind in (("old", "live"), ("young", "live"), ("own", "agent")):
            run = new_run(store, id=name, kind=kind)
            store.save(run, attempts=[attempt(0)], evaluations=[evaluation(0)])
        with store.engine.begin() as connection:
            connection.execute(schema.runs.update().values(suite_name="m", created=NOW - 92 * DAY))
        fill(store, samples=[sample("a", age=92, run=1), sample("b", age=1, run=2)])
        assert pruned(store).runs == 1
        assert {run.id for run in store.runs()} == {"young", "own"}
        with store.engine.connect() as connection:
            for table in (schema.attempts, schema.evaluations):
                assert sorted(connection.execute(select(table.c.run)).scalars()) == [2, 3]


def test_no_total_falls_when_old_counts_and_runs_go(any_url):
    """Prometheus takes a counter that falls for one that begins anew, and adds all that is left to rates."""
    count = {"monitor": "m", "event": "scored", "reason": "", "number": 3}
    numbers = ("requests", "answered", "from_cache", "input_tokens", "output_tokens", "unpriced", "unknown",
               "unknown_tokens", "unknown_usd")  # fmt: skip
    cost = {"model": "j", "about": ""} | dict.fromkeys(numbers, 1)
    with Store(any_url) as store:
        fill(store, counts=[count | {"hour": int((NOW - age * DAY) / 3600)} for age in (405, 404, 1)])
        new_run(store, id="old", kind="live")
        with store.engine.begin() as connection:
            connection.execute(schema.runs.update().values(suite_name="m", created=NOW - 92 * DAY))
            connection.execute(insert(schema.spending).values(cost | {"run": 1, "cost_usd": 0.1234567}))
        for _ in range(2):  # deleting again changes nothing
            pruned(store)
            assert store.runs() == []
            assert counts_of(store) == {("m", "scored", ""): 9}
            assert counts_of(store, since=NOW - 2 * DAY) == {("m", "scored", ""): 3}
            assert 0.1234567 <= spent_usd(store)["m"] < 0.12346
            with store.engine.connect() as connection:
                rows = select(func.count()).select_from(schema.live_counts)
                assert connection.execute(rows).scalar() == 3


def test_old_counts_resolved_alerts_and_audit_lines_go(any_url):
    alert = {"monitor": "m", "cause": "c", "state": "resolved", "status": "warning", "opened": 0.0,
             "changed": 0.0, "body": "{}"}  # fmt: skip
    count = {"monitor": "m", "event": "scored", "reason": "", "number": 1}
    delivery = {"channel": 0, "state": "sent", "tries": 1, "due": 0.0, "body": "{}", "reason": None}
    with Store(any_url) as store:
        fill(
            store,
            counts=[count | {"hour": int((NOW - age * DAY) / 3600)} for age in (401, 1)],
            alerts=[alert | {"resolved": NOW - 500 * DAY}, alert | {"resolved": None}],
            deliveries=[delivery | {"alert": 1, "key": "a"}, delivery | {"alert": 2, "key": "b"}],
        )
        with store.engine.begin() as connection:
            for age in (401, 1):
                line = {"time": NOW - age * DAY, "actor": "a", "action": "b", "body": "{}"}
                connection.execute(insert(schema.audit).values(line))
        pruned(store)
        with store.engine.connect() as connection:
            hours = connection.execute(select(schema.live_counts.c.hour)).scalars()
            assert sorted(hours) == [0, int((NOW - DAY) / 3600)]  # the sum of the old ones, and yesterday's
            for table in (schema.live_alerts, schema.live_deliveries, schema.audit):
                assert connection.execute(select(func.count()).select_from(table)).scalar() == 1, table.name
            assert connection.execute(select(schema.live_deliveries.c.alert)).scalar() == 2


def test_the_file_gets_smaller(tmp_path):
    file: Path = tmp_path / "store.db"
    many = [str(number) for number in range(500)]
    with Store(str(file)) as store:
        fill(
            store,
            traces=[trace(name, age=2) for name in many],
            spans=[span(name, size=20_000) for name in many],
        )
        with store.engine.connect() as connection:
            connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)").close()
        before = file.stat().st_size
        result = pruned(store)
        with store.engine.connect() as connection:
            connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)").close()
        assert before - file.stat().st_size == result.file_bytes > 8_000_000


def test_it_pauses_between_transactions_so_that_others_can_write(any_url):
    with Store(any_url) as store:
        fill(store, traces=[trace(str(number), age=2) for number in range(450)])
        written = []

        def write(_seconds: float) -> None:
            fill(store, traces=[trace(f"new {len(written)}", age=0)])
            written.append(time.time())

        Retention(store, {"m": RetentionSettings()}, pause=write).prune(NOW)
        assert len(written) >= 3
        assert len(names(store)) == len(written)


def test_without_monitors_nothing_goes(url):
    with Store(url) as store:
        fill(store, traces=[trace("t", age=900)])
        assert Retention(store, {}).prune(NOW).traces == 0
        assert names(store) == {"t"}


@pytest.mark.parametrize("statement", ["_deletable", "size"])
def test_the_queries_use_indexes(url, statement):
    """None reads a whole table but the sum of sizes."""
    query = Retention._deletable(sampled=statement == "size").where(schema.live_traces.c.last < NOW)
    with Store(url) as store, store.engine.connect() as connection:
        text = query.compile(store.engine, compile_kwargs={"literal_binds": True})
        plan = [row[-1] for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {text}")]
    assert not [line for line in plan if line.startswith("SCAN")], plan


def test_a_span_that_comes_late_is_not_deleted_with_its_trace(any_url, monkeypatch):
    with Store(any_url) as store:
        on_sqlite = store.engine.dialect.name == "sqlite"
        fill(store, traces=[trace("old", age=2)], spans=[span("old")])
        if on_sqlite:  # it waits for the deletion, and makes the trace anew
            monkeypatch.setattr("trivium.store.connection.BUSY_MS", 50)
            real, locked = Retention._delete_traces, []

            def delete_traces(connection, rows):
                with Store(any_url) as other, pytest.raises(OperationalError, match="locked") as error:
                    fill(other, counts=[{"monitor": "", "hour": 1, "event": "e", "reason": "", "number": 1}])
                locked.append(error)
                return real(connection, rows)

            monkeypatch.setattr(Retention, "_delete_traces", staticmethod(delete_traces))
            pruned(store)
            assert locked
            assert names(store) == set()
        else:  # its trace is left alone
            with store.engine.begin() as adding:
                adding.execute(select(schema.live_traces).with_for_update()).all()
                pruned(store)
            assert names(store) == {"old"}
