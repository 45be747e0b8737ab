"""Ledger in the store: records what a run spends on judges while it runs.

Several processes may spend the budget of one run. Each draws an amount before it spends it; the database
adds up what is drawn, under a lock, so that together they never draw more than the budget.
"""

from collections.abc import Mapping, Sequence

import msgspec
from sqlalchemy import Connection, cast, func, select, update

from trivium.metrics.judge.budget.ledger import Draw, Entry, Ledger, Spending
from trivium.store import schema as tables
from trivium.store.background_writer import Writer
from trivium.store.connection import fetched, insert_many, writing
from trivium.store.records import RunRecord
from trivium.store.store import Store

_SEPARATOR = "\x1f"
"""Separates the dimensions of an entry: the ASCII unit separator."""


class StoredLedger(Ledger):
    """Ledger in the store.

    Args:
        store: The store.
        run: The run.
    """

    def __init__(self, store: Store, run: RunRecord) -> None:
        super().__init__()
        self._engine = store.engine
        self._run = run.number
        self._entries = dict(entries_of(store, run))
        self._committed = committed_of(store, run)
        self._writer = Writer(store.engine)

    def record(self, entry: Entry, more: Spending) -> None:
        """Add spending to an entry; returns at once."""
        super().record(entry, more)
        self._writer.write(self._record, (entry, more))

    def draw(self, draw: Draw) -> bool:
        """Commit an amount unless a limit would be passed; returns when the database has it."""
        self._writer.flush()  # what was given back counts, and what was recorded
        table = tables.advances
        ours = table.c.run == self._run
        with writing(self._engine) as connection:
            nothing = {"run": self._run, "usd": 0.0, "tokens": 0}
            insert_many(connection, table, [nothing], unless_there=True)
            row = connection.execute(select(table.c.usd, table.c.tokens).where(ours).with_for_update()).one()
            recorded = _recorded(connection, self._run)
            # A run that had no budget before has spent without drawing.
            usd, tokens = max(row.usd, recorded.most_usd), max(row.tokens, recorded.most_tokens)
            fits = draw.fits(usd, tokens)
            if fits:
                usd, tokens = usd + draw.usd, tokens + draw.tokens
                connection.execute(update(table).where(ours).values(usd=usd, tokens=tokens))
        self._committed = (usd, tokens)
        return fits

    def give_back(self, *, usd: float, tokens: int) -> None:
        """Take an amount back from what is committed; returns at once."""
        self._writer.write(self._give_back, (usd, tokens))

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
            {"run": self._run, "model": model, "about": _SEPARATOR.join(about)} | msgspec.structs.asdict(more)
            for (model, about), more in sorted(sums.items())  # in one order: else processes wait in a circle
        ]
        insert_many(connection, tables.spending, rows, adding=Spending.__struct_fields__)

    def _give_back(self, connection: Connection, amounts: Sequence[tuple[float, int]]) -> None:
        table = tables.advances
        usd, tokens = sum(usd for usd, _ in amounts), sum(tokens for _, tokens in amounts)
        less = {"usd": table.c.usd - usd, "tokens": table.c.tokens - tokens}
        connection.execute(update(table).where(table.c.run == self._run).values(less))


def entries_of(store: Store, run: RunRecord) -> Mapping[Entry, Spending]:
    """Return the spending of a run by model and dimensions."""
    table = tables.spending
    figures = [table.c[name] for name in Spending.__struct_fields__]
    query = select(table.c.model, table.c.about, *figures).where(table.c.run == run.number)
    rows = fetched(store.engine, query.order_by(table.c.model, table.c.about)).mappings()
    return {
        (row.pop("model"), tuple(row.pop("about").split(_SEPARATOR))): Spending(**row)
        for row in map(dict, rows)
    }


def committed_of(store: Store, run: RunRecord) -> tuple[float, int]:
    """Return the most USD and tokens that a run may have spent."""
    table = tables.advances
    query = select(table.c.usd, table.c.tokens).where(table.c.run == run.number)
    row = fetched(store.engine, query).one_or_none()
    return (0.0, 0) if row is None else (row.usd, row.tokens)


def _recorded(connection: Connection, run: int) -> Spending:
    """What all processes have recorded for a run: what the most that was spent is computed from."""
    columns = [tables.spending.c[name] for name in Spending.__struct_fields__]
    # A sum of whole numbers is a decimal number on PostgreSQL.
    sums = [cast(func.coalesce(func.sum(each), 0), each.type).label(each.name) for each in columns]
    query = select(*sums).where(tables.spending.c.run == run)
    return Spending(**connection.execute(query).mappings().one())
