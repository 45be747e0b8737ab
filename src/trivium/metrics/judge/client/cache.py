"""Answers: every reply of a model, kept as soon as it arrives (spec: metrics, T2.5)."""

from collections.abc import Sequence
from threading import Lock
from typing import Protocol

from trivium.metrics.judge.client.request import ModelResponse


class ResponseCache(Protocol):
    """Where replies are kept under the key of their call (:meth:`ModelRequest.key`).

    Everything may be called from any thread.
    """

    def fetch(self, keys: Sequence[str]) -> dict[str, ModelResponse]:
        """Those of some calls that are there; may wait for a disk, so it is called in a thread."""

    def put(self, key: str, response: ModelResponse) -> None:
        """Keep a reply before it is understood; returns at once. The first that came under a key stays."""

    def pending(self) -> int:
        """Replies that are not kept for good yet: a kill would lose them."""

    def drop(self, keys: Sequence[str]) -> None:
        """Forget the replies of an exchange that ended without a usable answer: it is asked anew."""

    def close(self) -> None:
        """Return when everything is kept for good."""


class MemoryResponseCache:
    """Answers for as long as the process lives: what judges have where there is no store."""

    def __init__(self) -> None:
        self._replies: dict[str, ModelResponse] = {}
        self._lock = Lock()

    def fetch(self, keys: Sequence[str]) -> dict[str, ModelResponse]:
        """Those that are there."""
        with self._lock:
            return {key: self._replies[key] for key in keys if key in self._replies}

    def put(self, key: str, response: ModelResponse) -> None:
        """Keep a reply, unless there is one."""
        with self._lock:
            self._replies.setdefault(key, response)

    def pending(self) -> int:
        """None: there is no later."""
        return 0

    def drop(self, keys: Sequence[str]) -> None:
        """Forget some."""
        with self._lock:
            for key in keys:
                self._replies.pop(key, None)

    def close(self) -> None:
        """Nothing is left to be done."""
