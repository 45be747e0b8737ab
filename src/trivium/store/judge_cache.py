"""Response cache of judges in the store, shared by its runs and bounded in size."""

import logging
import time
import zlib
from collections.abc import Sequence
from threading import Lock

import msgspec
from sqlalchemy import Connection, bindparam, delete, func, select, update

from trivium.metrics.judge.client.request import ModelResponse
from trivium.store import schema as tables
from trivium.store.background_writer import Work, Writer
from trivium.store.connection import explain_errors, insert_into
from trivium.store.records import RunRecord
from trivium.store.store import Store

log = logging.getLogger(__name__)

_KEYS_AT_ONCE = 500
_MOST_BYTES = 64_000_000
"""Most bytes of an unpacked response; a larger body is damaged."""

_USED_AGAIN = 3600.0
"""Seconds after which a further use is recorded: not each use is worth a write."""

_LOOKED_AFTER = 0.05
"""Share of the size limit that a run writes before it checks the limit."""

_ROOM = 0.1
"""Share of the size limit that is freed at once, so that the next response does not reach it again."""

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(ModelResponse)


class StoredResponseCache:
    """Response cache in the store; see :class:`~trivium.metrics.judge.client.cache.ResponseCache`.

    Args:
        store: The store.
        run: The run that keeps them, owned by this process.
        shared: Take the answers of other runs too; of several under one key the oldest counts.
        most_mb: Megabytes of answers that the store keeps, or None for no bound. Beyond it those leave that
            were not used for longest; those of runs that are going on stay, and this run's until it is over.
    """

    def __init__(self, store: Store, run: RunRecord, *, shared: bool, most_mb: float | None = None) -> None:
        self._store = store
        self._run = run.number
        self._shared = shared
        self._most_bytes = None if most_mb is None else most_mb * 1e6
        self._not_looked_at = 0
        self._lock = Lock()
        self._on_the_way: dict[str, ModelResponse] = {}
        self._written: list[str] = []
        works: dict[str, Work] = {
            "put": self._put,
            "drop": self._drop,
            "use": self._use,
            "over": self._over,
        }
        self._writer = Writer(store.engine, works)

    def fetch(self, keys: Sequence[str]) -> dict[str, ModelResponse]:
        """Return the cached ones among some keys, with a few queries.

        Raises:
            StoreError: If the store cannot be read.
        """
        with self._lock:
            found = {key: self._on_the_way[key] for key in keys if key in self._on_the_way}
        asked = [key for key in keys if key not in found]
        bodies: dict[str, bytes] = {}
        used_again: set[tuple[str, int]] = set()
        table, now = tables.answers, time.time()
        with explain_errors(self._store.engine), self._store.engine.connect() as connection:
            for start in range(0, len(asked), _KEYS_AT_ONCE):
                some = asked[start : start + _KEYS_AT_ONCE]
                query = select(table.c.key, table.c.body, table.c.run, table.c.used)
                query = query.where(table.c.key.in_(some))
                if not self._shared:
                    query = query.where(table.c.run == self._run)
                newest_first = connection.execute(query.order_by(table.c.run.desc()))
                for key, body, run, used in newest_first:
                    bodies[key] = body
                    if used < now - _USED_AGAIN:
                        used_again.add((key, run))
        for each in used_again:
            self._writer.write("use", (*each, now))
        read = {key: self._read(key, body) for key, body in bodies.items()}
        return found | {key: response for key, response in read.items() if response is not None}

    def put(self, key: str, response: ModelResponse) -> None:
        """Queue a response for writing; returns at once."""
        with self._lock:
            if key in self._on_the_way:
                return
            self._on_the_way[key] = response
        self._writer.write("put", (key, response, time.time()))

    def pending(self) -> int:
        """Number of writes not yet committed."""
        return self._writer.waiting

    def drop(self, keys: Sequence[str]) -> None:
        """Queue some for deletion; returns at once."""
        with self._lock:
            for key in keys:
                self._on_the_way.pop(key, None)
        for key in keys:
            self._writer.write("drop", key)

    def over(self) -> None:
        """Let the responses of this run be evicted like any other: the run has ended."""
        self._writer.write("over", None)

    def close(self) -> None:
        """Block until everything is in the store.

        Raises:
            StoreError: If something could not be written.
        """
        self._writer.close()
        with self._lock:
            self._on_the_way.clear()

    def _put(self, connection: Connection, kept: Sequence[tuple[str, ModelResponse, float]]) -> None:
        with self._lock:
            # Those of the last transaction, which is committed when the next one begins.
            for key in self._written:
                self._on_the_way.pop(key, None)
            self._written = [key for key, _, _ in kept]
        bodies = [zlib.compress(_encoder.encode(response), 1) for _, response, _ in kept]
        rows = [
            {
                "key": key,
                "run": self._run,
                "created": created,
                "used": created,
                "body": body,
                "size": len(body),
            }
            for (key, _, created), body in zip(kept, bodies, strict=True)
        ]
        into = insert_into(connection.dialect.name, tables.answers)
        connection.execute(into.on_conflict_do_nothing(), rows)
        self._not_looked_at += sum(map(len, bodies))
        if self._most_bytes is not None and self._not_looked_at > _LOOKED_AFTER * self._most_bytes:
            self._not_looked_at = 0
            _bound(connection, self._most_bytes, leave=None)

    def _use(self, connection: Connection, uses: Sequence[tuple[str, int, float]]) -> None:
        table = tables.answers
        statement = update(table).where(table.c.key == bindparam("k"), table.c.run == bindparam("r"))
        rows = [{"k": key, "r": run, "u": now} for key, run, now in uses]
        connection.execute(statement.values(used=bindparam("u")), rows)

    def _over(self, connection: Connection, _: Sequence[None]) -> None:
        if self._most_bytes is not None:
            _bound(connection, self._most_bytes, leave=self._run)

    def _drop(self, connection: Connection, keys: Sequence[str]) -> None:
        table = tables.answers
        for start in range(0, len(keys), _KEYS_AT_ONCE):
            doomed = delete(table).where(table.c.key.in_(keys[start : start + _KEYS_AT_ONCE]))
            connection.execute(doomed if self._shared else doomed.where(table.c.run == self._run))

    def _read(self, key: str, body: bytes) -> ModelResponse | None:
        """Decode a stored response; a damaged one is dropped, so that it is asked for again."""
        try:
            return _decoder.decode(zlib.decompressobj().decompress(body, _MOST_BYTES))
        except (zlib.error, msgspec.MsgspecError) as error:
            log.warning("%s: a kept answer is damaged and asked for anew (%s)", self._store.name, error)
            self.drop([key])
            return None


