"""Threads for what takes seconds, so that other requests need not wait for them.

Pages are made by the threads of the server's pool, which are few. A comparison that is resampled, or a
judge's agreement with people, holds one for seconds; some such requests at once would hold them all, and
with them every login, token and look at whether the server is ready.
"""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial, wraps
from typing import ParamSpec, TypeVar

__all__ = ["SLOW_AT_ONCE", "slowly"]

P = ParamSpec("P")
T = TypeVar("T")

SLOW_AT_ONCE = 2
"""Slow requests that are worked on at the same time; further ones wait, and hold no thread."""

_slow = ThreadPoolExecutor(SLOW_AT_ONCE, thread_name_prefix="trivium-slow")


def slowly(handler: Callable[P, T]) -> Callable[P, Awaitable[T]]:
    """Let the handler of a route run in one of the threads for slow requests."""

    @wraps(handler)
    async def waiting(*args: P.args, **options: P.kwargs) -> T:
        return await asyncio.get_running_loop().run_in_executor(_slow, partial(handler, *args, **options))

    return waiting
