"""A backup holds every row, is made while others write, and can be restored into either database."""

import sqlite3
import stat
import threading
import time
from contextlib import closing, nullcontext
from pathlib import Path

import pytest
from sqlalchemy import insert, select

from tests.store.samples import attempt, evaluation, make_first_version, new_run
from trivium.cli.main import run_command
from trivium.errors import StoreError
from trivium.store import schema
from trivium.store.backup import back_up, restore
from trivium.store.store import Store
from trivium.store.tokens import Sessions, Tokens, matching

TOKEN = {
    "id": "t1", "name": "collector", "hash": "ab", "scopes": "ingest", "created": 1.5, "expires": None,
    "revoked": None, "used": 0.1 + 0.2,
}  # fmt: skip


def filled(url: str, *, runs: int = 1) -> None:
    with Store(url) as store:
        for number in range(1, runs + 1):
            run = new_run(store, id=f"r{number}")
            store.save(
                run,
                attempts=[attempt(0, output="ünï\x00ted"), attempt(1)],
                evaluations=[evaluation(0, passed=True), evaluation(1, value=None, passed=None)],
            )
            store.finish(run, "done", summary=None)
        with store.engine.begin() as connection:
            connection.execute(insert(schema.tokens).values(TOKEN))
            resource = {"id": "x", "body": bytes(range(256))}
            connection.execute(insert(schema.live_resources).values(resource))


def rows(url: str, table) -> list:
    with Store(url, read_only=True) as store, store.engine.connect() as connection:
        return sorted((tuple(row) for row in connection.execute(select(table))), key=repr)


def test_a_backup_is_a_store_with_every_row(any_url, tmp_path):
    filled(any_url)
    made = back_up(any_url, tmp_path / "backup.db")
    assert made.rows["attempts"] == 2
    assert made.bytes == (tmp_path / "backup.db").stat().st_size
    for table in schema.metadata.sorted_tables:
        assert rows(str(tmp_path / "backup.db"), table) == rows(any_url, table), table.name
    assert [file.name for file in tmp_path.glob("backup*")] == ["backup.db"]
    assert stat.S_IMODE((tmp_path / "backup.db").stat().st_mode) == 0o600


def test_a_backup_is_restored_into_either_database(any_url, tmp_path):
    """Also from SQLite into PostgreSQL; what is written then goes on with the next number."""
    own = f"sqlite:///{tmp_path / 'own.db'}"
    filled(own, runs=2)
    made = back_up(own, tmp_path / "backup.db")
    restored = restore(tmp_path / "backup.db", any_url, tokens=True)
    assert (restored.rows, restored.digest) == (made.rows, made.digest)
    assert rows(any_url, schema.tokens) == rows(own, schema.tokens)
    with Store(any_url) as store:
        assert new_run(store, id="next").number == 3
        assert [stored.attempt.output for stored in store.attempts(store.run("r1"))][1] == "answer"


def test_a_restore_brings_no_token_or_login_back(any_url, tmp_path, capsys):
    """A token that was revoked after the backup, and a login that was ended, are in it as active ones."""
    with Store(any_url) as store:
        now = time.time()
        for name in ("kept", "old"):
            made, secret = Tokens(store).create(name, ["admin"], now=now, actor="test")
        session = Sessions(store).open(made.id, now=now)
    back_up(any_url, tmp_path / "b.db")
    with Store(any_url) as store:
        Tokens(store).revoke("old", now=now, actor="test")
        Sessions(store).close(session, now=now)
    for extra, known in ((), 0), (("--with-tokens",), 2):
        url = f"sqlite:///{tmp_path / f'restored {known}.db'}"
        assert run_command(["restore", str(tmp_path / "b.db"), "--store", url, *extra]) == 0
        said = capsys.readouterr().err
        with Store(url) as store:
            active = Tokens(store).active(now)
            assert len(active) == known
            assert (matching(secret, active) is None) is (known == 0)
            assert Sessions(store).token_of(session, now=now) == (made.id if known else None)
        if known:
            assert f"{made.id} old (admin, 1 logins)" in said
            assert "work again, also if they were revoked" in said
        else:
            assert "2 tokens and 1 login are left out" in said


def test_equal_stores_have_equal_digests_and_others_do_not(tmp_path):
    for name in ("a", "b"):
        filled(f"sqlite:///{tmp_path / name}.db")
        with sqlite3.connect(tmp_path / f"{name}.db") as connection:
            connection.execute("UPDATE runs SET created = 1, touched = 2, finished = 3")
    first, second = (back_up(f"sqlite:///{tmp_path / name}.db", tmp_path / f"{name}.bak") for name in "ab")
    assert first.digest == second.digest
    with sqlite3.connect(tmp_path / "b.db") as connection:
        connection.execute("UPDATE runs SET created = 1.5")
    assert back_up(f"sqlite:///{tmp_path / 'b.db'}", tmp_path / "c.bak").digest != first.digest


def test_a_backup_is_one_snapshot_while_others_write(any_url, tmp_path):
    filled(any_url)
    end = threading.Event()

    def write() -> None:
        with Store(any_url) as store:
            for number in range(2, 10_000):
                run = new_run(store, id=f"r{number}")
                store.save(run, attempts=[attempt(0)])
                if end.is_set():
                    return

    writer = threading.Thread(target=write)
    writer.start()
    try:
        made = [back_up(any_url, tmp_path / f"{number}.db") for number in range(3)]
    finally:
        end.set()
        writer.join()
    for number, backup in enumerate(made):
        with sqlite3.connect(tmp_path / f"{number}.db") as connection:
            (orphans,) = connection.execute(
                "SELECT count(*) FROM attempts WHERE run NOT IN (SELECT number FROM runs)"
            ).fetchone()
        assert orphans == 0
        assert backup.rows["attempts"] >= backup.rows["runs"]  # each run has an attempt or two


