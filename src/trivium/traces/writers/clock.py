"""Clock: which moment the seconds of a trace mean."""

from datetime import UTC, datetime, timedelta
from typing import Literal

import msgspec

from trivium.traces.opentelemetry.recorded import NANOSECONDS
from trivium.traces.trace import Trace

Since = Literal["recorded", "run", "1970"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_THIS_CENTURY = range(10**9, 10**10)
"""Seconds that are moments since 1970, rather than since a trace began: the years 2001 to 2286."""
_LATEST = 2**63
_LONGEST = _LATEST / NANOSECONDS


class Clock(msgspec.Struct, frozen=True):
    """The moment at which a trace's clock shows 0.

    Attributes:
        zero: Nanoseconds since 1970, or None where its times are no moments.
        since: ``recorded`` when the trace knows it, ``run`` when the start of its run stands for it, ``1970``
            when nothing is known, so that only the differences mean something.
    """

    zero: int | None
    since: Since

    def at(self, seconds: float | None) -> int | None:
        """A time of the trace in nanoseconds since 1970; None for none, and for one before or long after."""
        if seconds is None or self.zero is None:
            return None
        if abs(seconds) > _LONGEST:
            return None
        moment = self.zero + round(seconds * NANOSECONDS)
        return moment if 0 < moment < _LATEST else None


def clock_of(trace: Trace, begun: float | None) -> Clock:
    """The clock of a trace.

    Args:
        trace: The trace; ``metadata.started`` is the moment of its first span, and times since 1970 are
            moments themselves.
        begun: Unix time that stands for the first moment where the trace does not know it, seconds.
    """
    starts = [span.start for span in trace.spans if span.start is not None]
    times = starts + [span.end for span in trace.spans if span.end is not None]
    times += [message.time for message in trace.messages if message.time is not None]
    started = _moment(trace.metadata.get("started"))
    earliest = min(starts or times, default=0.0)
    if int(earliest) in _THIS_CENTURY:
        return Clock(0, "recorded")
    if abs(earliest) > _LONGEST:
        return Clock(None, "1970")
    shown = round(earliest * NANOSECONDS)
    if started is not None:
        return Clock(started - shown, "recorded")
    if begun is not None:
        return Clock(round(begun * NANOSECONDS) - shown, "run")
    return Clock(NANOSECONDS - round(max(min(times, default=0.0), -_LONGEST) * NANOSECONDS), "1970")


def _moment(text: object) -> int | None:
    if not isinstance(text, str):
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    if found.tzinfo is None:
        return None
    moment = (found - _EPOCH) // timedelta(microseconds=1) * 1000
    return moment if 0 < moment < _LATEST else None
