"""Joins the traces of a conversation, one for each turn, into one trace in the order of time.

Definition: docs/definitions/traces.md#conversations.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from tempfile import TemporaryFile
from typing import IO, Any

import msgspec

from trivium.traces.outcome import (
    counted_usage,
    input_of,
    output_of,
    said_in,
    stated_usage,
    thread_of,
    total_usage,
)
from trivium.traces.outcome import started as start_of
from trivium.traces.readers.collection import LocatedTrace
from trivium.traces.trace import TURN, Message, Span, Trace, TraceProblem, shifted, texts_in
from trivium.values import JsonObject, text_or_json

USER, AGENT = "user", "agent"


def by_conversation(found: Iterable[LocatedTrace]) -> Iterator[LocatedTrace]:
    """Yield the traces of no conversation as they are, then each conversation as one trace.

    The traces are kept in a temporary file: those of one conversation are in memory together.
    """
    places: dict[str, list[int]] = {}
    with TemporaryFile() as kept:
        for located in found:
            conversation = thread_of(located.trace)
            if conversation is None:
                yield located
                continue
            places.setdefault(conversation, []).append(kept.tell())
            kept.write(json.dumps(msgspec.to_builtins(located)).encode() + b"\n")
        for conversation, listed in places.items():
            turns = [_read(kept, place) for place in listed]
            first = turns[0]
            traces = sorted((turn.trace for turn in turns), key=_when)
            yield LocatedTrace(joined(traces, conversation), first.file, first.format)


def _read(kept: IO[bytes], place: int) -> LocatedTrace:
    kept.seek(place)
    return msgspec.convert(json.loads(kept.readline()), LocatedTrace)


def _when(trace: Trace) -> float:
    """Sort key of traces: when they started; those that do not state it come last."""
    start = start_of(trace)
    return float("inf") if start is None else start


def joined(traces: Sequence[Trace], conversation: str) -> Trace:
    """Make one trace of the turns of a conversation.

    Each turn begins when the one before has ended: the time in which a person reads and writes is left out.

    Args:
        traces: The traces of its turns, in order; at least one.
        conversation: Its id, which becomes that of the trace.
    """
    spans: list[Span] = []
    messages: list[Message] = []
    problems: list[TraceProblem] = []
    clock = 0.0
    for number, trace in enumerate(traces, 1):
        shift, end = _placed(trace, clock)
        turn = as_turn(trace, number, shift)
        spans += turn.spans
        messages += _messages(trace, turn)
        problems += turn.problems
        clock = end
    return Trace(
        trace_id=conversation,
        spans=tuple(spans),
        messages=tuple(messages),
        problems=tuple(problems),
        metadata=_metadata(traces, conversation),
    )


def _placed(trace: Trace, clock: float) -> tuple[float, float]:
    """How much later a turn begins on the clock of the conversation, and when it ends there."""
    times = [time for span in trace.spans for time in (span.start, span.end) if time is not None]
    if not times:
        return 0.0, clock
    shift = clock - min(times)
    return shift, max(times) + shift


def as_turn(trace: Trace, number: int, shift: float, *, below: str | None = None) -> Trace:
    """A trace as a turn of a conversation: all of it names the turn.

    Args:
        trace: The trace.
        number: The number of the turn.
        shift: How much later it is on the clock of the conversation, in seconds.
        below: Id of the span that its outermost spans are put below.
    """
    spans = (
        msgspec.structs.replace(
            shifted(span, shift),
            id=f"{number}.{span.id}",
            parent=below if span.parent is None else f"{number}.{span.parent}",
            attributes=span.attributes | {TURN: number},
        )
        for span in trace.spans
    )
    problems = (
        msgspec.structs.replace(
            problem,
            span=None if problem.span is None else f"{number}.{problem.span}",
            what=f"turn {number}: {problem.what}",
        )
        for problem in trace.problems
    )
    messages = (shifted(message, shift) for message in trace.messages)
    return msgspec.structs.replace(
        trace, spans=tuple(spans), messages=tuple(messages), problems=tuple(problems)
    )


def _messages(trace: Trace, turn: Trace) -> Sequence[Message]:
    """The messages of a turn; what was asked and answered first and last, where no message says it."""
    if said_in(trace):
        return turn.messages
    asked, answered = input_of(trace), output_of(trace)
    first = Message(sender=USER, receiver=AGENT, content=_text(asked))
    last = Message(sender=AGENT, receiver=USER, type="result_delivery", content=_text(answered))
    return [*([first] if first.content else []), *turn.messages, *([last] if last.content else [])]


def _text(value: Any) -> str:
    """A text as it is, also where it is all that an object holds; other values as JSON."""
    if isinstance(value, dict) and len(value) == 1:
        (held,) = value.values()
        value = held if isinstance(held, str) else value
    return "" if value is None else text_or_json(value)


def _metadata(traces: Sequence[Trace], conversation: str) -> JsonObject:
    """The metadata of the first turn, with those of all turns where they are lists or add up."""
    found: JsonObject = dict(traces[0].metadata)
    for name in ("tags", "recorders", "people"):
        values = [text for trace in traces for text in texts_in(trace.metadata.get(name))]
        values += [USER] if name == "people" else []
        found |= {name: list(dict.fromkeys(values))} if values else {}
    if any(stated_usage(trace) is not None for trace in traces):
        usage = total_usage(
            stated_usage(trace) or total_usage(used for _, used in counted_usage(trace)) for trace in traces
        )
        found["usage"] = msgspec.to_builtins(usage)
    return found | {"conversation_id": conversation, "turns": len(traces)}
