"""Ledger in the store: records what a run spends on judges while it runs."""

from collections.abc import Mapping, Sequence
from functools import cache
from threading import Lock
from typing import TYPE_CHECKING

from sqlalchemy import Connection, select

from trivium.metrics.judge.budget.ledger import Entry, Spending
from trivium.store import schema as tables
from trivium.store.background_writer import Writer
from trivium.store.connection import explain_errors, insert_into
from trivium.store.records import RunRecord
from trivium.store.store import Store

if TYPE_CHECKING:
    from sqlalchemy.dialects.postgresql import Insert

_SEPARATOR = "\x1f"
"""Separates the dimensions of an entry: the ASCII unit separator."""


class StoredLedger:
    """Ledger in the store; see :class:`~trivium.metrics.judge.budget.ledger.Ledger`.

    Args:
        store: The store.
        run: The run, owned by this process.
    """

    def __init__(self, store: Store, run: RunRecord) -> None:
        self._run = run.number
        self._lock = Lock()
        self._entries = dict(entries_of(store, run))
        self._committed = committed_of(store, run)
        self._writer = Writer(store.engine, {"record": self._record, "commit": self._commit})

    def record(self, entry: Entry, more: Spending) -> None:
        """Add spending to an entry; returns at once."""
        with self._lock:
            self._entries[entry] = self._entries.get(entry, Spending()) + more
        self._writer.write("record", (entry, more))

    def commit(self, *, usd: float, tokens: int) -> None:
        """Record how much may be spent; returns when the database has it."""
        self._writer.write("commit", (usd, tokens))
        self._writer.flush()
        self._committed = (usd, tokens)

    def entries(self) -> Mapping[Entry, Spending]:
        """Return everything recorded so far for the run."""
        with self._lock:
            return dict(self._entries)

    def committed(self) -> tuple[float, int]:
        """Return the USD and tokens last committed."""
        return self._committed

    def close(self) -> None:
        """Block until everything is in the store.

        Raises:
            StoreError: If something could not be written.
        """
        self._writer.close()

    def _record(self, connection: Connection, additions: Sequence[tuple[Entry, Spending]]) -> None:
        sums: dict[Entry, Spending] = {}
        for entry, more in additions:
            sums[entry] = sums.get(entry, Spending()) + more
        rows = [
            {"run": self._run, "model": model, "about": _SEPARATOR.join(about)} | _fields(more)
            for (model, about), more in sums.items()
        ]
        connection.execute(_upsert(connection.dialect.name), rows)

    def _commit(self, connection: Connection, committed: Sequence[tuple[float, int]]) -> None:
        usd, tokens = committed[-1]
        statement = insert_into(connection.dialect.name, tables.advances).values(
            run=self._run, usd=usd, tokens=tokens
        )
        connection.execute(
            statement.on_conflict_do_update(index_elements=["run"], set_={"usd": usd, "tokens": tokens})
        )


def entries_of(store: Store, run: RunRecord) -> Mapping[Entry, Spending]:
    """Return the spending of a run by model and dimensions."""
    table = tables.spending
    query = select(table).where(table.c.run == run.number).order_by(table.c.model, table.c.about)
    with explain_errors(store.engine), store.engine.connect() as connection:
        rows = connection.execute(query).mappings().all()
    return {
        (row["model"], tuple(row["about"].split(_SEPARATOR))): Spending(
            **{name: row[name] for name in Spending.__struct_fields__}
        )
        for row in rows
    }


def committed_of(store: Store, run: RunRecord) -> tuple[float, int]:
    """Return the most USD and tokens that a run may have spent."""
    table = tables.advances
    query = select(table.c.usd, table.c.tokens).where(table.c.run == run.number)
    with explain_errors(store.engine), store.engine.connect() as connection:
        row = connection.execute(query).one_or_none()
    return (0.0, 0) if row is None else (row.usd, row.tokens)


@cache
def _upsert(dialect: str) -> "Insert":
    """Build the statement that adds spending; cached because building takes as long as executing it."""
    table = tables.spending
    statement = insert_into(dialect, table)
    added = {name: table.c[name] + statement.excluded[name] for name in Spending.__struct_fields__}
    return statement.on_conflict_do_update(index_elements=["run", "model", "about"], set_=added)


def _fields(more: Spending) -> dict[str, float | int]:
    return {name: getattr(more, name) for name in Spending.__struct_fields__}
