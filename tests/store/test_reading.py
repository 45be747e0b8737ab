"""Tests that reading a store changes nothing and needs no write permission."""

import os
import sqlite3
import tempfile
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tests.store.samples import attempt, evaluation, make_first_version, new_run, older_store
from trivium.cli.main import run_command
from trivium.errors import StoreError
from trivium.store.migrations import NEWEST
from trivium.store.store import Store

READING = (["list"], ["show"], ["export"], ["compare", "r1", "r1"])


def _older_store(file: Path) -> None:
    """A store of the first schema, with a run."""
    with Store(str(file)) as store:
        run = new_run(store)
        store.save(run, attempts=[attempt(0)], evaluations=[evaluation(0)])
        store.finish(run, "done", summary=None)
    with closing(sqlite3.connect(file)) as connection, connection:
        make_first_version(connection)


def _schema(file: Path) -> str:
    with closing(sqlite3.connect(file)) as connection:
        (version,) = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    return version


def test_the_older_store_of_these_tests_is_as_the_first_migration_made_it(tmp_path):
    _older_store(tmp_path / "old.db")
    with older_store(f"sqlite:///{tmp_path / 'first.db'}", "0001"):
        pass
    old, first = (_columns(tmp_path / name) for name in ("old.db", "first.db"))
    assert old == first


def _columns(file: Path) -> set[tuple[str, str]]:
    with closing(sqlite3.connect(file)) as connection:
        query = (
            "SELECT m.name, c.name FROM sqlite_master m, pragma_table_info(m.name) c "
            "WHERE m.type = 'table' AND m.name != 'sqlite_sequence'"
        )
        return set(connection.execute(query))


def test_an_older_store_is_read_and_stays_as_it_is(tmp_path, capsys):
    file = tmp_path / "old.db"
    _older_store(file)
    before = file.read_bytes()
    for command in READING:
        code = run_command([*command, "--store", str(file)])
        captured = capsys.readouterr()
        assert code in {0, 3, 4}, captured.err
        assert "r1" in captured.out
    assert file.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["old.db"]


def test_the_migrated_copy_that_was_read_is_deleted(tmp_path, monkeypatch):
    _older_store(tmp_path / "old.db")
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    store = Store(str(tmp_path / "old.db"), read_only=True)
    assert [run.id for run in store.runs()] == ["r1"]
    assert list((tmp_path / "temporary").iterdir())
    store.close()
    assert not list((tmp_path / "temporary").iterdir())


def test_a_store_is_copied_before_it_is_migrated(tmp_path, caplog):
    file = tmp_path / "old.db"
    _older_store(file)
    Store(str(file)).close()
    assert _schema(file) == NEWEST
    copy = tmp_path / "old.db.schema-0001.bak"
    assert str(copy) in caplog.text
    assert _schema(copy) == "0001"
    with Store(str(copy), read_only=True) as store:
        assert [stored.attempt.case for stored in store.attempts(store.run("r1"))] == ["c0"]


def test_no_copy_replaces_another(tmp_path):
    file = tmp_path / "old.db"
    _older_store(file)
    (tmp_path / "old.db.schema-0001.bak").write_text("mine")
    Store(str(file)).close()
    assert (tmp_path / "old.db.schema-0001.bak").read_text() == "mine"
    assert _schema(tmp_path / "old.db.schema-0001.2.bak") == "0001"


def test_a_store_that_is_only_read_cannot_be_written_to(tmp_path):
    with Store(str(tmp_path / "s.db")) as store:
        new_run(store)
    with (
        Store(str(tmp_path / "s.db"), read_only=True) as store,
        pytest.raises(StoreError, match="is read-only"),
    ):
        store.save(store.run(), attempts=[attempt(0)])


def test_an_empty_file_holds_no_run_and_stays_empty(tmp_path):
    (tmp_path / "s.db").touch()
    with pytest.raises(StoreError, match="holds no run yet"):
        Store(str(tmp_path / "s.db"), read_only=True)
    assert (tmp_path / "s.db").stat().st_size == 0


@contextmanager
def _a_stranger():
    """Act as somebody who may write nothing here; root may always."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def public(tmp_path):
    """A folder that everyone may read."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder
        folder.chmod(0o755)


def test_a_store_in_a_folder_that_may_not_be_written_to_can_be_read(public, tmp_path, capsys):
    file, other = public / "s.db", tmp_path / "other.db"
    for each in (file, other):
        with Store(str(each)) as store:
            run = new_run(store)
            store.save(run, attempts=[attempt(0)], evaluations=[evaluation(0)])
            store.finish(run, "done", summary=None)
    for command in READING:  # modules are imported while they may be read
        run_command([*command, "--store", str(other)])
    file.chmod(0o444)
    public.chmod(0o555)
    capsys.readouterr()
    with _a_stranger():
        for command in READING:
            code = run_command([*command, "--store", str(file)])
            captured = capsys.readouterr()
            assert code in {0, 3, 4}, captured.err
            assert "r1" in captured.out
        with pytest.raises(StoreError, match="is read-only|cannot be opened"):
            Store(str(file))
    assert [each.name for each in public.iterdir()] == ["s.db"]


def test_the_write_ahead_log_of_such_a_store_is_never_ignored(public):
    file = public / "s.db"
    store = Store(str(file))
    new_run(store)  # still in the log
    (public / "copy").mkdir()
    for name in ("s.db", "s.db-wal"):
        (public / "copy" / name).write_bytes((public / name).read_bytes())
    store.close()
    (public / "copy").chmod(0o555)
    with _a_stranger(), pytest.raises(StoreError, match="s.db-wal beside it holds changes"):
        Store(str(public / "copy" / "s.db"), read_only=True)
    (public / "copy").chmod(0o755)
    with Store(str(public / "copy" / "s.db"), read_only=True) as copied:
        assert [run.id for run in copied.runs()] == ["r1"]
