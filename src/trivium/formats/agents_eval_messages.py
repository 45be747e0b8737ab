"""Reads the messages of an Agents-eval trace from its interactions, coordination events and graph."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from trivium.traces.readers.json_input import seconds, text
from trivium.traces.trace import Message, Span, TraceProblem
from trivium.values import dicts

MESSAGE_TYPES = {
    "delegation": "task_request",
    "request": "task_request",
    "result": "result_delivery",
    "broadcast": "status_update",
    "control": "coordination",
}
"""Message type of each Agents-eval type; other types stay as they are.

Definition: docs/definitions/traces.md#messages.
"""

_COORDINATING = frozenset({"coordination", "status_update", "handoff"})
_SENDERS = ("from", "from_agent", "sender", "manager_agent", "agent_id")
_RECEIVERS = ("to", "to_agent", "receiver")


@dataclass
class Interaction:
    """A message between agents, and the tool call that carried it out once they are paired."""

    sender: str
    receiver: str
    type: str
    query: Any = None
    task: str | None = None
    time: float | None = None
    call: Span | None = None
    repeated: bool = False  # by a coordination event

    @property
    def starts_a_run(self) -> bool:
        """Whether it makes the receiver start a run."""
        return self.type == "task_request"


def interactions_of(document: dict[str, Any], graph: Any, problems: list[TraceProblem]) -> list[Interaction]:
    """The interactions of a trace, and the delegations of its graph without an interaction."""
    interactions = []
    for index, item in enumerate(dicts(document.get("agent_interactions"))):
        sender, receiver = text(item, *_SENDERS), text(item, *_RECEIVERS)
        if sender is None or receiver is None:
            what = f"agent_interactions[{index}] has no sender or no receiver; it was left out"
            problems.append(TraceProblem(kind="bad_message", what=what))
            continue
        interactions.append(
            Interaction(
                sender=sender,
                receiver=receiver,
                type=_type(item.get("type"), "task_request"),
                query=item.get("query"),
                task=text(item, "task_type"),
                time=seconds(item.get("timestamp")),
            )
        )
    stated = {(interaction.sender, interaction.receiver) for interaction in interactions}
    return interactions + [
        Interaction(sender=sender, receiver=receiver, type="task_request")
        for sender, receiver in _delegations(graph)
        if (sender, receiver) not in stated
    ]


def messages_of(
    interactions: list[Interaction], document: dict[str, Any], *, first: str | None
) -> list[Message]:
    """The messages of a trace.

    An interaction is a message; a delegation whose call ended is answered by a ``result_delivery``,
    unless the trace lists one. A coordination event that repeats an interaction is the same event again;
    any other is a coordination message to each of its targets.

    Args:
        interactions: The interactions, paired with their calls.
        document: The trace, for its coordination events.
        first: The agent that acted first: the sender of events that name none.
    """
    answered = {
        (interaction.receiver, interaction.sender)
        for interaction in interactions
        if interaction.type == "result_delivery"
    }
    messages = []
    for interaction in interactions:
        time = interaction.call.start if interaction.call else interaction.time
        messages.append(_message(interaction, time))
        if interaction.call is not None and (interaction.sender, interaction.receiver) not in answered:
            messages.append(
                Message(
                    sender=interaction.receiver,
                    receiver=interaction.sender,
                    type="result_delivery",
                    time=interaction.call.end,
                )
            )
    messages += _events(document, interactions, first or "manager")
    if all(message.time is not None for message in messages):
        messages.sort(key=lambda message: message.time or 0.0)
    return messages


def _message(interaction: Interaction, time: float | None) -> Message:
    return Message(
        sender=interaction.sender,
        receiver=interaction.receiver,
        type=interaction.type,
        time=time,
        content=interaction.query,
    )


def _events(document: dict[str, Any], interactions: list[Interaction], first: str) -> Iterator[Message]:
    for event in dicts(document.get("coordination_events")):
        targets = event.get("target_agents")
        word = _type(event.get("coordination_type"), "coordination")
        for target in targets if isinstance(targets, list) else []:
            same = [found for found in interactions if _repeats(event, str(target), word, found)]
            if same:
                same[0].repeated = True
                continue
            yield Message(
                sender=text(event, *_SENDERS) or first,
                receiver=str(target),
                type=word if word in _COORDINATING else "coordination",
                time=seconds(event.get("timestamp")),
                content=event.get("query"),
            )


def _repeats(event: dict[str, Any], target: str, word: str, interaction: Interaction) -> bool:
    return (
        not interaction.repeated
        and interaction.receiver == target
        and interaction.type == word
        and text(event, *_SENDERS) in (None, interaction.sender)
        and event.get("query", interaction.query) == interaction.query
        and event.get("task_type", interaction.task) == interaction.task
    )


def _delegations(graph: Any) -> Iterator[tuple[str, str]]:
    """Sender and receiver of each delegation in a node-link graph."""
    if not isinstance(graph, dict):
        return
    for edge in dicts(graph.get("edges", graph.get("links"))):
        if edge.get("interaction") == "delegation":
            yield str(edge.get("source")), str(edge.get("target"))


def _type(word: Any, default: str) -> str:
    return MESSAGE_TYPES.get(word, word) if isinstance(word, str) and word else default
