"""A span as OpenTelemetry records it, before anything is read into it."""

from typing import Any

import msgspec

NANOSECONDS = 10**9


class RecordedSpan(msgspec.Struct, kw_only=True, gc=False):
    """A recorded span.

    Attributes:
        trace_id: Hexadecimal; spans of one id are one trace, wherever they were found.
        id: Hexadecimal, unique in its trace.
        parent: Id of the span above, or None.
        name: Its name.
        start: Nanoseconds since 1970, or None.
        end: Nanoseconds since 1970; None when it never ended.
        attributes: Those that mean something to us, as JSON values by their meaning (``wanted``).
        failed: Whether its status says so.
        error: What its status says.
        events: Name and attributes of each; None where there are none.
        scope: The instrumentation that recorded it, where it says its name.
    """

    trace_id: str
    id: str
    parent: str | None = None
    name: str = ""
    start: int | None = None
    end: int | None = None
    attributes: dict[str, Any] = {}
    failed: bool = False
    error: str = ""
    events: list[tuple[str, dict[str, Any]]] | None = None
    scope: str = ""
