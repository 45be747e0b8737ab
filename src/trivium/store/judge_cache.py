"""Response cache of judges in the store, shared by its runs and bounded in size."""

import logging
import time
import zlib
from collections.abc import Sequence

import msgspec
from sqlalchemy import Connection, bindparam, delete, func, select, update

from trivium.metrics.judge.client.request import ModelResponse, ResponseCache
from trivium.store import schema as tables
from trivium.store.background_writer import Writer
from trivium.store.connection import explain_errors, fetched, insert_many
from trivium.store.records import RunRecord
from trivium.store.store import Store

log = logging.getLogger(__name__)

_KEYS_PER_QUERY = 500
_MAX_BYTES = 64_000_000
"""Most bytes of an unpacked response; a larger body is damaged."""

_RECORD_USE_AFTER_SECONDS = 3600.0
"""A use is recorded only if the last recorded one is older than this, to save writes."""

_CHECKED_SHARE = 0.05
"""Share of the size limit that a run writes between two checks of the limit."""

_FREED_SHARE = 0.1
"""Share of the size limit that is freed at once, so that the next responses fit without evicting."""

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(ModelResponse)


class StoredResponseCache(ResponseCache):
    """Response cache in the store; in memory is what is not committed yet.

    Args:
        store: The store.
        run: The run that stores its responses here, owned by this process.
        shared: Also return responses of other runs; of several under one key, the oldest.
        max_mb: Size limit of the store's responses in megabytes, or None. Beyond it, the least recently
            used are evicted, except those of runs in progress (see :meth:`allow_eviction`).
    """

    def __init__(self, store: Store, run: RunRecord, *, shared: bool, max_mb: float | None = None) -> None:
        super().__init__()
        self._store = store
        self._run = run.number
        self._shared = shared
        self._max_bytes = None if max_mb is None else max_mb * 1e6
        self._unchecked_bytes = 0
        self._written: list[str] = []
        self._writer = Writer(store.engine)

    def fetch(self, keys: Sequence[str]) -> dict[str, ModelResponse]:
        """Return the cached responses among the keys, with one query per 500 keys.

        Raises:
            StoreError: If the store cannot be read.
        """
        cached = super().fetch(keys)
        queried = [key for key in keys if key not in cached]
        bodies: dict[str, bytes] = {}
        used_again: set[tuple[str, int]] = set()
        table, now = tables.answers, time.time()
        with explain_errors(self._store.engine), self._store.engine.connect() as connection:
            for start in range(0, len(queried), _KEYS_PER_QUERY):
                batch = queried[start : start + _KEYS_PER_QUERY]
                query = select(table.c.key, table.c.body, table.c.run, table.c.used)
                query = query.where(table.c.key.in_(batch))
                if not self._shared:
                    query = query.where(table.c.run == self._run)
                newest_first = connection.execute(query.order_by(table.c.run.desc()))
                for key, body, run, used in newest_first:
                    bodies[key] = body
                    if used < now - _RECORD_USE_AFTER_SECONDS:
                        used_again.add((key, run))
        for each in used_again:
            self._writer.write(self._use, (*each, now))
        decoded = {key: self._decode(key, body) for key, body in bodies.items()}
        return cached | {key: response for key, response in decoded.items() if response is not None}

    def put(self, key: str, response: ModelResponse) -> None:
        """Queue a response for writing; returns at once."""
        with self._lock:
            if key in self._responses:
                return
            self._responses[key] = response
        self._writer.write(self._put, (key, response, time.time()))

    def pending(self) -> int:
        """Number of writes not yet committed."""
        return self._writer.pending

    def drop(self, keys: Sequence[str]) -> None:
        """Queue responses for deletion; returns at once."""
        super().drop(keys)
        for key in keys:
            self._writer.write(self._drop, key)

    def allow_eviction(self) -> None:
        """Let the responses of this run be evicted like any others; call it when the run has ended."""
        self._writer.write(self._allow_eviction, None)

    def close(self) -> None:
        """Block until everything is in the store.

        Raises:
            StoreError: If something could not be written.
        """
        self._writer.close()
        with self._lock:
            self._responses.clear()

    def _put(self, connection: Connection, responses: Sequence[tuple[str, ModelResponse, float]]) -> None:
        with self._lock:
            # The last transaction is committed by now, so its responses can be read from the table.
            for key in self._written:
                self._responses.pop(key, None)
            self._written = [key for key, _, _ in responses]
        bodies = [zlib.compress(_encoder.encode(response), 1) for _, response, _ in responses]
        rows = [
            {
                "key": key,
                "run": self._run,
                "created": created,
                "used": created,
                "body": body,
                "size": len(body),
            }
            for (key, _, created), body in zip(responses, bodies, strict=True)
        ]
        insert_many(connection, tables.answers, rows, unless_there=True)
        self._unchecked_bytes += sum(map(len, bodies))
        if self._max_bytes is not None and self._unchecked_bytes > _CHECKED_SHARE * self._max_bytes:
            self._unchecked_bytes = 0
            _evict(connection, self._max_bytes, evictable_run=None)

    def _use(self, connection: Connection, uses: Sequence[tuple[str, int, float]]) -> None:
        table = tables.answers
        statement = update(table).where(table.c.key == bindparam("k"), table.c.run == bindparam("r"))
        rows = [{"k": key, "r": run, "u": now} for key, run, now in sorted(uses)]
        connection.execute(statement.values(used=bindparam("u")), rows)

    def _allow_eviction(self, connection: Connection, _: Sequence[None]) -> None:
        if self._max_bytes is not None:
            _evict(connection, self._max_bytes, evictable_run=self._run)

    def _drop(self, connection: Connection, keys: Sequence[str]) -> None:
        table = tables.answers
        for start in range(0, len(keys), _KEYS_PER_QUERY):
            deletion = delete(table).where(table.c.key.in_(keys[start : start + _KEYS_PER_QUERY]))
            connection.execute(deletion if self._shared else deletion.where(table.c.run == self._run))

    def _decode(self, key: str, body: bytes) -> ModelResponse | None:
        """Decode a stored response; drop a damaged one, so that the request is sent again."""
        try:
            return _decoder.decode(zlib.decompressobj().decompress(body, _MAX_BYTES))
        except (zlib.error, msgspec.MsgspecError) as error:
            log.warning("%s: a cached answer is damaged; it is requested again (%s)", self._store.name, error)
            self.drop([key])
            return None


