"""Nesting: the messages that the nesting of agent runs tells (spec: metrics, T3.8)."""

from collections.abc import Sequence

from trivium.traces.trace import Message, Span


def nested_messages(asked: Sequence[tuple[str, Span]], *, timed: bool) -> tuple[Message, ...]:
    """Messages between agents whose runs lie within one another.

    A run of B below a run of A, with no other agent's run between, is a ``task_request`` to B when it
    starts and a ``result_delivery`` back when it has ended. An agent below itself sends nothing.

    Args:
        asked: Agent spans, each with the agent of the nearest agent span above it.
        timed: Whether the trace has times; where it has none, a run has ended unless it is unfinished.

    Returns:
        Ordered by time; as the runs are listed, where there is none.
    """
    messages: list[Message] = []
    for asker, run in asked:
        name = run.agent or run.name
        if name == asker:
            continue
        messages.append(Message(sender=asker, receiver=name, type="task_request", time=run.start))
        if run.end is not None if timed else run.ok is not None:
            messages.append(Message(sender=name, receiver=asker, type="result_delivery", time=run.end))
    if timed:
        messages.sort(key=message_time)
    return tuple(messages)


def message_time(message: Message) -> float:
    """What messages are ordered by: their time, and those without one last."""
    return float("inf") if message.time is None else message.time
