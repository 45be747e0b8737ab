"""Span, Message and Trace: what an agent did during one attempt (spec: files, trace)."""

from functools import cached_property
from typing import Any, Literal

import msgspec

SpanKind = Literal["agent", "tool", "llm", "other"]


class SpanUsage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Tokens and money that one llm span used; None where the format does not say."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None


class Span(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One piece of work: an agent's turn, a tool call, a model request.

    Attributes:
        id: Unique in its trace.
        kind: agent, tool, llm or other.
        name: The agent, tool or model.
        parent: Id of the span that this one ran under.
        agent: Who did it. On a normalised trace every tool and llm span that runs under an agent
            span has it filled in.
        start: Seconds on the trace's clock, or None.
        end: Seconds, or None when unfinished or the format has no times.
        ok: True, False when it failed, None when it never finished.
        input: What went in, any JSON value.
        output: What came out, any JSON value.
        usage: Tokens and cost (llm spans only).
        attributes: Anything else; ``context`` is read by tool_selection (spec: metrics, T3.3).
    """

    id: str
    kind: SpanKind
    name: str
    parent: str | None = None
    agent: str | None = None
    start: float | None = None
    end: float | None = None
    ok: bool | None = True
    input: Any = None
    output: Any = None
    usage: SpanUsage | None = None
    attributes: dict[str, Any] = {}


class Message(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something that one agent sent another.

    Attributes:
        type: task_request, result_delivery, data_transfer, coordination, status_update, handoff,
            or a word of the suite's own (spec: metrics, T3.8).
        time: Seconds on the trace's clock, or None.
    """

    sender: str
    receiver: str
    type: str = "task_request"
    time: float | None = None
    content: Any = None


class TraceProblem(msgspec.Struct, frozen=True, kw_only=True):
    """Something in a trace that was repaired or flagged.

    Attributes:
        kind: orphan, cycle, duplicate_id, clock_skew, negative_duration, unfinished, …
        span: Id of the span concerned, or None.
        what: One sentence.
    """

    kind: str
    span: str | None = None
    what: str


class Trace(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, dict=True):
    """The spans and messages of one attempt, normalised (see ``trivium.traces.repair``).

    Spans keep the order of their file. ``problems`` lists what was repaired.
    """

    trace_id: str = ""
    spans: tuple[Span, ...] = ()
    messages: tuple[Message, ...] = ()
    problems: tuple[TraceProblem, ...] = ()
    metadata: dict[str, Any] = {}

    @cached_property
    def tool_calls(self) -> tuple[Span, ...]:
        """Tool spans ordered by start, ties and spans without a start in file order."""
        return _by_start([span for span in self.spans if span.kind == "tool"])

    @cached_property
    def agents(self) -> tuple[str, ...]:
        """Names of all agents that acted or were addressed, in order of appearance."""
        names: dict[str, None] = {}
        for span in self.spans:
            if span.kind == "agent":
                names[span.agent or span.name] = None
            elif span.agent is not None:
                names[span.agent] = None
        for message in self.messages:
            names[message.sender] = None
            names[message.receiver] = None
        return tuple(names)


def _by_start(spans: list[Span]) -> tuple[Span, ...]:
    """Stable order by start; a span without a start stays right behind its predecessor in the file."""
    keyed: list[tuple[float, int, Span]] = []
    latest = float("-inf")
    for position, span in enumerate(spans):
        latest = span.start if span.start is not None else latest
        keyed.append((latest, position, span))
    keyed.sort(key=lambda entry: entry[:2])
    return tuple(entry[2] for entry in keyed)