def _evict(connection: Connection, max_bytes: float, *, evictable_run: int | None) -> None:
    """Evict the least recently used responses if the cache exceeds its size limit.

    Args:
        connection: A connection in a transaction.
        max_bytes: The size limit.
        evictable_run: Number of a run in progress whose responses may be evicted all the same.
    """
    table = tables.answers
    total = connection.execute(select(func.coalesce(func.sum(table.c.size), 0))).scalar_one()
    if total <= max_bytes:
        return
    excess = total - (1 - _FREED_SHARE) * max_bytes
    running = select(tables.runs.c.number).where(tables.runs.c.state == "running")
    if evictable_run is not None:
        running = running.where(tables.runs.c.number != evictable_run)
    evictable = table.c.run.not_in(running)
    last = None
    for used, size in connection.execute(
        select(table.c.used, table.c.size).where(evictable).order_by(table.c.used)
    ):
        if excess <= 0:
            break
        excess -= size
        last = used
    if last is not None:
        evicted = connection.execute(delete(table).where(evictable, table.c.used <= last)).rowcount
        log.info("evicted the %s least recently used answers of judges (judge.cache_mb)", f"{evicted:,}")


class CacheSize(msgspec.Struct, frozen=True, kw_only=True):
    """Size of the response cache of a store.

    Attributes:
        answers: Number of responses.
        bytes: Their total size, compressed.
        oldest: Unix time of the last use of the least recently used response; None if there are none.
    """

    answers: int
    bytes: int
    oldest: float | None


def cache_size(store: Store) -> CacheSize:
    """Return the number and size of the cached responses of a store."""
    table = tables.answers
    query = select(func.count(), func.coalesce(func.sum(table.c.size), 0), func.min(table.c.used))
    count, size, oldest = fetched(store.engine, query.select_from(table)).one()
    return CacheSize(answers=int(count), bytes=int(size), oldest=oldest)


def empty_cache(store: Store) -> None:
    """Delete the cached responses of all runs that are not in progress."""
    running = select(tables.runs.c.number).where(tables.runs.c.state == "running")
    with explain_errors(store.engine), store.engine.begin() as connection:
        connection.execute(delete(tables.answers).where(tables.answers.c.run.not_in(running)))
