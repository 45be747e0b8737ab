"""Tests that records are read back unchanged and that errors lose nothing."""

import gc
import os
import random
import secrets
import sqlite3
import subprocess
import sys
import time
from contextlib import closing, nullcontext
from pathlib import Path

import msgspec
import pytest
import sqlalchemy as sa

from tests.store.samples import attempt, cases, evaluation, new_run
from trivium.cli.main import run_command
from trivium.errors import StoreError, StoreLost
from trivium.processes import has_certainly_ended, this_process
from trivium.store import schema as tables
from trivium.store.records import EvaluationOutline, Provenance
from trivium.store.store import Store
from trivium.suites.case import Case


def test_attempts_and_evaluations_come_back_as_they_were(any_url):
    with Store(any_url) as store:
        run = new_run(store)
        stored = [attempt(0), attempt(1, output={"b": [1, None]}), attempt(2, error="boom")]
        scored = [evaluation(0), evaluation(1, value=0.25, passed=None), evaluation(2, passed=False)]
        store.save(run, attempts=stored, evaluations=scored)
    with Store(any_url) as store:
        run = store.run()
        assert list(store.attempts(run)) == stored
        assert list(store.evaluations(run)) == scored
        assert list(store.cases(run.suite)) == cases(3)
        assert sorted(store.attempt_keys(run)) == [(0, 0), (1, 0), (2, 0)]


def test_evaluations_are_read_in_suite_order(any_url):
    with Store(any_url) as store:
        run = new_run(store)
        for position in (2, 0, 1):
            for repeat in (1, 0):
                store.save(
                    run,
                    attempts=[attempt(position, repeat=repeat)],
                    evaluations=[evaluation(position, repeat=repeat)],
                )
        found = [(one.position, one.evaluation.repeat) for one in store.evaluations(run)]
        assert found == [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1)]


def test_an_outline_is_the_evaluation_without_details(any_url):
    with Store(any_url) as store:
        run = new_run(store)
        store.save(run, evaluations=[evaluation(0), evaluation(1, value=0.25, passed=None)])
        for whole, (position, outline) in zip(store.evaluations(run), store.outlines(run), strict=True):
            plain = msgspec.to_builtins(whole.evaluation)
            for name, score in plain["scores"].items():
                assert score.pop("name") == name
                score.pop("detail", None)
            assert position == whole.position
            assert msgspec.convert(plain, EvaluationOutline) == outline


def test_views_join_case_attempt_and_evaluation_worst_first(any_url):
    with Store(any_url) as store:
        verdicts = [True, False, False, None, False, None, True]
        values = [0.0, 0.5, None, 0.4, 0.1, 0.2, 0.9]
        run = new_run(store, count=len(values))
        store.save(
            run,
            attempts=[attempt(i, output=f"o{i}") for i in range(len(values))],
            evaluations=[
                evaluation(i, value=value, passed=verdict)
                for i, (value, verdict) in enumerate(zip(values, verdicts, strict=True))
            ],
        )
        seen = [
            (case.id, one.output, scored.composite.value)
            for case, one, scored in store.views(run, worst_first=True)
        ]
        assert seen == [(f"c{i}", f"o{i}", values[i]) for i in (4, 1, 2, 5, 3, 0, 6)]


def test_a_case_of_one_attempt_alone_goes_before_the_suites(any_url):
    with Store(any_url) as store:
        run = new_run(store)
        own = Case(id="c0", input="question 0", references=("another",))
        from trivium.store.records import StoredAttempt

        store.save(
            run,
            attempts=[StoredAttempt(position=0, attempt=attempt(0).attempt, case=own)],
            evaluations=[evaluation(0)],
            own_cases=True,
        )
        ((case, _, _),) = store.views(run)
        assert case == own


def test_a_batch_with_one_attempt_that_is_there_already_leaves_nothing_behind(any_url):
    with Store(any_url) as store:
        run = new_run(store)
        store.save(run, attempts=[attempt(0)])
        with pytest.raises(StoreError):
            store.save(run, attempts=[attempt(1), attempt(0)])
        assert list(store.attempt_keys(run)) == [(0, 0)]


def test_unscored_attempts_are_those_without_an_evaluation(any_url):
    with Store(any_url) as store:
        run = new_run(store)
        store.save(run, attempts=[attempt(0), attempt(1), attempt(2)], evaluations=[evaluation(1)])
        assert [one.position for one in store.attempts(run, unscored_only=True)] == [0, 2]


