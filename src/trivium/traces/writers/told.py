"""Told: a trace to be written, with what is told of it besides."""

from collections.abc import Iterable, Iterator
from hashlib import sha256
from importlib.metadata import version
from typing import Any

import msgspec

from trivium.traces.trace import Trace


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """A trace to be written, with what is told of it besides.

    Attributes:
        trace: The trace; one without spans where none was recorded.
        key: What ids are made from: the same for the same trace, another for any other.
        begun: Unix time that stands for the trace's first moment where the trace does not know it, seconds.
        seconds: Wall time of the attempt, for a trace without spans.
        input: What the attempt was asked, for a trace without spans.
        output: What it gave back, likewise.
        error: Why the attempt failed, or None.
        name: What the trace is called, where it needs a name.
        resource: Who tells it, for all spans.
        attributes: Further facts, on the first span.
        events: Name and attributes of what is told on the first span.
    """

    trace: Trace
    key: str
    begun: float | None = None
    seconds: float | None = None
    input: Any = None
    output: Any = None
    error: str | None = None
    name: str = "attempt"
    resource: dict[str, Any] = {}
    attributes: dict[str, Any] = {}
    events: list[tuple[str, dict[str, Any]]] = []


def told_of_traces(traces: Iterable[Trace]) -> Iterator[Told]:
    """Traces of a file, each by what it holds and its place."""
    for number, trace in enumerate(traces):
        digest = sha256(msgspec.json.encode(trace)).hexdigest()
        yield Told(
            trace=trace,
            key=f"{number} {digest}",
            name=trace.trace_id or f"trace {number + 1}",
            resource=resource(),
        )


def resource(**further: Any) -> dict[str, Any]:
    """Who tells a trace."""
    return {"service.name": "trivium", "service.version": version("trivium"), **further}
