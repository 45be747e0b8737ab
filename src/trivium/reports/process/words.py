"""What was done again, in words, the same in the terminal and on pages."""

from collections.abc import Sequence
from typing import Protocol

from trivium.reports.untrusted import one_line
from trivium.traces.process.hand_offs import PingPong
from trivium.traces.process.loops import Circuit

MOST_NAMED = 8
"""Names along a chain or a round; of longer ones the middle is counted."""
NAME_CHARS = 30


class _Round(Protocol):
    @property
    def agent(self) -> str | None: ...
    @property
    def tools(self) -> tuple[str, ...]: ...
    @property
    def rounds(self) -> int: ...


def chained(names: Sequence[str]) -> str:
    """Names joined by arrows; of a long chain the ends."""
    told = [one_line(name, at_most=NAME_CHARS) for name in names[:MOST_NAMED]]
    if len(names) > MOST_NAMED:
        half = MOST_NAMED // 2
        ends = [one_line(name, at_most=NAME_CHARS) for name in names[-half:]]
        told = [*told[:half], f"({len(names) - MOST_NAMED:,} more)", *ends]
    return " → ".join(told)


def looped_words(loop: _Round) -> str:
    """``search → read, 4 times over, by solver``."""
    by = "" if loop.agent is None else f", by {one_line(loop.agent, at_most=NAME_CHARS)}"
    return f"{chained(loop.tools)}, {loop.rounds:,} times over{by}"


def game_words(game: PingPong) -> str:
    """``Ping-pong: a ⇄ b, 5 messages``."""
    one, other = (one_line(name, at_most=NAME_CHARS) for name in game.agents)
    return f"Ping-pong: {one} ⇄ {other}, {game.messages:,} messages"


def circuit_words(circuit: Circuit) -> str:
    """``Round and round: a → b → c, 3 times over``."""
    return f"Round and round: {chained(circuit.agents)}, {circuit.rounds:,} times over"
