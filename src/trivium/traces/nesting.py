"""Nesting: the messages that the nesting of agent runs tells (spec: metrics, T3.8)."""

from collections.abc import Sequence

from trivium.traces.order import parents_first
from trivium.traces.trace import Message, Span


def nested_messages(spans: Sequence[Span]) -> tuple[Message, ...]:
    """Messages between agents whose runs lie within one another.

    A run of B below a run of A, with no other agent's run between, is a ``task_request`` to B when it
    starts and a ``result_delivery`` back when it has ended. An agent below itself sends nothing.

    Args:
        spans: A forest in any order.

    Returns:
        Ordered by time; as the runs are listed, where there is none.
    """
    runs = [span for span in spans if span.kind == "agent"]
    if len(runs) < 2 or all(span.parent is None for span in runs):
        return ()
    timed = any(span.start is not None or span.end is not None for span in spans)
    above: dict[str | None, str | None] = {None: None}
    asked_by: dict[str, str] = {}
    for index in parents_first(spans):
        span = spans[index]
        asker = above[span.parent]
        name = (span.agent or span.name) if span.kind == "agent" else asker
        above[span.id] = name
        if span.kind == "agent" and asker is not None and name is not None and asker != name:
            asked_by[span.id] = asker
    messages: list[Message] = []
    for run in runs:
        if run.id in asked_by:
            messages += _both_ways(run, asked_by[run.id], timed=timed)
    if timed:
        messages.sort(key=lambda message: float("inf") if message.time is None else message.time)
    return tuple(messages)


def _both_ways(run: Span, asker: str, *, timed: bool) -> list[Message]:
    name = run.agent or run.name
    request = Message(sender=asker, receiver=name, type="task_request", time=run.start)
    ended = run.end is not None if timed else run.ok is not None
    if not ended:
        return [request]
    return [request, Message(sender=name, receiver=asker, type="result_delivery", time=run.end)]
