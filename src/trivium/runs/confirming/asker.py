"""Hands out the attempts of one side of a comparison as they are chosen."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Set

from trivium.runs.aggregation import AnyEvaluation
from trivium.runs.until_decided.asker import Planned
from trivium.suites.suite import Suite

Arrived = Callable[[list[tuple[int, AnyEvaluation]]], None]


class SideAsker:
    """Hands out the attempts of one side, and passes their evaluations on.

    Args:
        suite: The suite of the side.
        repeats: The next repeat of each case, by its position.
        arrived: Takes the evaluations, on the thread of the event loop.
    """

    def __init__(self, suite: Suite, repeats: Mapping[int, int], arrived: Arrived) -> None:
        self._suite, self._repeats, self._arrived = suite, dict(repeats), arrived
        self._loop = asyncio.get_running_loop()
        self._planned: deque[Planned] = deque()
        self._ended = False
        self._changed = asyncio.Event()

    def plan(self, position: int) -> None:
        """Have another attempt made at the case at a position."""
        repeat = self._repeats[position]
        self._repeats[position] = repeat + 1
        self.postpone((position, self._suite.cases[position], repeat))

    def end(self) -> None:
        """Say that no further attempts will be planned."""
        self._ended = True
        self._changed.set()

    async def wanted(self) -> bool:
        """Wait until an attempt is planned, or none will be; say which."""
        while not (self._planned or self._ended):
            self._changed.clear()
            await self._changed.wait()
        return bool(self._planned)

    def attempts(self, stored: Set[tuple[int, int]]) -> "SideAsker":
        """The attempts as they are planned."""
        return self

    async def next(self) -> Planned | None:
        """The next planned attempt; None once there will be none."""
        return self._planned.popleft() if await self.wanted() else None

    def postpone(self, planned: Planned) -> None:
        """Hand an attempt out again, later."""
        self._planned.append(planned)
        self._changed.set()

    def take(self, evaluated: Iterable[tuple[int, AnyEvaluation]]) -> None:
        """Pass evaluations on, each with the position of its case. From any thread."""
        self._loop.call_soon_threadsafe(self._arrived, list(evaluated))
