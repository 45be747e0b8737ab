"""An event loop in virtual time: whatever sleeps is woken at once, and the clock says that it had slept."""

import asyncio
import random
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _Clock(selectors.SelectSelector):
    """Where a loop would wait for its next timer, time passes instead; timers are late, as they are."""

    def __init__(self, late: float, seed: int) -> None:
        super().__init__()
        self.now, self._late, self._random = 0.0, late, random.Random(seed)

    def select(self, timeout: float | None = None) -> Any:
        if timeout is None:
            raise RuntimeError("everybody waits and nothing will ever happen")
        if timeout > 0:
            self.now += timeout + (self._random.expovariate(1 / self._late) if self._late else 0.0)
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    """Of one thread, without sockets or other threads.

    Args:
        late: Seconds that timers are late on average.
        seed: Of their lateness.
    """

    def __init__(self, *, late: float = 0.0, seed: int = 0) -> None:
        self._virtual = _Clock(late, seed)
        super().__init__(self._virtual)

    def time(self) -> float:
        return self._virtual.now


def in_virtual_time(main: Coroutine[Any, Any, T], *, late: float = 0.0, seed: int = 0) -> T:
    """What a coroutine returns, without waiting for it; random draws are the seed's."""
    state = random.getstate()
    random.seed(seed)
    try:
        with asyncio.Runner(loop_factory=lambda: VirtualLoop(late=late, seed=seed)) as runner:
            return runner.run(main)
    finally:
        random.setstate(state)
