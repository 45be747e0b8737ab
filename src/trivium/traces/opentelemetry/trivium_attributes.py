"""Stores on exported spans what OpenTelemetry has no attribute for, and reads it back.

These attributes complement those of the conventions, so that a trace survives export and import unchanged.
Each holds a JSON text; one that cannot be parsed, because it was truncated, is ignored.
"""

from collections.abc import Sequence
from typing import Any, Final, Literal, TypeVar

import msgspec

from trivium.traces.opentelemetry import semconv
from trivium.traces.opentelemetry.semconv import RecordedSpan
from trivium.traces.trace import Message, Span
from trivium.values import JsonObject, dicts, json_or_text

MESSAGE: Final = "trivium.message"
"""Name of the event that is a message, and of its one attribute."""

As = Literal["text", "json"]
T = TypeVar("T")


class TriviumSpan(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the conventions do not cover of an exported span.

    Attributes:
        span: The span without its place, times and contents, and without the usage of a model request; None
            for a placeholder of an attempt without a trace.
        input: Whether the input was a text or another JSON value; None where there is none.
        output: The same for the output.
    """

    span: Span | None
    input: As | None = None
    output: As | None = None


class TriviumTrace(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The fields of an exported trace that the conventions do not cover.

    Attributes:
        trace_id: Its id.
        zero: Unix time, in nanoseconds, at which its clock shows 0; None if its times cannot be absolute.
        metadata: All metadata of the trace.
    """

    trace_id: str
    zero: int | None = None
    metadata: JsonObject = {}


_SPAN = msgspec.json.Decoder(TriviumSpan)
_TRACE = msgspec.json.Decoder(TriviumTrace)
_MESSAGE = msgspec.json.Decoder(Message)


def exported_trace(spans: Sequence[RecordedSpan]) -> TriviumTrace | None:
    """The fields of the original trace, from the first span that carries them; None without any."""
    decoded = (_decoded(_TRACE, span.attributes.get(semconv.TRIVIUM_TRACE)) for span in spans)
    return next((trace for trace in decoded if trace is not None), None)


def exported_messages(spans: Sequence[RecordedSpan]) -> list[Message]:
    """The messages that were exported as events, in order."""
    events = [attributes for span in spans for name, attributes in span.events or () if name == MESSAGE]
    messages = [_decoded(_MESSAGE, attributes.get(MESSAGE)) for attributes in events]
    return [message for message in messages if message is not None]


def restored_spans(spans: Sequence[Span], recorded: Sequence[RecordedSpan]) -> list[Span]:
    """Restore the original spans where the export holds them; drop placeholders.

    Args:
        spans: The spans as read from the conventions' attributes.
        recorded: The recorded spans that they were made from, one for each.
    """
    originals = [_decoded(_SPAN, source.attributes.get(semconv.TRIVIUM_SPAN)) for source in recorded]
    ids = {
        span.id: original.span.id
        for span, original in zip(spans, originals, strict=True)
        if original and original.span
    }
    return [
        _restored(span, source, original, ids)
        for span, source, original in zip(spans, recorded, originals, strict=True)
        if original is None or original.span is not None
    ]


def _restored(span: Span, source: RecordedSpan, original: TriviumSpan | None, ids: dict[str, str]) -> Span:
    parent = None if span.parent is None else ids.get(span.parent, span.parent)
    if original is None or original.span is None:
        return msgspec.structs.replace(span, parent=parent)
    kind = original.span.kind
    input_, output = map(source.attributes.get, semconv.CONTENTS[kind])
    return msgspec.structs.replace(
        original.span,
        parent=parent,
        start=span.start,
        end=span.end,
        input=_content(input_, original.input, is_message=kind in {"agent", "llm"}),
        output=_content(output, original.output, is_message=kind in {"agent", "llm"}),
        usage=span.usage if kind == "llm" else original.span.usage,
    )


def _content(stored: Any, as_: As | None, *, is_message: bool) -> Any:
    if as_ is None or not isinstance(stored, str):
        return None
    if not is_message:
        return stored if as_ == "text" else json_or_text(stored)
    messages = json_or_text(stored)
    if not is_conversation(messages):
        return None
    inner = next((part.get("content") for part in dicts(messages[0]["parts"])[:1]), None)
    if messages[0].get(WRAPPED) is not True or not isinstance(inner, str):
        return messages
    return json_or_text(inner) if as_ == "json" else inner


def is_conversation(value: Any) -> bool:
    """Whether a value is a list of GenAI messages, each with a role and parts."""
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(each, dict) and "role" in each and "parts" in each for each in value)
    )


def wrapped(text: str, role: str) -> list[JsonObject]:
    """Wrap a text as a conversation of one message."""
    return [{"role": role, "parts": [{"type": "text", "content": text}], WRAPPED: True}]


WRAPPED: Final = "trivium.wrapped"
"""Key of a message that only wraps a text."""


def _decoded(decoder: "msgspec.json.Decoder[T]", text: Any) -> T | None:
    try:
        return decoder.decode(text) if isinstance(text, str) else None
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
