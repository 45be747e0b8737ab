"""Asking in tests: one attempt, whatever the agent is, with the waits written down instead of waited."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from trivium.agents.attempt import AgentAdapter, Attempt
from trivium.agents.invoke import Waiting, invoke
from trivium.agents.loading import load_agent
from trivium.suites.case import Case
from trivium.suites.settings import Limits


class Waits(list[float]):
    """Stands in for sleeping; holds the seconds that would have been slept."""

    async def __call__(self, seconds: float) -> None:
        self.append(seconds)


def asked(
    agent: Any,
    *,
    input: Any = "question",
    case: Case | None = None,
    repeat: int = 0,
    seed: int = 42,
    waits: Callable[[float], Awaitable[object]] | None = None,
    grace: float = 5.0,
    **limits: Any,
) -> Attempt:
    """The attempt of one agent at one case, on an event loop of its own."""

    async def one() -> Attempt:
        adapter: AgentAdapter = load_agent(agent)
        try:
            return await invoke(
                adapter,
                case or Case(id="c1", input=input),
                repeat,
                Limits(**limits),
                seed=seed,
                waiting=Waiting(Waits() if waits is None else waits, grace),
            )
        finally:
            await adapter.close()

    return asyncio.run(one())
