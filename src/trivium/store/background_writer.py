"""Commits small writes on a background thread, grouping those that arrive together into one transaction."""

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from threading import Condition, Thread
from typing import Any

from sqlalchemy import Connection, Engine

from trivium.errors import StoreError
from trivium.store.connection import explain_errors

GATHER_SECONDS = 0.01
"""How long a write waits for others to share its transaction; a killed process may lose these writes."""

Handler = Callable[[Connection, Sequence[Any]], None]


class Writer:
    """Commits the many small writes of a run in the order of their submission.

    Args:
        engine: The engine of the store.
        handlers: For each kind of write, the function that executes consecutive writes of that kind.
    """

    def __init__(self, engine: Engine, handlers: Mapping[str, Handler]) -> None:
        self._engine = engine
        self._handlers = handlers
        self._changed = Condition()
        self._queue: list[tuple[str, Any]] = []
        self._committing = 0
        self._flushing = self._closing = False
        self._failure: BaseException | None = None
        self._thread: Thread | None = None

    def write(self, kind: str, payload: Any) -> None:
        """Submit a write; returns at once.

        Raises:
            StoreError: If an earlier write failed, or the writer is closed.
        """
        with self._changed:
            self._check()
            if self._closing:
                raise StoreError("the run has ended: nothing more can be written for it")
            self._queue.append((kind, payload))
            if self._thread is None:
                self._thread = Thread(target=self._run, name="trivium-writer", daemon=True)
                self._thread.start()
            if len(self._queue) == 1:  # with more, the thread is awake or will check when it is done
                self._changed.notify_all()

    @property
    def pending(self) -> int:
        """Number of submitted writes that are not committed yet; 0 after a failure."""
        return 0 if self._failure is not None else len(self._queue) + self._committing

    def flush(self) -> None:
        """Block until every submitted write is committed.

        Raises:
            StoreError: If a write failed.
        """
        with self._changed:
            self._flushing = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self.pending or self._failure is not None)
            self._flushing = False
            self._check()

    def close(self) -> None:
        """Commit the remaining writes and end the thread.

        Raises:
            StoreError: If a write failed.
        """
        with self._changed:
            self._closing = True
            self._changed.notify_all()
            thread = self._thread
        if thread is not None:
            thread.join()
        self._check()

    def _check(self) -> None:
        if self._failure is not None:
            raise StoreError(str(self._failure)) from self._failure

    def _run(self) -> None:
        try:
            with explain_errors(self._engine), self._engine.connect() as connection:
                while (batch := self._next()) is not None:
                    with connection.begin():
                        for kind, writes in groupby(batch, key=lambda write: write[0]):
                            self._handlers[kind](connection, [payload for _, payload in writes])
                    with self._changed:
                        self._committing = 0
                        self._changed.notify_all()
        except BaseException as error:  # raised by the next call of write, flush or close
            with self._changed:
                self._failure = error
                self._changed.notify_all()

    def _next(self) -> list[tuple[str, Any]] | None:
        """Wait for writes and return them, or None once the writer is closed and empty."""
        with self._changed:
            self._changed.wait_for(lambda: self._queue or self._closing)
            if not (self._flushing or self._closing):
                self._changed.wait_for(lambda: self._flushing or self._closing, timeout=GATHER_SECONDS)
            self._committing = len(self._queue)
            batch, self._queue = self._queue, []
            return batch or None