def test_a_run_that_scores_anothers_attempts_again_sees_them(any_url):
    with Store(any_url) as store:
        first = new_run(store)
        store.save(first, attempts=[attempt(0)], evaluations=[evaluation(0)])
        again = new_run(store, id="r2", attempts_from=first.number)
        assert [one.position for one in store.attempts(again, unscored_only=True)] == [0]
        store.save(again, evaluations=[evaluation(0, value=0.9)])
        ((_, _, scored),) = store.views(again)
        assert scored.composite.value == 0.9
        ((_, _, before),) = store.views(first)
        assert before.composite.value == 0.5


def test_lone_surrogates_deep_in_a_trace_do_not_stop_the_store(any_url):
    with Store(any_url) as store:
        run = new_run(store)
        store.save(run, attempts=[attempt(0, metadata={"deep": ["\ud800"]})])
        (stored,) = store.attempts(run)
        assert stored.attempt.metadata == {"deep": ["\ufffd"]}


def test_runs_are_found_by_the_beginning_of_their_id(any_url):
    with Store(any_url) as store:
        new_run(store, id="20260101-aa")
        new_run(store, id="20260101-ab")
        new_run(store, id="20270101-aa")
        assert store.run("2027").id == "20270101-aa"
        assert store.run().id == "20270101-aa"
        assert [run.id for run in store.runs(limit=2)] == ["20270101-aa", "20260101-ab"]
        with pytest.raises(StoreError, match='several runs begin with "2026"'):
            store.run("2026")
        with pytest.raises(StoreError, match='no run is called "2o26".*Did you mean|no run is called'):
            store.run("2o26")
        with pytest.raises(StoreError, match='no run is called "latest". The newest is 20270101-aa'):
            store.run("latest")


def test_runs_of_one_store_keep_their_rows_apart(any_url):
    with Store(any_url) as store:
        runs = [new_run(store, id=f"r{number}") for number in range(3)]
        for suite in ("another", "further"):  # before and after theirs
            store.save_cases(suite, cases(3))
        for number, run in enumerate(runs):
            positions = range(number + 1)
            scored = [evaluation(at, value=number / 4, passed=number == 1) for at in positions]
            store.save(
                run, attempts=[attempt(at, output=f"of {number}") for at in positions], evaluations=scored
            )
            store.save_case_scores(run, [(number, scored[0].evaluation.scores)])
        store.save_case_scores(runs[1], [(0, {}), (2, {})])
        for number, run in enumerate(runs):
            outputs, values = [f"of {number}"] * (number + 1), [number / 4] * (number + 1)
            keys = [(at, 0) for at in range(number + 1)]
            assert list(store.attempt_keys(run)) == keys == list(store.attempt_keys(run, scored_only=True))
            assert [each.attempt.output for each in store.attempts(run)] == outputs
            assert [each.case for each in store.attempt_outlines(run)] == [f"c{at}" for at, _ in keys]
            assert len(list(store.attempt_usages(run))) == len(keys)
            assert [each.evaluation.composite.value for each in store.evaluations(run)] == values
            assert [(at, each.composite.value) for at, each in store.outlines(run)] == list(enumerate(values))
            assert sorted(store.verdicts(run)) == [(f"c{at}", 1, int(number == 1)) for at, _ in keys]
            assert [made.output for _, made, _ in store.views(run)] == outputs
            assert [scored.composite.value for _, _, scored in store.views(run)] == values
            assert [at for at, _ in store.case_scores(run)] == [[0], [0, 2], [2]][number]


def test_what_is_said_of_one_run_is_said_of_no_other(any_url):
    with Store(any_url) as store:
        before, run, after = [new_run(store, id=f"r{number}") for number in range(3)]
        store.save(run, attempts=[attempt(0)])
        for scored in (before, after):
            store.save(scored, attempts=[attempt(0)], evaluations=[evaluation(0)])
        assert [each.position for each in store.attempts(run, unscored_only=True)] == [0]
        store.set_provenance(run, Provenance(agent="new"))
        store.finish(run, "done", summary=None, due=7)
        assert [each.due for each in store.runs()] == [3, 7, 3]
        assert [each.provenance.agent for each in store.runs()] == [None, "new", None]
        assert [each.state for each in store.runs()] == ["running", "done", "running"]
        assert [each.finished is None for each in store.runs()] == [True, False, True]
        with store.engine.begin() as connection:
            connection.execute(sa.update(tables.runs).values(touched=0.0))  # all of them at the same time
        store.acquire(run)
        assert [each.state for each in store.runs()] == ["running"] * 3


