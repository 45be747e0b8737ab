"""How often Python looks for cycles of objects while a run is going on."""

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

SELDOM = (20_000, 50, 100)
"""Thresholds of Python's garbage collector. Records, prompts and tasks by the thousand are no cycles: with
Python's own 700 new objects, looking for some took a fifth of a large run's time, and held up judges for a
quarter of a second at a time. What an agent leaves behind in cycles still goes soon."""

HARDLY = (100_000, 50, 100)
"""Where no agent is asked nothing is left behind in cycles. 20,000 are fewer than are alive at once when a
batch is scored: looking through them again and again took an eighth of a large run's time."""

_lock = threading.Lock()
_before: list[tuple[int, int, int]] = []
"""What the thresholds were when each of those began that now go on."""


@contextmanager
def cycles_seldom_sought(often: tuple[int, int, int] = SELDOM) -> Iterator[None]:
    """Have Python look for cycles seldom; as before when the last of those who asked for it is done.

    What the host program has set higher, or turned off, stays.

    Args:
        often: ``SELDOM`` or ``HARDLY``.
    """
    with _lock:
        now = gc.get_threshold()
        _before.append(_before[0] if _before else now)
        if 0 < now[0] < often[0]:
            gc.set_threshold(*often)
    try:
        yield
    finally:
        with _lock:
            before = _before.pop()
            if not _before and gc.get_threshold() in (SELDOM, HARDLY):
                gc.set_threshold(*before)
