"""Commits small writes on a background thread, grouping those that arrive together into one transaction."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from itertools import groupby
from threading import Event, RLock
from typing import Any

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import OperationalError

from trivium.errors import StoreError
from trivium.store.connection import explain_errors

GATHER_SECONDS = 0.01
"""How long a write waits for others to share its transaction; a killed process may lose these writes."""

MOST_TRIES = 10
"""Tries of a transaction that PostgreSQL breaks off, as two wait for one another."""

Handler = Callable[[Connection, Sequence[Any]], None]
"""Executes consecutive writes of one kind."""


class Writer:
    """Commits the many small writes of a run in the order of their submission.

    Args:
        engine: The engine of the store.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="trivium-writer")
        self._lock = RLock()
        self._queue: list[tuple[Handler, Any]] = []
        self._committing = 0
        self._awaited = Event()
        self._last: Future[None] | None = None
        self._closed = False
        self._failure: BaseException | None = None

    def write(self, handler: Handler, payload: Any) -> None:
        """Submit a write; returns at once.

        Raises:
            StoreError: If an earlier write failed, or the writer is closed.
        """
        with self._lock:
            self._check()
            if self._closed:
                raise StoreError("the run has ended: nothing more can be written for it")
            ending = False
            if not self._queue:  # with some, a transaction is coming
                try:
                    self._last = self._thread.submit(self._commit)
                except RuntimeError:  # the interpreter ends, and its executors have: no thread commits it
                    ending = True
            self._queue.append((handler, payload))
            if ending:
                self._finish()
                self._commit()

    @property
    def pending(self) -> int:
        """Number of submitted writes that are not committed yet; 0 after a failure."""
        return 0 if self._failure is not None else len(self._queue) + self._committing

    def flush(self) -> None:
        """Block until every submitted write is committed.

        Raises:
            StoreError: If a write failed.
        """
        self._finish()
        self._awaited.clear()
        self._check()

    def close(self) -> None:
        """Commit the remaining writes and end the thread.

        Raises:
            StoreError: If a write failed.
        """
        with self._lock:
            self._closed = True
        self._awaited.set()
        self._thread.shutdown()
        self._check()

    def _finish(self) -> None:
        """Wait for the transactions that are coming, which then wait for no more writes."""
        self._awaited.set()
        if self._last is not None:
            wait([self._last])

    def _check(self) -> None:
        if self._failure is not None:
            raise StoreError(str(self._failure)) from self._failure

    def _commit(self) -> None:
        self._awaited.wait(GATHER_SECONDS)
        with self._lock:
            batch, self._queue = self._queue, []
            self._committing = len(batch)
        if self._failure is not None:
            return
        try:
            with explain_errors(self._engine):
                self._store(batch)
        except BaseException as error:  # raised by the next call of write, flush or close
            self._failure = error
        self._committing = 0

    def _store(self, batch: Sequence[tuple[Handler, Any]]) -> None:
        for left in reversed(range(MOST_TRIES)):
            try:
                with self._engine.begin() as connection:
                    for handler, writes in groupby(batch, key=lambda write: write[0]):
                        handler(connection, [payload for _, payload in writes])
                return
            except OperationalError as error:
                if not left or getattr(error.orig, "sqlstate", "") != "40P01":  # deadlock detected
                    raise
