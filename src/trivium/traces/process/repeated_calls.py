"""Repeated calls: the same agent calls the same tool with the same arguments again."""

from collections.abc import Hashable, Sequence
from typing import Any

import msgspec

from trivium.traces.arguments import canonical
from trivium.traces.trace import Span


class RepeatedCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call that was made before, by the same agent, of the same tool, with the same arguments.

    Attributes:
        call: Place among the calls.
        before: Place of the latest such call before it.
        retry: Whether that one had failed; else it had succeeded, and was made again all the same.
    """

    call: int
    before: int
    retry: bool


def repeated_calls(calls: Sequence[Span]) -> tuple[RepeatedCall, ...]:
    """Calls that were made before, in order.

    What follows a call that never finished is neither a retry nor a repeat. Arguments that were not recorded
    (null), or that are no JSON, are like no others.

    Args:
        calls: In order (``Trace.tool_calls``).
    """
    latest: dict[Hashable, int] = {}
    found = []
    for place, symbol in enumerate(call_symbols(calls)):
        before = latest.get(symbol)
        if before is not None and (ok := calls[before].ok) is not None:
            found.append(RepeatedCall(call=place, before=before, retry=not ok))
        latest[symbol] = place
    return tuple(found)


def call_symbols(calls: Sequence[Span]) -> list[Hashable]:
    """For each call something that is equal where agent, tool and arguments are."""
    return [(call.agent, call.name, _arguments(call.input, place)) for place, call in enumerate(calls)]


def _arguments(value: Any, place: int) -> bytes | int:
    """Arguments as bytes; the place of the call where they are unknown, or no JSON."""
    if value is None:
        return place
    try:
        return canonical(value)
    except (TypeError, RecursionError):
        return place
