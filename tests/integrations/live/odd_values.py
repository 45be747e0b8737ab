"""An agent's tool returns values of any type, before Trivium listens and while it does."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import trivium as tv
from tests.odd_values import ODD

NAMES = [name for name in ODD if name != "leaves"]  # leaving the process is the agent's own affair


class Given:
    """What the tool returns next."""

    value: Any = None


def odd() -> Any:
    """Give something."""
    return Given.value


class OddValues:
    """How an agent with the tool :func:`odd` ends, once for each value before anything listens.

    Args:
        ask: Asks the agent, and gives its answer.
    """

    def __init__(self, ask: Callable[[], Awaitable[str]]) -> None:
        self._ask = ask
        self._without = asyncio.run(self._each(self._ended))

    def listened(self) -> dict[str, list[Any]]:
        """Of each value: how the agent ended without Trivium, recorded to a file, and recorded within a
        block; and how many calls of the tool the block recorded.
        """
        tv.trace.configure(folder="odd")
        found = asyncio.run(self._each(self._recorded))
        return {name: [self._without[name], *ends] for name, ends in found.items()}

    async def _each(self, ended: Callable[[], Awaitable[Any]]) -> dict[str, Any]:
        found = {}
        for name in NAMES:
            Given.value = ODD[name]
            found[name] = await ended()
        return found

    async def _recorded(self) -> list[Any]:
        to_a_file = await self._ended()
        with tv.trace.recorded() as recorded:
            in_a_block = await self._ended()
        return [to_a_file, in_a_block, len(recorded.trace.tool_calls)]

    async def _ended(self) -> str:
        try:
            return await self._ask()
        except Exception as error:
            return type(error).__name__