def test_a_run_that_another_process_takes_meanwhile_is_not_acquired(any_url):
    with Store(any_url) as store:
        run = new_run(store)

        @sa.event.listens_for(store.engine, "before_cursor_execute")
        def take(_connection, cursor, statement, *_):
            if statement.startswith("UPDATE runs"):
                cursor.execute("UPDATE runs SET touched = touched + 1")

        with pytest.raises(StoreError, match="another process has just started writing run r1"):
            store.acquire(run)


def test_the_newest_run_is_one_of_production_only_where_there_is_no_other(any_url):
    with Store(any_url) as store:
        new_run(store, id="live", kind="live")
        assert store.run().id == "live"
        new_run(store, id="agent")
        new_run(store, id="later", kind="live")
        assert store.run().id == "agent"


def test_a_finished_run_is_as_long_as_it_was_unless_that_is_said(any_url):
    with Store(any_url) as store:
        run = new_run(store, count=3)
        store.finish(run, "done", summary=None)
        assert store.run().due == 3


def test_cases_are_those_of_their_suite_and_stored_once(any_url):
    with Store(any_url) as store:
        for suite, count in (("small", 2), ("large", 4), ("small", 3)):
            store.save_cases(suite, cases(count))
        assert [len(list(store.cases(suite))) for suite in ("small", "large")] == [2, 4]


def test_cases_of_an_earlier_and_a_later_suite_with_the_same_ids_are_never_read(any_url):
    with Store(any_url) as store:
        run = new_run(store, count=2)
        for other in ("a suite before it", "the suite after it"):
            store.save_cases(other, [Case(id=f"c{i}", input=other, group=other) for i in range(3)])
        store.save(
            run, attempts=[attempt(i) for i in range(2)], evaluations=[evaluation(i) for i in range(2)]
        )
        assert [case.input for case, _, _ in store.views(run)] == ["question 0", "question 1"]
        assert list(store.groups("digest", None)) == ["c0", "c1"]
        assert sorted(store.verdicts(run)) == [("c0", 1, 1), ("c1", 1, 1)]


def test_each_repeat_of_a_case_is_scored_for_itself(any_url):
    with Store(any_url) as store:
        run = new_run(store)
        store.save(run, attempts=[attempt(0, repeat=repeat) for repeat in range(3)])
        store.save(run, evaluations=[evaluation(0, repeat=1)])
        assert [each.attempt.repeat for each in store.attempts(run, unscored_only=True)] == [0, 2]
        assert [made.repeat for _, made, _ in store.views(run)] == [1]


def test_rows_show_that_their_run_is_alive_and_no_other(any_url):
    with Store(any_url) as store:
        written, other = new_run(store, id="written"), new_run(store, id="other")
        with store.engine.begin() as connection:
            connection.execute(sa.update(tables.runs).values(touched=0.0))
        store.save(written, attempts=[attempt(0)])
        with store.engine.connect() as connection:
            touched = dict(connection.execute(sa.select(tables.runs.c.id, tables.runs.c.touched)).all())
    assert touched[written.id] > touched[other.id] == 0.0


def test_a_store_that_is_never_closed_leaves_no_connection(url):
    store = Store(url)
    pool = store.engine.pool
    store.runs()
    assert pool.checkedin() > 0
    del store
    gc.collect()
    assert pool.checkedin() == 0


def test_a_percent_sign_in_an_id_is_not_a_wildcard(any_url):
    with Store(any_url) as store:
        new_run(store, id="abc")
        with pytest.raises(StoreError, match="no run is called"):
            store.run("%")


def test_a_run_of_a_living_process_cannot_be_acquired(url):
    with Store(url) as store:
        run = new_run(store)
        script = (
            "import sys; from trivium.store.store import Store; s = Store(sys.argv[1]); s.acquire(s.run())"
        )
        refused = subprocess.run([sys.executable, "-c", script, url], capture_output=True, text=True)
        assert refused.returncode != 0
        assert f"run {run.id} is being written by another process" in refused.stderr


def test_a_run_of_a_dead_process_is_acquired_at_once(url):
    script = (
        "import sys, os; from trivium.store.store import Store; s = Store(sys.argv[1]);"
        "s.save_cases('d', []);"
        "s.new_run(id='r', suite_name='s', suite='d', kind='agent', settings={})"
    )
    subprocess.run([sys.executable, "-c", script, url], check=True)
    with Store(url) as store:
        store.acquire(store.run())


