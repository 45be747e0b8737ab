"""Memo: what several metrics work out of one trace is worked out once, and goes when the trace goes."""

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

from trivium.traces.trace import Trace

T = TypeVar("T")


def once(trace: Trace, key: Hashable, make: Callable[[], T]) -> T:
    """What ``make`` gives, from the second time on as it was given first.

    Args:
        trace: The trace that it is worked out of.
        key: Everything else that it depends on.
        make: Called the first time.
    """
    kept: dict[Hashable, Any] = trace.__dict__.setdefault("_once", {})
    try:
        value: T = kept[key]
    except KeyError:
        value = kept[key] = make()
    return value
