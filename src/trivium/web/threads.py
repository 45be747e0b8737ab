"""Threads for what takes seconds, so that other requests need not wait for them, and what they made last.

Pages are made by the threads of the server's pool, which are few. A comparison that is resampled, or a
judge's agreement with people, holds one for seconds; some such requests at once would hold them all, and
with them every login, token and look at whether the server is ready.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import wraps
from threading import RLock
from typing import Generic, ParamSpec, TypeVar

__all__ = ["SLOW_AT_ONCE", "Remembered", "slowly", "started", "waited"]

K = TypeVar("K")
P = ParamSpec("P")
T = TypeVar("T")

SLOW_AT_ONCE = 2
"""Slow requests that are worked on at the same time; further ones wait, and hold no thread."""

_slow = ThreadPoolExecutor(SLOW_AT_ONCE, thread_name_prefix="trivium-slow")


def started(function: Callable[P, T], *args: P.args, **options: P.kwargs) -> Future[T]:
    """Let a function run in one of the threads for slow requests, for whoever asks for what it returns."""
    return _slow.submit(function, *args, **options)


async def waited(coming: Future[T]) -> T:
    """What a function returns or raises; a client that leaves meanwhile does not end it for others."""
    return await asyncio.shield(asyncio.wrap_future(coming))


def slowly(handler: Callable[P, T]) -> Callable[P, Awaitable[T]]:
    """Let the handler of a route run in one of the threads for slow requests."""

    @wraps(handler)
    async def waiting(*args: P.args, **options: P.kwargs) -> T:
        return await waited(started(handler, *args, **options))

    return waiting


class Remembered(Generic[K, T]):
    """What was made last, by key, for any thread.

    Args:
        most: How many are kept: those that were asked for last.
    """

    def __init__(self, most: int) -> None:
        self.lock = RLock()
        self._most = most
        self._known: OrderedDict[K, T] = OrderedDict()

    def __contains__(self, key: K) -> bool:
        return key in self._known

    def of(self, key: K, make: Callable[[], T], *, holds: Callable[[T], bool] = lambda _: True) -> T:
        """What was made under a key; made now if nothing was, or it does not hold any more."""
        with self.lock:
            found = self._known.pop(key, None)
        if found is None or not holds(found):
            found = make()
        with self.lock:
            self._known[key] = found
            if len(self._known) > self._most:
                self._known.popitem(last=False)
        return found