@pytest.mark.parametrize(("seconds_ago", "refused"), [(1, True), (-1, True), (3600, False), (-3600, False)])
def test_a_run_of_another_machine_is_acquired_unless_it_was_just_written(any_url, seconds_ago, refused):
    """Whichever way the clock of one of the machines was set in between."""
    with Store(any_url) as store:
        run = new_run(store)
        elsewhere = {"owner": "elsewhere:1:2", "touched": time.time() - seconds_ago}
        with store.engine.begin() as connection:
            connection.execute(sa.update(tables.runs).values(elsewhere))
        with pytest.raises(StoreError, match="is being written") if refused else nullcontext():
            store.acquire(run)


def test_a_process_number_used_again_by_another_process_is_no_owner():
    host, pid, started = this_process().rsplit(":", 2)
    assert not has_certainly_ended(this_process())
    assert has_certainly_ended(f"{host}:{pid}:{int(started or 0) + 1}")
    assert not has_certainly_ended(f"elsewhere:{pid}:{started}")


@pytest.mark.skipif(not Path("/proc").exists(), reason="only the kernel tells, under /proc")
def test_a_zombie_process_counts_as_ended():
    host = this_process().rsplit(":", 2)[0]
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        started = Path(f"/proc/{child.pid}/stat").read_text().split()[21]
        owner = f"{host}:{child.pid}:{started}"
        assert not has_certainly_ended(owner)
        child.stdin.close()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert has_certainly_ended(owner)


def test_a_process_of_another_user_does_not_count_as_ended(monkeypatch):
    def refuse(pid, signal):
        raise PermissionError

    monkeypatch.setattr("os.kill", refuse)
    host, pid, _ = this_process().rsplit(":", 2)
    assert not has_certainly_ended(f"{host}:{pid}:0")


