"""Response cache: stores every model response as soon as it arrives (docs/judges.md#the-cache)."""

from collections.abc import Sequence
from threading import Lock
from typing import Protocol

from trivium.metrics.judge.client.request import ModelResponse


class ResponseCache(Protocol):
    """Stores responses under the key of their request (:attr:`ModelRequest.key`).

    Every method is safe to call from any thread.
    """

    def fetch(self, keys: Sequence[str]) -> dict[str, ModelResponse]:
        """Return the cached responses by key. May block on the disk, so it is called in a thread."""

    def put(self, key: str, response: ModelResponse) -> None:
        """Store a response, valid or not, and return at once. A stored response is not replaced."""

    def pending(self) -> int:
        """Number of responses that are not yet durable: a killed process loses them."""

    def drop(self, keys: Sequence[str]) -> None:
        """Remove responses without a usable answer, so that a later run asks again."""

    def close(self) -> None:
        """Block until everything is durable."""


class MemoryResponseCache:
    """Keeps responses in memory, for judges without a store."""

    def __init__(self) -> None:
        self._responses: dict[str, ModelResponse] = {}
        self._lock = Lock()

    def fetch(self, keys: Sequence[str]) -> dict[str, ModelResponse]:
        """Return the cached responses by key."""
        with self._lock:
            return {key: self._responses[key] for key in keys if key in self._responses}

    def put(self, key: str, response: ModelResponse) -> None:
        """Store a response, unless its key has one."""
        with self._lock:
            self._responses.setdefault(key, response)

    def pending(self) -> int:
        """Return 0: nothing is written to disk."""
        return 0

    def drop(self, keys: Sequence[str]) -> None:
        """Remove the responses of some keys."""
        with self._lock:
            for key in keys:
                self._responses.pop(key, None)

    def close(self) -> None:
        """Do nothing: nothing is written to disk."""
