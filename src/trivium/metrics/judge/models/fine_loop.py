"""FineSelector: an event loop whose timers are exact to a tenth of a millisecond."""

import asyncio
import select
import selectors
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from selectors import SelectorKey

MOST_SELECTED = 1024
"""File descriptors that select() can name."""


def fine_event_loop() -> asyncio.AbstractEventLoop:
    """A new event loop, with a :class:`FineSelector` where the usual one waits for whole milliseconds."""
    if not hasattr(selectors, "EpollSelector"):
        return asyncio.new_event_loop()
    selector = FineSelector()
    if selector.fileno() >= MOST_SELECTED:
        selector.close()
        return asyncio.new_event_loop()
    return asyncio.SelectorEventLoop(selector)


if hasattr(selectors, "EpollSelector"):

    class FineSelector(selectors.EpollSelector):
        """Waits as long as it is told: epoll rounds up to whole milliseconds, and select() does not."""

        def select(self, timeout: float | None = None) -> "list[tuple[SelectorKey, int]]":
            """What is ready, after so many seconds at most."""
            if timeout is None or timeout <= 0:
                return super().select(timeout)
            select.select([self.fileno()], [], [], timeout)
            return super().select(0)