class TestABadStore:
    def test_of_another_program(self, tmp_path):
        file = tmp_path / "other.db"
        connection = sqlite3.connect(file)
        connection.execute("CREATE TABLE songs (name TEXT)")
        connection.close()
        with pytest.raises(StoreError, match="is a database of something else .it has songs"):
            Store(str(file))

    def test_that_is_no_database(self, tmp_path):
        file = tmp_path / "notes.txt"
        file.write_text("dear diary " * 200)
        with pytest.raises(StoreError, match="is not an SQLite database"):
            Store(str(file))

    def test_written_by_a_newer_version(self, url):
        Store(url).close()
        connection = sqlite3.connect(url.removeprefix("sqlite:///"))
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
        connection.commit()
        connection.close()
        with pytest.raises(StoreError, match="written by a newer Trivium .schema 9999"):
            Store(url)

    def test_that_is_a_folder(self, tmp_path):
        with pytest.raises(StoreError, match="is not a file"):
            Store(str(tmp_path))

    def test_that_is_not_there_when_only_reading(self, tmp_path):
        with pytest.raises(StoreError, match="there is no store yet"):
            Store(str(tmp_path / "none.db"), create=False)

    def test_that_may_not_be_written_to(self, url):
        with Store(url) as store:
            new_run(store)
        store = Store(url)
        from sqlalchemy import event

        event.listen(store.engine, "connect", lambda c, _: c.execute("PRAGMA query_only=ON"))
        store.engine.dispose()
        with pytest.raises(StoreError, match="is read-only"):
            store.save(store.run(), attempts=[attempt(0)])
        store.close()

    def test_under_a_file(self, tmp_path):
        (tmp_path / "file").write_text("")
        with pytest.raises(StoreError, match="cannot be made"):
            Store(str(tmp_path / "file" / "store.db"))

    @pytest.mark.parametrize("url", ["mysql://h/d", "sqlite://", "://"])
    def test_of_a_kind_that_is_not_known(self, url):
        with pytest.raises(StoreError, match="expected sqlite:///FILE|needs a file"):
            Store(url)

    def test_on_a_full_disk_keeps_what_was_stored(self, url):
        with Store(url) as store:
            run = new_run(store)
            store.save(run, attempts=[attempt(0)])
            pages = _pages(url)
            from sqlalchemy import event

            event.listen(
                store.engine, "connect", lambda c, _: c.execute(f"PRAGMA max_page_count={pages + 2}")
            )
            store.engine.dispose()
            with pytest.raises(StoreError, match="the disk is full. What was stored is safe"):
                store.save(run, attempts=[attempt(1, output="x" * 1_000_000)])
        with Store(url) as store:
            assert list(store.attempt_keys(store.run())) == [(0, 0)]

    def test_that_another_program_locks(self, url, monkeypatch):
        monkeypatch.setattr("trivium.store.connection.BUSY_MS", 10)
        with Store(url) as store:
            run = new_run(store)
            other = sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)
            other.execute("BEGIN EXCLUSIVE")
            with pytest.raises(StoreError, match="another program holds it locked"):
                store.save(run, attempts=[attempt(0)])
            other.execute("ROLLBACK")
            other.close()
            store.save(run, attempts=[attempt(0)])

    @pytest.mark.parametrize("seed", range(12))  # 3 makes a message of SQLite's that is no UTF-8
    def test_that_is_damaged(self, url, seed, capsys):
        with Store(url) as store:
            run = new_run(store)
            store.save(run, attempts=[attempt(i, output="x" * 5000) for i in range(3)])
        file = Path(url.removeprefix("sqlite:///"))
        body = bytearray(file.read_bytes())
        body[4096:] = random.Random(seed).randbytes(len(body) - 4096)
        file.write_bytes(body)
        with pytest.raises(StoreError):
            list(Store(url).runs())
        for command in ("list", "show", "export"):
            assert run_command([command, "--store", url]) == 2
            assert capsys.readouterr().err.startswith(f"Error: {url}: ")

    @pytest.mark.parametrize(
        ("change", "expected"),
        [
            ("DELETE FROM alembic_version", "its table alembic_version, which names the schema, is empty"),
            ("UPDATE alembic_version SET version_num = '0000'", 'no schema is called "0000"'),
            ("UPDATE alembic_version SET version_num = x'ff41'", "no schema is called"),
            ("DROP TABLE runs", "it lacks the tables runs"),
            ("ALTER TABLE runs RENAME TO others", "it lacks the tables runs"),
            ("ALTER TABLE runs RENAME COLUMN id TO name", "no such column"),
            ("UPDATE runs SET created = 'yesterday'", "a run in it cannot be read"),
            ("UPDATE runs SET id = x'ff00'", "a run in it cannot be read"),
            ("UPDATE runs SET id = CAST(x'ff41' AS TEXT)", "Could not decode to UTF-8"),
            ("UPDATE runs SET settings = 7", "holds a record that cannot be read"),
            ("UPDATE runs SET settings = '[1]'", "holds a record that cannot be read"),
        ],
    )
    def test_whose_rows_are_not_as_they_were_written(self, url, change, expected, capsys):
        with Store(url) as store:
            new_run(store)
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection, connection:
            connection.execute(change)
        for command in ("list", "show", "export"):
            assert run_command([command, "--store", url]) == 2
            error = capsys.readouterr().err
            assert error.startswith(f"Error: {url}: ")
            assert expected in error

    def test_that_is_deleted_while_it_is_written(self, url):
        with Store(url) as store:
            run = new_run(store)
            store.save(run, attempts=[attempt(0)])
            Path(url.removeprefix("sqlite:///")).unlink()
            with pytest.raises(StoreLost, match="was deleted or replaced"):
                store.save(run, attempts=[attempt(1)])
            store.engine.dispose()
            with pytest.raises(StoreLost, match="was deleted or replaced"):
                store.runs()
            assert not Path(url.removeprefix("sqlite:///")).exists()


def _pages(url: str) -> int:
    connection = sqlite3.connect(url.removeprefix("sqlite:///"))
    (count,) = connection.execute("PRAGMA page_count").fetchone()
    connection.close()
    return count


def test_a_password_is_not_shown():
    with pytest.raises(StoreError) as error:
        Store("mysql://ann:geheim@localhost/evals")
    assert "geheim" not in str(error.value)


def test_a_used_id_is_not_given_again(tmp_path, monkeypatch):
    digits = iter(["aaaa", "aaaa", "bbbb"])
    monkeypatch.setattr(secrets, "token_hex", lambda _: next(digits))
    monkeypatch.setattr(time, "gmtime", lambda: time.struct_time((2026, 1, 2, 3, 4, 5, 4, 2, 0)))
    with Store(str(tmp_path / "store.db")) as store:
        new_run(store, id=store.new_run_id())
        assert store.new_run_id() == "20260102-030405-bbbb"
