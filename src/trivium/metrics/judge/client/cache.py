"""Response cache: stores every model response as soon as it arrives (spec: metrics, T2.5)."""

from collections.abc import Sequence
from threading import Lock
from typing import Protocol

from trivium.metrics.judge.client.request import ModelResponse


class ResponseCache(Protocol):
    """Stores responses under the key of their request (:meth:`ModelRequest.key`).

    Every method is safe to call from any thread.
    """

    def fetch(self, keys: Sequence[str]) -> dict[str, ModelResponse]:
        """Return the cached ones among some keys. May block on a disk, so it is called in a thread."""

    def put(self, key: str, response: ModelResponse) -> None:
        """Store a response, parsed or not; returns at once. The first response under a key stays."""

    def pending(self) -> int:
        """Number of responses not yet durable, which a killed process would lose."""

    def drop(self, keys: Sequence[str]) -> None:
        """Remove the responses of an exchange without a usable answer, so that it is asked anew."""

    def close(self) -> None:
        """Block until everything is durable."""


class MemoryResponseCache:
    """A cache in memory, for judges without a store."""

    def __init__(self) -> None:
        self._replies: dict[str, ModelResponse] = {}
        self._lock = Lock()

    def fetch(self, keys: Sequence[str]) -> dict[str, ModelResponse]:
        """Return the cached ones."""
        with self._lock:
            return {key: self._replies[key] for key in keys if key in self._replies}

    def put(self, key: str, response: ModelResponse) -> None:
        """Store a response, unless there is one."""
        with self._lock:
            self._replies.setdefault(key, response)

    def pending(self) -> int:
        """Return 0: nothing is written later."""
        return 0

    def drop(self, keys: Sequence[str]) -> None:
        """Remove some."""
        with self._lock:
            for key in keys:
                self._replies.pop(key, None)

    def close(self) -> None:
        """Do nothing: there is nothing to write."""
