"""Repeated calls: the same agent calls the same tool with the same arguments again."""

from collections.abc import Hashable, Sequence

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
    (null) are like no others, since nobody knows them.

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
    return [
        (call.agent, call.name, place)
        if call.input is None
        else (call.agent, call.name, canonical(call.input))
        for place, call in enumerate(calls)
    ]