def test_an_older_backup_is_restored(tmp_path):
    filled(f"sqlite:///{tmp_path / 'old.db'}")
    with sqlite3.connect(tmp_path / "old.db") as connection:
        make_first_version(connection)
    restore(tmp_path / "old.db", f"sqlite:///{tmp_path / 'new.db'}")
    with Store(str(tmp_path / "new.db")) as store:
        assert store.run().id == "r1"


ROWS_ALONE = {
    "a trigger": "CREATE TRIGGER t AFTER INSERT ON runs BEGIN DELETE FROM cases; END",
    "a view": "CREATE VIEW v AS SELECT load_extension('x') FROM runs",
    "a table of its own": "CREATE TABLE evil (body TEXT)",
    "a view instead of a table": "DROP TABLE labels; CREATE VIEW labels AS SELECT * FROM runs",
    "a table too few": "DROP TABLE live_marks",
    "an unknown revision": "UPDATE alembic_version SET version_num = '9999'",
    "a damaged revision": "UPDATE alembic_version SET version_num = ';--'",
}


@pytest.mark.parametrize(("what", "restored"), [*zip(ROWS_ALONE, [True] * 3 + [False] * 4, strict=True)])
def test_of_a_hostile_backup_nothing_but_rows_is_restored(tmp_path, what, restored):
    filled(f"sqlite:///{tmp_path / 'own.db'}")
    backup, new = tmp_path / "b.db", tmp_path / "new.db"
    back_up(f"sqlite:///{tmp_path / 'own.db'}", backup)
    with closing(sqlite3.connect(backup)) as connection:
        connection.executescript(ROWS_ALONE[what])
    refused = nullcontext() if restored else pytest.raises(StoreError)
    with refused:
        restore(backup, f"sqlite:///{new}")
    if new.exists():
        with closing(sqlite3.connect(new)) as connection:
            found = connection.execute("SELECT name FROM sqlite_master WHERE type <> 'index'")
            names = {name for (name,) in found} - set(schema.metadata.tables)
        assert names <= {"alembic_version", "sqlite_sequence"}
        with Store(str(new)) as store:
            assert [run.id for run in store.runs()] == ["r1"] * restored


@pytest.mark.parametrize("content", [b"", b"#!", bytes(9999), None])
def test_a_file_that_is_no_backup_or_half_of_one_is_refused(tmp_path, content):
    filled(f"sqlite:///{tmp_path / 'own.db'}")
    backup, new = tmp_path / "b.db", tmp_path / "new.db"
    back_up(f"sqlite:///{tmp_path / 'own.db'}", backup)
    whole = backup.read_bytes()
    backup.write_bytes(whole[: len(whole) // 2] if content is None else content)
    with pytest.raises(StoreError):
        restore(backup, f"sqlite:///{new}")
    assert not new.exists() or Store(str(new)).runs() == []


def test_a_store_that_holds_anything_is_left_alone(any_url, tmp_path):
    own = f"sqlite:///{tmp_path / 'own.db'}"
    filled(own)
    back_up(own, tmp_path / "backup.db")
    with Store(any_url) as store:
        new_run(store, id="mine")
    with pytest.raises(StoreError, match="holds cases, runs already"):
        restore(tmp_path / "backup.db", any_url)
    with Store(any_url) as store:
        assert [run.id for run in store.runs()] == ["mine"]


def test_a_backup_replaces_nothing_and_leaves_nothing_half_done(tmp_path, monkeypatch):
    own = f"sqlite:///{tmp_path / 'own.db'}"
    filled(own)
    (tmp_path / "taken.db").write_text("mine")
    with pytest.raises(StoreError, match="exists already"):
        back_up(own, tmp_path / "taken.db")
    monkeypatch.setattr("trivium.store.backup._digest_of", lambda _connection: "another")
    with pytest.raises(StoreError, match="differs from the store"):
        back_up(own, tmp_path / "backup.db")
    with pytest.raises(StoreError, match="there is no store yet"):
        back_up(f"sqlite:///{tmp_path / 'no.db'}", tmp_path / "backup.db")
    assert not list(tmp_path.glob("backup.db*"))


def test_a_restore_that_differs_keeps_nothing(tmp_path, monkeypatch):
    own = f"sqlite:///{tmp_path / 'own.db'}"
    filled(own)
    back_up(own, tmp_path / "backup.db")
    monkeypatch.setattr("trivium.store.backup._digest_of", lambda _connection: "another")
    with pytest.raises(StoreError, match="nothing was kept"):
        restore(tmp_path / "backup.db", f"sqlite:///{tmp_path / 'new.db'}")
    with Store(str(tmp_path / "new.db")) as store:
        assert store.runs() == []


def test_the_commands_say_what_was_copied(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    filled("sqlite:///own.db")
    assert run_command(["backup", "b.db", "--store", "sqlite:///own.db"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("b.db: a verified copy of the store: 10 rows, ")
    assert run_command(["restore", "b.db", "--store", "sqlite:///new.db", "--json"]) == 0
    assert '"attempts": 2' in capsys.readouterr().out
    assert run_command(["restore", "b.db", "--store", "sqlite:///new.db"]) == 2
    assert "holds" in capsys.readouterr().err
    assert run_command(["backup", "b.db", "--store", "sqlite:///own.db"]) == 2
    assert run_command(["restore", "no.db", "--store", "sqlite:///other.db"]) == 2
    assert "there is no store yet" in capsys.readouterr().err
    assert not Path("other.db").exists()
