"""Contents: what went in and came out, taken from attributes and events."""

from collections.abc import Iterable, Mapping
from math import isfinite
from typing import Any

import msgspec

from trivium.traces.opentelemetry import wanted
from trivium.traces.opentelemetry.recorded import RecordedSpan
from trivium.traces.trace import SpanUsage

_MOST_TOKENS = 2**53
_CHOICE = "gen_ai.choice"


def first(attributes: Mapping[str, Any], keys: Iterable[str]) -> Any:
    """The first of some attributes that is there and not empty."""
    for key in keys:
        value = attributes.get(key)
        if value is not None and value != "":
            return value
    return None


def name_of(attributes: Mapping[str, Any], keys: Iterable[str]) -> str | None:
    """The first of some attributes that holds a text, or a number as one."""
    for key in keys:
        value = attributes.get(key)
        if isinstance(value, str):
            if value:
                return value
        elif isinstance(value, int | float) and not isinstance(value, bool):
            return str(value)
    return None


def parsed(value: Any) -> Any:
    """Structures come as JSON texts; any other text, and one nested too deep, is itself."""
    if isinstance(value, str) and value[:1] in {"{", "["}:
        try:
            return msgspec.json.decode(value)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return value
    return value


def usage_of(attributes: Mapping[str, Any]) -> SpanUsage | None:
    """Tokens and cost of a model request, or None when it says nothing."""
    tokens_in = _tokens(first(attributes, wanted.TOKENS_IN))
    tokens_out = _tokens(first(attributes, wanted.TOKENS_OUT))
    cost = first(attributes, wanted.COSTS)
    if isinstance(cost, bool) or not isinstance(cost, int | float) or not isfinite(cost):
        cost = None
    if tokens_in is None and tokens_out is None and cost is None:
        return None
    return SpanUsage(input_tokens=tokens_in, output_tokens=tokens_out, cost_usd=cost)


def said(span: RecordedSpan) -> Any:
    """What a model answered: an attribute, or in old conventions an event."""
    found = first(span.attributes, wanted.SAID)
    if found is not None:
        return parsed(found)
    choices = [attributes for name, attributes in span.events if name == _CHOICE]
    told = parsed(span.attributes.get(wanted.MESSAGE_EVENTS))
    if not choices and isinstance(told, list):
        choices = [event for event in told if isinstance(event, dict) and event.get("event.name") == _CHOICE]
    return parsed(first(choices[-1], ("message", "content", "gen_ai.event.content"))) if choices else None


def error_of(span: RecordedSpan) -> str:
    """Why a span failed, in the words of its status, its exception or the type of its error."""
    if span.error:
        return span.error
    for name, attributes in span.events:
        if name == "exception":
            told = [attributes.get(f"exception.{part}") for part in ("type", "message")]
            return ": ".join(part for part in told if part and isinstance(part, str))
    return name_of(span.attributes, (wanted.ERROR_TYPE,)) or ""


def escaped(span: RecordedSpan) -> bool:
    """Whether an exception left the span, though its status does not say so."""
    return any(
        name == "exception" and attributes.get("exception.escaped") in (True, "true", "True")
        for name, attributes in span.events
    )


def _tokens(value: Any) -> int | None:
    if isinstance(value, str) and value.isdecimal() and len(value) <= 16:
        value = int(value)
    if isinstance(value, float) and isfinite(value) and value == int(value):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _MOST_TOKENS:
        return None
    return value
