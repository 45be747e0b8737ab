"""Stores on exported spans what OpenTelemetry has no attribute for, and reads it back.

The attributes stand beside those of the conventions, so that a trace that is exported and read again is
unchanged. Each holds a JSON text; one that cannot be read, because it was truncated, is ignored.
"""

from collections.abc import Sequence
from typing import Any, Final, Literal, TypeVar

import msgspec

from trivium.traces.opentelemetry import semconv
from trivium.traces.opentelemetry.semconv import RecordedSpan
from trivium.traces.trace import Message, Span, SpanKind

SPAN: Final = "trivium.span"
TRACE: Final = "trivium.trace"
MESSAGE: Final = "trivium.message"
"""Name of the event that is a message, and of its one attribute."""

As = Literal["text", "json"]
T = TypeVar("T")


class TriviumSpan(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A span as it was.

    Attributes:
        kind: Its kind; None for a span that stands for an attempt, and is none of the trace's.
        id: Its id, where that is no id of OpenTelemetry's.
        name: Its name.
        agent: Who did it.
        ok: As in the trace.
        input: Whether what went in was a text or is the JSON of it; None where nothing is told.
        output: Likewise of what came out.
        attributes: All of them.
    """

    kind: SpanKind | None
    id: str | None = None
    name: str = ""
    agent: str | None = None
    ok: bool | None = None
    input: As | None = None
    output: As | None = None
    attributes: dict[str, Any] = {}


class TriviumTrace(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A trace as it was.

    Attributes:
        trace_id: Its id.
        zero: Nanoseconds since 1970 at which its clock shows 0; None where its times are none.
        metadata: All of it.
    """

    trace_id: str
    zero: int | None = None
    metadata: dict[str, Any] = {}


_SPAN = msgspec.json.Decoder(TriviumSpan)
_TRACE = msgspec.json.Decoder(TriviumTrace)
_MESSAGE = msgspec.json.Decoder(Message)


def exported_trace(spans: Sequence[RecordedSpan]) -> TriviumTrace | None:
    """What the first span that tells of it says of the whole trace, or None."""
    stored = (_decoded(_TRACE, span.attributes.get(semconv.TRIVIUM_TRACE)) for span in spans)
    return next((found for found in stored if found is not None), None)


def exported_messages(spans: Sequence[RecordedSpan]) -> list[Message]:
    """The messages that went out as events, in their order."""
    events = [attributes for span in spans for name, attributes in span.events or () if name == MESSAGE]
    found = [_decoded(_MESSAGE, attributes.get(MESSAGE)) for attributes in events]
    return [message for message in found if message is not None]


def restored_spans(spans: Sequence[Span], recorded: Sequence[RecordedSpan]) -> list[Span]:
    """The spans as they were, where they say so; a span that stands for an attempt goes.

    Args:
        spans: As the conventions tell them.
        recorded: What those are made of, one for one.
    """
    stored = [_decoded(_SPAN, source.attributes.get(semconv.TRIVIUM_SPAN)) for source in recorded]
    ids = {span.id: own.id for span, own in zip(spans, stored, strict=True) if own and own.id is not None}
    return [
        _restored(span, source, own, ids)
        for span, source, own in zip(spans, recorded, stored, strict=True)
        if own is None or own.kind is not None
    ]


def _restored(span: Span, source: RecordedSpan, own: TriviumSpan | None, ids: dict[str, str]) -> Span:
    parent = None if span.parent is None else ids.get(span.parent, span.parent)
    if own is None or own.kind is None:
        return msgspec.structs.replace(span, parent=parent)
    attributes = source.attributes
    if own.kind == "tool":
        goes_in, comes_out = attributes.get(semconv.ARGUMENTS), attributes.get(semconv.RESULT)
    elif own.kind == "other":
        goes_in, comes_out = attributes.get(semconv.INPUT), attributes.get(semconv.OUTPUT)
    else:
        goes_in, comes_out = attributes.get(semconv.INPUT_MESSAGES), attributes.get(semconv.OUTPUT_MESSAGES)
    return msgspec.structs.replace(
        span,
        id=ids.get(span.id, span.id),
        parent=parent,
        kind=own.kind,
        name=own.name,
        agent=own.agent,
        ok=own.ok,
        input=_content(goes_in, own.input, spoken=own.kind in {"agent", "llm"}),
        output=_content(comes_out, own.output, spoken=own.kind in {"agent", "llm"}),
        usage=span.usage if own.kind == "llm" else None,
        attributes=own.attributes,
    )


def _content(stored: Any, as_: As | None, *, spoken: bool) -> Any:
    if as_ is None or not isinstance(stored, str):
        return None
    if not spoken:
        return stored if as_ == "text" else _json(stored)
    messages = _json(stored)
    if is_conversation(messages):
        inner = messages[0]["parts"][0]["content"] if _is_wrapped(messages) else messages
        return _json(inner) if as_ == "json" and isinstance(inner, str) else inner
    return None


def is_conversation(value: Any) -> bool:
    """Whether a value is messages as the GenAI conventions have them: each with a role and its parts."""
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(each, dict) and "role" in each and "parts" in each for each in value)
    )


def wrapped(text: str, role: str) -> list[dict[str, Any]]:
    """A text as the one message of a conversation."""
    return [{"role": role, "parts": [{"type": "text", "content": text}], WRAPPED: True}]


WRAPPED: Final = "trivium.wrapped"
"""Key of a message that only stands around a text."""


def _is_wrapped(messages: list[dict[str, Any]]) -> bool:
    parts = messages[0]["parts"]
    return (
        messages[0].get(WRAPPED) is True
        and isinstance(parts, list)
        and bool(parts)
        and isinstance(parts[0], dict)
        and isinstance(parts[0].get("content"), str)
    )


def _decoded(decoder: "msgspec.json.Decoder[T]", text: Any) -> T | None:
    try:
        return decoder.decode(text) if isinstance(text, str) else None
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None


def _json(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return text
