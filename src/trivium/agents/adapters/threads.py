"""Threads: where synchronous agents run, so that one that hangs holds up nothing but itself."""

import asyncio
import contextvars
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import Any

from trivium.agents.adapter import AgentFailure

MOST_LEFT_BEHIND = 256
"""Threads that may hang before no further one is started."""

Outcome = tuple[Any, BaseException | None]
Job = Callable[[], None]


class DaemonThreads:
    """Threads on demand, kept for the next call, and never waited for.

    ``concurrent.futures`` joins its threads at exit, so that one hung call would keep the process alive;
    and a hung call there takes a place away for good. Here a call whose caller has gone is left behind, its
    thread replaced, and the interpreter exits over it.

    Args:
        name: Of the threads, for debuggers.
        most_left_behind: Calls that may hang at once; a bound on what a hanging agent can use up.
    """

    def __init__(self, name: str, *, most_left_behind: int = MOST_LEFT_BEHIND) -> None:
        self._name = name
        self._most_left_behind = most_left_behind
        self._lock = threading.Lock()
        self._idle: list[SimpleQueue[Job | None]] = []
        self._left_behind: set[object] = set()
        self._closed = False

    async def run(self, function: Callable[[], Any]) -> Any:
        """What the function returns, run in a thread of its own with the caller's context variables.

        Raises:
            AgentFailure: When too many earlier calls still hang.
            Exception: What the function raised.
        """
        if len(self._left_behind) >= self._most_left_behind:
            hung = len(self._left_behind)
            raise AgentFailure(f"{hung} earlier calls of this agent still hang; it is not called again")
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Outcome] = loop.create_future()
        context = contextvars.copy_context()
        ticket = object()

        def deliver(outcome: Outcome) -> None:
            if not answer.done():
                answer.set_result(outcome)

        def job() -> None:
            outcome = _outcome(lambda: context.run(function))
            self._left_behind.discard(ticket)
            with suppress(RuntimeError):  # the loop has closed: nobody waits any more
                loop.call_soon_threadsafe(deliver, outcome)

        self._submit(job)
        try:
            value, error = await answer
        except asyncio.CancelledError:
            self._left_behind.add(ticket)
            raise
        if error is not None:
            raise error
        return value

    def close(self) -> None:
        """Let idle threads end; those that are at work end after it."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for queue in idle:
            queue.put(None)

    def _submit(self, job: Job) -> None:
        with self._lock:
            self._closed = False
            queue = self._idle.pop() if self._idle else None
        if queue is None:
            queue = SimpleQueue()
            threading.Thread(target=self._work, args=(queue,), name=self._name, daemon=True).start()
        queue.put(job)

    def _work(self, queue: SimpleQueue[Job | None]) -> None:
        while (job := queue.get()) is not None:
            job()
            del job
            with self._lock:
                if self._closed:
                    return
                self._idle.append(queue)


def _outcome(function: Callable[[], Any]) -> Outcome:
    """What a function returned or raised. Nothing that user code raises may end the process from here."""
    try:
        return function(), None
    except Exception as error:
        return None, error
    except BaseException as error:
        return None, AgentFailure(f"the agent raised {type(error).__name__}: {error}")
