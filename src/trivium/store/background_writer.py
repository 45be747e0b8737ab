"""Commits small writes on a thread of its own, several in one transaction when they come fast."""

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from threading import Condition, Thread
from typing import Any

from sqlalchemy import Connection, Engine

from trivium.errors import StoreError
from trivium.store.connection import explain_errors

GATHER_SECONDS = 0.01
"""How long a write waits for others to share its transaction; a kill may lose the writes of this time."""

Work = Callable[[Connection, Sequence[Any]], None]


class Writer:
    """Commits the many small writes of a run in the order of their submission.

    Args:
        engine: The store's.
        works: What is done with the writes of each kind, those that follow one another together.
    """

    def __init__(self, engine: Engine, works: Mapping[str, Work]) -> None:
        self._engine = engine
        self._works = works
        self._changed = Condition()
        self._due: list[tuple[str, Any]] = []
        self._under_way = 0
        self._hurry = self._closing = False
        self._failure: BaseException | None = None
        self._thread: Thread | None = None

    def write(self, kind: str, what: Any) -> None:
        """Submit a write; returns at once.

        Raises:
            StoreError: If an earlier one failed, or the run has ended.
        """
        with self._changed:
            self._check()
            if self._closing:
                raise StoreError("the run has ended: nothing more is written of it")
            self._due.append((kind, what))
            if self._thread is None:
                self._thread = Thread(target=self._run, name="trivium-writer", daemon=True)
                self._thread.start()
            if len(self._due) == 1:  # with more, it is awake already, or will look when it is done
                self._changed.notify_all()

    @property
    def waiting(self) -> int:
        """Number of submitted writes that are not committed yet; 0 after a failure."""
        return 0 if self._failure is not None else len(self._due) + self._under_way

    def flush(self) -> None:
        """Return when every submitted write is committed.

        Raises:
            StoreError: If that failed.
        """
        with self._changed:
            self._hurry = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self.waiting or self._failure is not None)
            self._hurry = False
            self._check()

    def close(self) -> None:
        """Commit what is left and end the thread.

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
                        for kind, together in groupby(batch, key=lambda one: one[0]):
                            self._works[kind](connection, [what for _, what in together])
                    with self._changed:
                        self._under_way = 0
                        self._changed.notify_all()
        except BaseException as error:  # handed over to whoever writes next
            with self._changed:
                self._failure = error
                self._changed.notify_all()

    def _next(self) -> list[tuple[str, Any]] | None:
        """The writes that wait, None at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._due or self._closing)
            if not (self._hurry or self._closing):
                self._changed.wait_for(lambda: self._hurry or self._closing, timeout=GATHER_SECONDS)
            self._under_way = len(self._due)
            batch, self._due = self._due, []
            return batch or None
