"""Compares new stores with those that were migrated from every older schema."""

import os
import resource
import signal
import sqlite3
import subprocess
import sys
from contextlib import suppress

import pytest
from sqlalchemy import Engine, event, insert, select, text

from tests.monitor.samples import sample, store_samples
from tests.store.samples import older_store
from trivium.errors import StoreError
from trivium.store import schema
from trivium.store.labels import NOBODY
from trivium.store.live_samples import Sample, samples_of
from trivium.store.migrations import NEWEST, REVISIONS
from trivium.store.store import Store


@pytest.mark.parametrize("revision", REVISIONS)
def test_an_older_store_becomes_as_a_new_one_is(tmp_path, revision):
    Store(str(tmp_path / "new.db")).close()
    with older_store(f"sqlite:///{tmp_path / 'migrated.db'}", revision):
        pass
    Store(str(tmp_path / "migrated.db")).close()
    new, migrated = (_all_of(tmp_path / name) for name in ("new.db", "migrated.db"))
    assert new == migrated
    assert new["alembic_version"][1] == [(NEWEST,)]


def _all_of(path):
    """Columns, indices and rows of every table."""
    connection = sqlite3.connect(path)
    named = connection.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name != 'sqlite_sequence'"
    ).fetchall()
    found = {}
    for (name,) in named:
        columns = connection.execute(f"PRAGMA table_info({name})").fetchall()
        rows = connection.execute(f"SELECT * FROM {name}").fetchall()
        indices = sorted(
            (unique, origin, tuple(connection.execute(f"PRAGMA index_info({index})").fetchall()))
            for _, index, unique, origin, _ in connection.execute(f"PRAGMA index_list({name})").fetchall()
        )
        found[name] = columns, rows, indices
    connection.close()
    return found


@pytest.mark.parametrize("table", [1, 4, 7])
def test_a_store_whose_making_is_cut_short_is_made_again(tmp_path, table):
    path = str(tmp_path / "new.db")
    code = (
        "import os, signal, sys\n"
        "from sqlalchemy import Engine, event\n"
        "from trivium.store.store import Store\n"
        "made = []\n"
        "def cut(statement):\n"
        "    made.extend([1] * ('CREATE TABLE' in statement))\n"
        "    if len(made) > int(sys.argv[2]):\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "@event.listens_for(Engine, 'connect')\n"
        "def trace(connection, _):\n"
        "    connection.set_trace_callback(cut)\n"
        "Store(sys.argv[1])\n"
    )
    killed = subprocess.run([sys.executable, "-c", code, path, str(table)])
    assert killed.returncode == -signal.SIGKILL
    with Store(path) as store:
        assert list(store.runs()) == []
    Store(str(tmp_path / "whole.db")).close()
    assert _all_of(path) == _all_of(tmp_path / "whole.db")


def test_a_store_whose_migration_is_cut_short_is_migrated_again(tmp_path):
    path = tmp_path / "old.db"
    with older_store(f"sqlite:///{path}", "0001"):
        pass
    before = _all_of(path)

    class CutShort(Exception):
        pass

    def cut(_connection, _cursor, statement, *_):
        if statement.startswith("UPDATE alembic_version"):
            raise CutShort

    event.listen(Engine, "before_cursor_execute", cut)
    try:
        with pytest.raises(CutShort):
            Store(str(path))
    finally:
        event.remove(Engine, "before_cursor_execute", cut)
    assert _all_of(path) == before
    Store(str(path)).close()
    Store(str(tmp_path / "whole.db")).close()
    assert _all_of(path) == _all_of(tmp_path / "whole.db")


def test_an_older_store_in_which_a_view_has_the_name_of_a_later_table_is_refused_as_it_is(any_url):
    with older_store(any_url, "0001") as connection:
        connection.exec_driver_sql("CREATE VIEW labels AS SELECT * FROM runs")
    with pytest.raises(StoreError, match="labels.* already exists"):
        Store(any_url)
    with pytest.raises(StoreError, match="older Trivium|labels.* already exists"):
        Store(any_url, read_only=True)


def test_a_run_whose_summary_is_damaged_is_migrated_without_its_figures(any_url):
    summaries = [
        '{"pass_rate": {"value": 0.5, "ci95": [0.25, 0.75]}}', '{"pass_rate": 5}', '{"composite": [1]}',
        '{"pass_rate": {"value": 0.5, "ci95": [1, 2, 3]}}', '{"pass_rate": {"value": {}}}', "[1", None,
    ]  # fmt: skip
    row = {"suite_name": "s", "suite": "", "kind": "agent", "state": "done", "created": 1.0, "touched": 1.0}
    row |= {"settings": "{}", "provenance": "{}"}
    columns = [*row, "id", "summary"]
    inserted = f"INSERT INTO runs ({', '.join(columns)}) VALUES (:{', :'.join(columns)})"
    with older_store(any_url, "0004") as connection:
        for number, summary in enumerate(summaries):
            connection.execute(text(inserted), {**row, "id": str(number), "summary": summary})
    runs = schema.runs.c
    with Store(any_url) as store, store.engine.connect() as connection:
        found = connection.execute(select(runs.pass_rate, runs.pass_rate_low).order_by(runs.number)).all()
        assert found == [(0.5, 0.25)] + [(None, None)] * 6


