"""The index that a search looks in: filled in the background, a few attempts at a time.

It is made of what the store holds, and can be deleted and made again: a virtual table (FTS5) of SQLite, or a
table of word vectors with a GIN index on PostgreSQL. ``search_runs`` holds how far each run is indexed.
"""

import time
from collections.abc import Callable
from typing import Any

import msgspec
from sqlalchemy import (
    ARRAY,
    Connection,
    Text,
    and_,
    bindparam,
    case,
    cast,
    column,
    delete,
    func,
    insert,
    inspect,
    or_,
    select,
    table,
    tuple_,
    update,
)
from sqlalchemy.dialects.postgresql import insert as postgresql_insert

from trivium.store import schema
from trivium.store.browsing.documents import Document, documents_of, number_of, numbers_of_run
from trivium.store.browsing.words import index_words
from trivium.store.connection import LEASE_SECONDS, begin_writing, explain_errors
from trivium.store.store import Store

__all__ = ["INDEX", "IndexProgress", "SearchIndex", "has_index", "index_progress", "index_table"]

INDEX = "search_index"

ROWS_AT_ONCE = 50
"""Attempts that one transaction indexes: who writes a run waits no longer than for these."""

REMOVED_AT_ONCE = 500

IDLE_SECONDS = 5.0
"""Time between two looks for something new."""

LEAST_PAUSE = 0.01
IDLE_FACTOR, BUSY_FACTOR = 3.0, 9.0
"""The pause after a step is so many times as long as the step; the latter while a run is being written."""

# Without the prefixes, a word that is begun with the letters of a common one takes a second.
_FTS5 = "fts5(words, tokenize='ascii', detail='none', columnsize=0, prefix='3 4 5 6 7 8')"
_SQLITE = (f"CREATE VIRTUAL TABLE {INDEX} USING {_FTS5}",)
_POSTGRESQL_LOCK = "SELECT pg_advisory_xact_lock(32776894582191470)"
_POSTGRESQL = (
    f"CREATE TABLE {INDEX} (number bigint PRIMARY KEY, words tsvector NOT NULL)",
    f"CREATE INDEX ix_{INDEX}_words ON {INDEX} USING gin (words)",
)


class IndexProgress(msgspec.Struct, frozen=True, kw_only=True):
    """How much of a store can be searched.

    Attributes:
        indexed: Attempts in the index.
        attempts: Attempts of all runs, as far as they have said how many they have.
    """

    indexed: int
    attempts: int

    @property
    def complete(self) -> bool:
        """Whether everything can be found."""
        return self.indexed >= self.attempts


