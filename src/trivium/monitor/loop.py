"""What a monitor does in the background: a function that a thread calls again and again, failing or not."""

import logging
import time
from collections.abc import Callable
from threading import Event, Thread
from typing import Self

from trivium.errors import StoreError

log = logging.getLogger(__name__)


class Loop:
    """A background thread that calls a function until it is stopped; a context manager that stops it.

    Args:
        name: Name of the thread.
        function: Called without arguments. If it returns a float, that is the next wait in seconds.
        seconds: Wait between two calls, in seconds.
        failing: Beginning of the log message after a failure, such as ``samples cannot be scored now``.
        first: Wait before the first call, in seconds; ``seconds`` if None.
        pause: Wait after a failure, in seconds; ``seconds`` if None.
        patience: How long :meth:`stop` waits for a call that goes on, in seconds since :meth:`end`; None:
            until it has ended.
    """

    def __init__(
        self,
        name: str,
        function: Callable[[], object],
        *,
        seconds: float,
        failing: str,
        first: float | None = None,
        pause: float | None = None,
        patience: float | None = None,
    ) -> None:
        self._name = name
        self._function = function
        self._seconds = seconds
        self._failing = failing
        self._first = seconds if first is None else first
        self._pause = seconds if pause is None else pause
        self._patience = patience
        self._stopped = Event()
        self._ended = 0.0
        self._thread: Thread | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def stopping(self) -> bool:
        """Whether the thread has been asked to stop."""
        return self._stopped.is_set()

    def start(self) -> None:
        """Start the thread."""
        self._thread = Thread(target=self._run, name=self._name, daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Let the thread end after the call that it is at; what is not done is done after a restart."""
        self._stopped.set()
        self._ended = self._ended or time.monotonic()

    def stop(self) -> None:
        """Let the thread end, and wait for it."""
        self.end()
        if self._thread is not None:
            left = None if self._patience is None else self._ended + self._patience - time.monotonic()
            self._thread.join(left if left is None else max(0.0, left))

    def _run(self) -> None:
        wait = self._first
        while not self._stopped.wait(wait):
            wait = self._seconds
            try:
                asked = self._function()
            except StoreError as error:
                log.warning("%s: %s", self._failing, error)
                wait = self._pause
            except Exception:  # the next call may succeed, and no other thread does this work
                log.exception("%s", self._failing)
                wait = self._pause
            else:
                if isinstance(asked, float):
                    wait = asked
