"""Four runs are written by two processes at once, in a store that is new, while others read it."""

import sqlite3
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

import pytest
from sqlalchemy import func, select

import trivium as tv
from tests.store import many_writers
from tests.store.many_writers import ASKED, CASES
from trivium.errors import StoreError
from trivium.store import schema
from trivium.store.store import Store

PROCESSES, READERS = 2, 1


def test_nothing_is_lost_or_doubled(any_url: str) -> None:
    writers = [
        subprocess.Popen(
            [sys.executable, many_writers.__file__, any_url, f"process{number}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        )
        for number in range(PROCESSES)
    ]
    done, faults = threading.Event(), []
    readers = [threading.Thread(target=read, args=(any_url, done, faults)) for _ in range(READERS)]
    for reader in readers:
        reader.start()
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("go\n")
        writer.stdin.flush()
    finished = [writer.communicate() for writer in writers]
    done.set()
    for reader in readers:
        reader.join()
    assert [errors for _, errors in finished if errors] == []
    assert [writer.returncode for writer in writers] == [0] * PROCESSES
    assert faults == []
    ids = [run for printed, _ in finished for run in printed.split()]
    assert len(set(ids)) == 2 * PROCESSES
    with Store(any_url, read_only=True) as store:
        for run in ids:
            record = store.run(run)
            due = CASES if record.kind == "recorded" else ASKED
            assert record.state == "done"
            assert sorted(store.attempt_keys(record)) == [(position, 0) for position in range(due)]
            assert sorted(store.attempt_keys(record, scored_only=True)) == sorted(store.attempt_keys(record))
            summary = tv.Run(store, record).summary()
            assert summary.attempts == summary.metrics["jaccard"].n == due
            assert summary.metrics["jaccard"].mean == pytest.approx(0.75)
        with store.engine.connect() as connection:
            each = select(func.count()).select_from(schema.cases).group_by(schema.cases.c.suite)
            assert sorted(row[0] for row in connection.execute(each)) == [ASKED, CASES]


def test_a_file_that_another_begins_to_write_is_waited_for(tmp_path: Path) -> None:
    """SQLite itself does not wait before it turns on write-ahead logging."""
    file = tmp_path / "store.db"
    Store(f"sqlite:///{file}").close()
    other = sqlite3.connect(file, check_same_thread=False, isolation_level=None)
    other.execute("PRAGMA journal_mode=DELETE")  # as in a file that is just being made
    other.execute("BEGIN IMMEDIATE")
    release = threading.Timer(0.5, other.rollback)
    release.start()
    with Store(f"sqlite:///{file}") as store:
        release.join()
        assert list(store.runs()) == []
        with store.engine.connect() as connection:
            assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
    other.close()


def read(url: str, done: threading.Event, faults: list[object]) -> None:
    """What `trivium list` and `show` read: a run that is done is whole, and nothing is there twice."""
    while not done.is_set():
        try:
            with Store(url, read_only=True) as store:
                for record in store.runs():
                    scored = Counter(store.attempt_keys(record, scored_only=True))
                    if scored and max(scored.values()) > 1:
                        faults.append(record.id)
                    if record.state == "done" and tv.Run(store, record).summary().missing:
                        faults.append(record.id)
        except StoreError as error:
            if "holds no run yet" not in str(error) and "no store" not in str(error):
                faults.append(error)