def test_a_store_that_kept_no_grants_takes_who_holds_or_answered_an_item_as_asked(any_url):
    label = {
        "run": "r", "case": "c", "repeat": 0, "dimension": "d", "answer": "label", "value": 1.0, "at": 5.0,
        "queue": 1, "place": 1,
    }  # fmt: skip
    with older_store(any_url, "0008") as connection:
        for key, by, how in (("a", "ann", "uniform"), ("b", "dora", "adjudicated"), ("c", NOBODY, "uniform")):
            connection.execute(insert(schema.labels).values({**label, "key": key, "by": by, "how": how}))
        held = {"queue": 1, "by": "ben", "place": 2, "slot": 0, "until": 9.0}
        connection.execute(insert(schema.label_leases).values(held))
    with Store(any_url) as store, store.engine.connect() as connection:
        found = connection.execute(select(schema.label_grants).order_by(schema.label_grants.c.place))
        assert [tuple(row) for row in found] == [(1, 1, "ann", 5.0, 5.0), (1, 2, "ben", 9.0, 9.0)]


def test_samples_that_were_stored_before_costs_were_have_none(any_url):
    fields = {name: getattr(sample(1), name) for name in Sample.__struct_fields__}
    row = {**fields, "facets": "{}"}
    with older_store(any_url, "0011") as connection:
        columns = ", ".join(
            column.name for column in schema.live_samples.columns if column.name != "cost_usd"
        )
        values = ", ".join(f":{name}" for name in columns.split(", "))
        connection.execute(text(f"INSERT INTO live_samples ({columns}) VALUES ({values})"), row)
    with Store(any_url) as store:
        (found,) = samples_of(store, "support")
        assert (found.trace, found.seconds, found.cost_usd) == ("t1", 1.0, None)


def test_the_numbers_of_deleted_samples_are_not_given_again(any_url):
    """What goes on after a number, as watchers do, would take new samples for known ones."""
    with older_store(any_url, "0012") as connection:
        left_out = {"number", "scores"}
        row = {name: getattr(sample(1), name) for name in Sample.__struct_fields__ if name not in left_out}
        connection.execute(schema.live_samples.insert(), {**row, "facets": "{}"})
    with Store(any_url) as store:
        assert samples_of(store, "support") == [sample(1)]
        for number in (2, 3):
            with store.engine.begin() as connection:
                connection.execute(schema.live_samples.delete())
            store_samples(store, [sample(number)])
            assert samples_of(store, "support", after=number - 1) == [sample(number)]


def test_a_new_store_is_made_once_by_processes_that_begin_together(tmp_path):
    code = "import sys; from trivium.store.store import Store; sys.stdin.read(1); Store(sys.argv[1]).close()"
    command = [sys.executable, "-c", code, str(tmp_path / "new.db")]
    several = [subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(3)]
    for process in several:
        process.stdin.write(b"x")
        process.stdin.flush()
    assert [(process.communicate()[1], process.returncode) for process in several] == [(b"", 0)] * 3


def test_a_connection_made_while_another_one_writes_does_not_wait(tmp_path):
    with Store(str(tmp_path / "store.db")) as store:
        engine = store.engine
        with engine.connect() as writing:
            writing.exec_driver_sql("BEGIN IMMEDIATE")
            with engine.connect() as reading:  # it would be refused after 30 s
                assert reading.exec_driver_sql("PRAGMA auto_vacuum").scalar() == 2
                assert reading.exec_driver_sql("PRAGMA page_size").scalar() == 16384


@pytest.fixture
def no_handles():
    """Hold every file handle that this process may have; the list of those held is emptied to free them."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 256), hard))
    held = []

    def free():
        while held:
            os.close(held.pop())

    def hold():
        with suppress(OSError):
            while True:
                held.append(os.dup(0))
        return free

    yield hold
    free()
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_store_waits_for_file_handles_that_the_process_uses_elsewhere(tmp_path, monkeypatch, no_handles):
    store = Store(str(tmp_path / "s.db"))
    store.close()  # its connections, so that it needs a new one
    free = no_handles()
    waited = []

    def sleep(seconds):
        waited.append(seconds)
        if len(waited) == 3:
            free()

    monkeypatch.setattr("trivium.store.connection.time.sleep", sleep)
    assert store.runs() == []
    assert len(waited) == 3
    store.close()


def test_a_store_without_file_handles_says_so_in_the_end(tmp_path, monkeypatch, no_handles):
    store = Store(str(tmp_path / "s.db"))
    store.close()
    monkeypatch.setattr("trivium.store.connection.BUSY_MS", 30)
    free = no_handles()
    try:
        with pytest.raises(StoreError, match=r"s\.db.*has no file handle left \(ulimit -n\)"):
            store.runs()
    finally:
        free()
    assert store.runs() == []
    store.close()


def test_a_new_store_is_made_although_a_profiler_keeps_what_its_statements_used(tmp_path):
    kept = []

    def keep(_connection, cursor, *_):
        kept.append(cursor)

    event.listen(Engine, "after_cursor_execute", keep)
    try:
        with Store(str(tmp_path / "store.db")) as store, store.engine.connect() as connection:
            assert connection.execute(select(schema.runs.c.number)).all() == []
    finally:
        event.remove(Engine, "after_cursor_execute", keep)
    assert kept


@pytest.mark.parametrize(("server", "here"), [("", "64"), ("0", "0"), ("200", "200")])
@pytest.mark.parametrize("any_url", ["postgresql"], indirect=True)
def test_scattered_pages_are_asked_of_the_disk_together_unless_the_server_cannot_or_does_more(
    any_url, server, here
):
    """A server without such reads has 0 and refuses other numbers."""
    if server:
        any_url += f"?options=-c%20effective_io_concurrency%3D{server}"
    with Store(any_url) as store, store.engine.connect() as connection:
        assert connection.execute(text("SHOW effective_io_concurrency")).scalar_one() == here