def _bound(connection: Connection, most_bytes: float, *, leave: int | None) -> None:
    """Evict the least recently used responses if the cache exceeds its size.

    Args:
        connection: In a transaction.
        most_bytes: That may be.
        leave: A run whose answers may leave though it is going on.
    """
    table = tables.answers
    total = connection.execute(select(func.coalesce(func.sum(table.c.size), 0))).scalar_one()
    if total <= most_bytes:
        return
    excess = total - (1 - _ROOM) * most_bytes
    going_on = select(tables.runs.c.number).where(tables.runs.c.state == "running")
    if leave is not None:
        going_on = going_on.where(tables.runs.c.number != leave)
    may_leave = table.c.run.not_in(going_on)
    last = None
    for used, size in connection.execute(
        select(table.c.used, table.c.size).where(may_leave).order_by(table.c.used)
    ):
        if excess <= 0:
            break
        excess -= size
        last = used
    if last is not None:
        gone = connection.execute(delete(table).where(may_leave, table.c.used <= last)).rowcount
        log.info("%s answers of judges left the cache, not used for longest (judge.cache_mb)", f"{gone:,}")


class CacheSize(msgspec.Struct, frozen=True, kw_only=True):
    """Size of the response cache of a store.

    Attributes:
        answers: Number of responses.
        bytes: Total size in bytes.
        oldest: When the least recently used response was last used, Unix time in seconds; None if empty.
    """

    answers: int
    bytes: int
    oldest: float | None


def cache_size(store: Store) -> CacheSize:
    """Return the number and size of the cached responses of a store."""
    table = tables.answers
    query = select(func.count(), func.coalesce(func.sum(table.c.size), 0), func.min(table.c.used))
    with explain_errors(store.engine), store.engine.connect() as connection:
        count, size, oldest = connection.execute(query.select_from(table)).one()
    return CacheSize(answers=int(count), bytes=int(size), oldest=oldest)


def empty_cache(store: Store) -> None:
    """Delete the cached responses of all runs that have ended; when needed again, they cost again."""
    running = select(tables.runs.c.number).where(tables.runs.c.state == "running")
    with explain_errors(store.engine), store.engine.begin() as connection:
        connection.execute(delete(tables.answers).where(tables.answers.c.run.not_in(running)))
