"""Finds chains of hand-offs between agents, and work that two agents pass back and forth."""

from collections import deque
from collections.abc import Sequence

import msgspec

from trivium.traces.trace import Message

SHORTEST_PING_PONG = 3
"""Fewest messages of a ping-pong: there, back, and there again."""


class PingPong(msgspec.Struct, frozen=True, kw_only=True):
    """Two agents that passed work back and forth.

    Attributes:
        agents: The agent that started, then the other.
        messages: Number of messages, at least 3.
    """

    agents: tuple[str, str]
    messages: int


class HandOffs(msgspec.Struct, frozen=True, kw_only=True):
    """The hand-offs of one trace.

    Attributes:
        messages: Number of messages that hand work over.
        chains: Number of maximal chains.
        longest: Agents along the longest chain, its first sender included; empty without messages.
        ping_pongs: In order of their last message.
    """

    messages: int
    chains: int
    longest: tuple[str, ...]
    ping_pongs: tuple[PingPong, ...]


def without_replies(messages: Sequence[Message]) -> list[Message]:
    """The messages that hand work over: all except results returned to their requester.

    Args:
        messages: Messages between agents.
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
    """Find chains of messages that hand work over; messages to oneself are ignored.

    A message continues the chain of the latest earlier message that its sender received. A chain is maximal
    if no message continues it; of several longest chains, the one that ends first is reported. Two agents
    play ping-pong if they alternate in handing over to each other at least three times within a chain.

    Args:
        messages: Messages between agents, in order (``Trace.agent_messages``).
    """
    passing = [message for message in without_replies(messages) if message.sender != message.receiver]
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