class SearchIndex:
    """Fills the index of a store; several servers may do so at once.

    Args:
        store: The store.
        clock: Returns the Unix time.
        timer: Gives seconds, to measure how long a step takes.
    """

    def __init__(
        self,
        store: Store,
        *,
        clock: Callable[[], float] = time.time,
        timer: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._store = store
        self._clock = clock
        self._timer = timer
        self._made = False

    def step(self) -> float:
        """Remove or add a few attempts.

        Returns:
            Seconds to wait before the next step.

        Raises:
            StoreError: If the store fails; the next step does this one again.
        """
        if self._store.read_only:
            return IDLE_SECONDS
        began = self._timer()
        with explain_errors(self._store.engine):
            self._make_index()
            worked = self._remove_one() or self._add()
            busy = worked and self._is_busy()
        if not worked:
            return IDLE_SECONDS
        return max(LEAST_PAUSE, (self._timer() - began) * (BUSY_FACTOR if busy else IDLE_FACTOR))

    def _make_index(self) -> None:
        if self._made:
            return
        with self._store.engine.begin() as connection:
            begin_writing(connection)
            is_sqlite = connection.dialect.name == "sqlite"
            if not is_sqlite:
                connection.exec_driver_sql(_POSTGRESQL_LOCK)
            if not inspect(connection).has_table(INDEX):
                for statement in _SQLITE if is_sqlite else _POSTGRESQL:
                    connection.exec_driver_sql(statement)
                # A store that was restored from a backup has these without the index.
                connection.execute(delete(schema.search_runs))
        self._made = True

    def _is_busy(self) -> bool:
        runs = schema.runs
        query = select(runs.c.number).where(
            runs.c.state == "running", runs.c.kind != "live", runs.c.touched > self._clock() - LEASE_SECONDS
        )
        with self._store.engine.connect() as connection:
            return connection.execute(query.limit(1)).first() is not None

    def _remove_one(self) -> bool:
        """Remove some documents of a run that is gone, or was written again since it was indexed."""
        runs, done = schema.runs, schema.search_runs
        same = and_(runs.c.number == done.c.run, runs.c.id == done.c.id)
        changed = and_(runs.c.kind != "live", runs.c.touched != done.c.touched)
        query = (
            select(done.c.run)
            .select_from(done.outerjoin(runs, same))
            .where(or_(runs.c.number.is_(None), changed))
        )
        with self._store.engine.connect() as connection:
            run = connection.execute(query.limit(1)).scalar()
        if run is None:
            return False
        first, last = numbers_of_run(run)
        index, key = index_table(self._store.engine.dialect.name)
        old = select(key).where(key.between(first, last)).limit(REMOVED_AT_ONCE)
        with self._store.engine.begin() as connection:
            begin_writing(connection)
            removed = connection.execute(delete(index).where(key.in_(old))).rowcount
            if removed < REMOVED_AT_ONCE:
                connection.execute(delete(done).where(done.c.run == run))
        return True

    def _next_run(self, connection: Connection) -> Any:
        """The newest run that has something to index, with how far it is indexed."""
        runs, done = schema.runs, schema.search_runs
        settled = or_(
            runs.c.state != "running",
            runs.c.kind == "live",
            runs.c.touched < self._clock() - LEASE_SECONDS,
        )
        new = or_(done.c.run.is_(None), done.c.complete.is_(False), done.c.touched != runs.c.touched)
        query = (
            select(
                runs.c.number,
                runs.c.id,
                runs.c.suite,
                runs.c.kind,
                runs.c.touched,
                runs.c.attempts_from,
                done.c.run.label("begun"),
                done.c.position,
                done.c.repeat,
                done.c.documents,
            )
            .select_from(runs.outerjoin(done, done.c.run == runs.c.number))
            .where(settled, new)
            .order_by(runs.c.number.desc())
            .limit(1)
        )
        return connection.execute(query).first()

    def _add(self) -> bool:
        with self._store.engine.connect() as connection:
            run = self._next_run(connection)
            if run is None:
                return False
            after = (-1, -1) if run.begun is None else (run.position, run.repeat)
            source = schema.attempts if run.attempts_from is None else schema.evaluations
            place = tuple_(source.c.position, source.c.repeat)
            keys = [
                (run.number, position, repeat)
                for position, repeat in connection.execute(
                    select(source.c.position, source.c.repeat)
                    .where(source.c.run == run.number, source.c.position >= after[0], place > after)
                    .order_by(source.c.position, source.c.repeat)
                    .limit(ROWS_AT_ONCE)
                )
            ]
            found = documents_of(connection, keys, store=self._store.name)
        rows = [(number_of(*key, kind=run.kind), _words(found[key])) for key in keys if key in found]
        last = keys[-1][1:] if keys else after
        values = {
            "touched": run.touched,
            "position": last[0],
            "repeat": last[1],
            "documents": (run.documents or 0) + len(keys),
            "complete": len(keys) < ROWS_AT_ONCE,
        }
        with self._store.engine.begin() as connection:
            begin_writing(connection)
            if self._advance(connection, run, values):
                self._insert(connection, [row for row in rows if row[1]])
        return True

    @staticmethod
    def _advance(connection: Connection, run: Any, values: dict[str, object]) -> bool:
        """Note how far a run is indexed, unless another server has indexed these attempts meanwhile."""
        done = schema.search_runs
        if run.begun is None:
            known = connection.execute(select(done.c.run).where(done.c.run == run.number)).first()
            if known is None:
                connection.execute(insert(done).values(run=run.number, id=run.id, **values))
            return known is None
        same = (done.c.run == run.number, done.c.position == run.position, done.c.repeat == run.repeat)
        return connection.execute(update(done).where(*same).values(values)).rowcount == 1

    @staticmethod
    def _insert(connection: Connection, rows: list[tuple[int, list[str]]]) -> None:
        if not rows:
            return
        index, key = index_table(connection.dialect.name)
        if connection.dialect.name == "sqlite":
            values = [{"rowid": number, "words": " ".join(words)} for number, words in rows]
            connection.execute(insert(index).prefix_with("OR REPLACE"), values)
        else:
            vector = func.array_to_tsvector(cast(bindparam("lexemes"), ARRAY(Text)))
            statement = postgresql_insert(index).values({key: bindparam("number"), index.c.words: vector})
            values = [{"number": number, "lexemes": words} for number, words in rows]
            connection.execute(statement.on_conflict_do_nothing(), values)


def index_table(dialect: str) -> tuple[Any, Any]:
    """The table of the index, and its column with the numbers of attempts."""
    key = "rowid" if dialect == "sqlite" else "number"
    index = table(INDEX, column(key), column("words"))
    return index, index.c[key]


def has_index(store: Store) -> bool:
    """Whether an index was ever begun."""
    return bool(inspect(store.engine).has_table(INDEX))


def index_progress(store: Store) -> IndexProgress:
    """How much of a store can be searched."""
    runs, done = schema.runs, schema.search_runs
    said = func.coalesce(runs.c.attempts, runs.c.due, 0)
    indexed = func.coalesce(done.c.documents, 0)
    due = case((done.c.complete.is_(True), indexed), (said > indexed, said), else_=indexed)
    query = select(func.coalesce(func.sum(indexed), 0), func.coalesce(func.sum(due), 0)).select_from(
        runs.outerjoin(done, and_(done.c.run == runs.c.number, done.c.id == runs.c.id))
    )
    with explain_errors(store.engine), store.engine.connect() as connection:
        found, attempts = connection.execute(query).one()
    return IndexProgress(indexed=int(found) if has_index(store) else 0, attempts=int(attempts))


def _words(document: Document) -> list[str]:
    return index_words(list(document.fields.values()))
