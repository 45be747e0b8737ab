"""StoredAnswers: the answers of judges, shared by the runs of a store."""

import logging
import time
import zlib
from collections.abc import Sequence
from threading import Lock

import msgspec
from sqlalchemy import Connection, delete, func, select

from trivium.metrics.judge.models.call import Reply
from trivium.store import tables
from trivium.store.merging import insert_into
from trivium.store.opening import plain_words
from trivium.store.records import RunRecord
from trivium.store.store import Store
from trivium.store.writer import Writer

log = logging.getLogger(__name__)

_KEYS_AT_ONCE = 500
_MOST_BYTES = 64_000_000
"""Of an answer unpacked: a body that claims to be more is damaged."""

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Reply)


class StoredAnswers:
    """Answers in the store; see :class:`~trivium.metrics.judge.kept.answers.Answers`.

    Args:
        store: The store.
        run: The run that keeps them, owned by this process.
        shared: Take the answers of other runs too; of several under one key the oldest counts.
    """

    def __init__(self, store: Store, run: RunRecord, *, shared: bool) -> None:
        self._store = store
        self._run = run.number
        self._shared = shared
        self._lock = Lock()
        self._on_the_way: dict[str, Reply] = {}
        self._written: list[str] = []
        self._writer = Writer(store.engine, {"keep": self._keep, "drop": self._drop})

    def fetch(self, keys: Sequence[str]) -> dict[str, Reply]:
        """Those that are there, a few queries for all of them.

        Raises:
            StoreError: If the store cannot be read.
        """
        with self._lock:
            found = {key: self._on_the_way[key] for key in keys if key in self._on_the_way}
        asked = [key for key in keys if key not in found]
        bodies: dict[str, bytes] = {}
        table = tables.answers
        with plain_words(self._store.engine), self._store.engine.connect() as connection:
            for start in range(0, len(asked), _KEYS_AT_ONCE):
                some = asked[start : start + _KEYS_AT_ONCE]
                query = select(table.c.key, table.c.body).where(table.c.key.in_(some))
                if not self._shared:
                    query = query.where(table.c.run == self._run)
                newest_first = connection.execute(query.order_by(table.c.run.desc()))
                bodies.update((key, body) for key, body in newest_first)
        read = {key: self._read(key, body) for key, body in bodies.items()}
        return found | {key: reply for key, reply in read.items() if reply is not None}

    def keep(self, key: str, reply: Reply) -> None:
        """Have a reply written; returns at once."""
        with self._lock:
            if key in self._on_the_way:
                return
            self._on_the_way[key] = reply
        self._writer.write("keep", (key, reply, time.time()))

    def drop(self, keys: Sequence[str]) -> None:
        """Have some deleted; returns at once."""
        with self._lock:
            for key in keys:
                self._on_the_way.pop(key, None)
        for key in keys:
            self._writer.write("drop", key)

    def close(self) -> None:
        """Return when everything is in the store.

        Raises:
            StoreError: If something could not be written.
        """
        self._writer.close()
        with self._lock:
            self._on_the_way.clear()

    def _keep(self, connection: Connection, kept: Sequence[tuple[str, Reply, float]]) -> None:
        with self._lock:
            # Those of the last transaction, which is committed when the next one begins.
            for key in self._written:
                self._on_the_way.pop(key, None)
            self._written = [key for key, _, _ in kept]
        rows = [
            {
                "key": key,
                "run": self._run,
                "created": created,
                "body": zlib.compress(_encoder.encode(reply), 1),
            }
            for key, reply, created in kept
        ]
        connection.execute(insert_into(connection, tables.answers).on_conflict_do_nothing(), rows)

    def _drop(self, connection: Connection, keys: Sequence[str]) -> None:
        table = tables.answers
        for start in range(0, len(keys), _KEYS_AT_ONCE):
            doomed = delete(table).where(table.c.key.in_(keys[start : start + _KEYS_AT_ONCE]))
            connection.execute(doomed if self._shared else doomed.where(table.c.run == self._run))

    def _read(self, key: str, body: bytes) -> Reply | None:
        """The reply in a body; a damaged one is dropped, and so asked for anew."""
        try:
            return _decoder.decode(zlib.decompressobj().decompress(body, _MOST_BYTES))
        except (zlib.error, msgspec.MsgspecError) as error:
            log.warning("%s: a kept answer is damaged and asked for anew (%s)", self._store.name, error)
            self.drop([key])
            return None


def count_answers(store: Store) -> tuple[int, int]:
    """How many answers a store keeps, and their bytes."""
    table = tables.answers
    query = select(func.count(), func.coalesce(func.sum(func.length(table.c.body)), 0))
    with plain_words(store.engine), store.engine.connect() as connection:
        count, size = connection.execute(query.select_from(table)).one()
    return int(count), int(size)


def empty_answers(store: Store) -> None:
    """Drop the answers of all runs but those that are running: they are paid for anew when they are due."""
    running = select(tables.runs.c.number).where(tables.runs.c.state == "running")
    with plain_words(store.engine), store.engine.begin() as connection:
        connection.execute(delete(tables.answers).where(tables.answers.c.run.not_in(running)))
