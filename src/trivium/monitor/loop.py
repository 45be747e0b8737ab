"""Calls a function periodically in a background thread, which goes on after a failure."""

import logging
from collections.abc import Callable
from threading import Event, Thread

from trivium.errors import StoreError

log = logging.getLogger(__name__)


class Loop:
    """A background thread that calls a function until it is stopped.

    Args:
        name: Name of the thread.
        function: Called without arguments. If it returns a float, that is the next wait in seconds.
        seconds: Wait between two calls, in seconds.
        failing: Beginning of the log message after a failure, such as ``samples cannot be scored now``.
        first: Wait before the first call, in seconds; ``seconds`` if None.
        pause: Wait after a failure, in seconds; ``seconds`` if None.
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
    ) -> None:
        self._name = name
        self._function = function
        self._seconds = seconds
        self._failing = failing
        self._first = seconds if first is None else first
        self._pause = seconds if pause is None else pause
        self._stopped = Event()
        self._thread: Thread | None = None

    @property
    def stopping(self) -> bool:
        """Whether the thread has been asked to stop."""
        return self._stopped.is_set()

    def start(self) -> None:
        """Start the thread."""
        self._thread = Thread(target=self._run, name=self._name, daemon=True)
        self._thread.start()

    def ask_to_stop(self) -> None:
        """Ask the thread to end after the current call, and return at once."""
        self._stopped.set()

    def stop(self, wait_seconds: float | None = None) -> None:
        """Ask the thread to end after the current call, and wait for that.

        Args:
            wait_seconds: How long to wait, in seconds; None waits until the thread has ended.
        """
        self._stopped.set()
        if self._thread is not None:
            self._thread.join(wait_seconds)

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
