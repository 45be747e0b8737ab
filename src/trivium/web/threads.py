"""Threads for what takes seconds, so that other requests need not wait for them.

Pages are made by the threads of the server's pool, which are few. A comparison that is resampled, or a
judge's agreement with people, holds one for seconds; some such requests at once would hold them all, and
with them every login, token and look at whether the server is ready.
"""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import wraps
from typing import ParamSpec, TypeVar

__all__ = ["SLOW_AT_ONCE", "slowly", "started", "waited"]

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
