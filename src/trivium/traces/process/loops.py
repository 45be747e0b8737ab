"""Loops: the same sub-sequence of steps three times or more in a row."""

from collections.abc import Hashable, Sequence

import msgspec

from trivium.traces.process.repeated_calls import call_symbols
from trivium.traces.process.tandem import repetitions
from trivium.traces.trace import Span


class Loop(msgspec.Struct, frozen=True, kw_only=True):
    """A loop of tool calls.

    Attributes:
        agent: Who went round in it.
        tools: Of one round, in order.
        rounds: Complete ones, at least 3.
        calls: Places among the calls of all that lie in the loop, the beginning of a further round included.
    """

    agent: str | None
    tools: tuple[str, ...]
    rounds: int
    calls: tuple[int, ...]

    @property
    def again(self) -> tuple[int, ...]:
        """Places of the calls after the first round."""
        return self.calls[len(self.tools) :]


def call_loops(calls: Sequence[Span]) -> tuple[Loop, ...]:
    """Loops of tool calls: the same calls with the same arguments, in the same order, three times or more.

    Looked for in the calls of each agent by itself, so that agents that work side by side do not hide each
    other's. A loop is as long as can be, its round as short as can be; a loop may lie within a round of
    another. The longest comes first.

    Args:
        calls: In order (``Trace.tool_calls``).
    """
    places: dict[str | None, list[int]] = {}
    symbols: dict[str | None, list[Hashable]] = {}
    for place, (call, symbol) in enumerate(zip(calls, call_symbols(calls), strict=True)):
        places.setdefault(call.agent, []).append(place)
        symbols.setdefault(call.agent, []).append(symbol)
    found = []
    for agent, own in places.items():
        for repetition in repetitions(symbols[agent]):
            inside = own[repetition.start : repetition.end]
            found.append(
                Loop(
                    agent=agent,
                    tools=tuple([calls[place].name for place in inside[: repetition.period]]),
                    rounds=repetition.rounds,
                    calls=tuple(inside),
                )
            )
    return tuple(sorted(found, key=lambda loop: (-len(loop.calls), loop.calls)))


def looped_calls(loops: Sequence[Loop]) -> frozenset[int]:
    """Places of the calls that only go round again: those after the first round of any loop."""
    return frozenset(place for loop in loops for place in loop.again)


class Circuit(msgspec.Struct, frozen=True, kw_only=True):
    """A loop of hand-offs: work that went round among the same agents.

    Attributes:
        agents: Of one round, in order.
        rounds: Complete ones, at least 3.
    """

    agents: tuple[str, ...]
    rounds: int


def hand_off_loops(chain: Sequence[str]) -> tuple[Circuit, ...]:
    """Loops of the agents along a chain of hand-offs, the longest first.

    Args:
        chain: Such as ``HandOffs.longest``.
    """
    found = sorted(repetitions(chain), key=lambda one: (one.start - one.end, one.start))
    return tuple(
        Circuit(agents=tuple(chain[one.start : one.start + one.period]), rounds=one.rounds) for one in found
    )
