"""Finds chains of hand-offs between agents, and work that two agents pass to and fro."""

from collections import deque
from collections.abc import Sequence

import msgspec

from trivium.traces.trace import Message

SHORTEST_PING_PONG = 3
"""Messages: there, back, and there again."""


class PingPong(msgspec.Struct, frozen=True, kw_only=True):
    """Two agents that passed work to and fro.

    Attributes:
        agents: The one that began, and the other.
        messages: At least 3.
    """

    agents: tuple[str, str]
    messages: int


class HandOffs(msgspec.Struct, frozen=True, kw_only=True):
    """How work went between agents.

    Attributes:
        messages: That passed work on.
        chains: Longest possible chains.
        longest: Agents along the longest chain, its first sender included; empty without messages.
        ping_pongs: In order of their last message.
    """

    messages: int
    chains: int
    longest: tuple[str, ...]
    ping_pongs: tuple[PingPong, ...]


def passed_on(messages: Sequence[Message]) -> list[Message]:
    """Messages that pass work on: all but results that go back to who asked for them.

    Args:
        messages: Between agents.
    """
    requests = {
        (message.sender, message.receiver) for message in messages if message.type != "result_delivery"
    }
    return [
        message
        for message in messages
        if message.type != "result_delivery" or (message.receiver, message.sender) not in requests
    ]


def hand_offs(messages: Sequence[Message]) -> HandOffs:
    """Chains of messages that pass work on, in their order; notes to oneself are none.

    A message continues the chain of the latest message before it that its sender received. A chain is
    longest possible where nothing continues it; of chains as long as each other the first that ended is
    told. Of a chain, two agents that pass to each other at least three times by turns play ping-pong.

    Args:
        messages: Between agents, in order (``Trace.agent_messages``).
    """
    passing = [message for message in passed_on(messages) if message.sender != message.receiver]
    latest: dict[str, int] = {}
    previous: list[int | None] = []
    length: list[int] = []
    turns: list[int] = []
    continued: set[int] = set()
    turned: set[int] = set()
    for position, message in enumerate(passing):
        link = latest.get(message.sender)
        previous.append(link)
        length.append(1 if link is None else length[link] + 1)
        turns.append(1)
        if link is not None:
            continued.add(link)
            if passing[link].sender == message.receiver:
                turns[position] = turns[link] + 1
                turned.add(link)
        latest[message.receiver] = position
    ping_pongs = []
    for position, message in enumerate(passing):
        if turns[position] >= SHORTEST_PING_PONG and position not in turned:
            pair = (message.sender, message.receiver)
            ping_pongs.append(
                PingPong(agents=pair if turns[position] % 2 else pair[::-1], messages=turns[position])
            )
    longest: deque[str] = deque()
    at: int | None = max(range(len(passing)), key=length.__getitem__, default=None)
    if at is not None:
        longest.append(passing[at].receiver)
    while at is not None:
        longest.appendleft(passing[at].sender)
        at = previous[at]
    return HandOffs(
        messages=len(passing),
        chains=len(passing) - len(continued),
        longest=tuple(longest),
        ping_pongs=tuple(ping_pongs),
    )
