"""Contents: what went in and came out, taken from attributes and events."""

from collections.abc import Mapping
from math import isfinite
from typing import Any

import msgspec

from trivium.traces.opentelemetry import wanted
from trivium.traces.opentelemetry.recorded import RecordedSpan
from trivium.traces.trace import SpanUsage

_MOST_TOKENS = 2**53
_CHOICE = "gen_ai.choice"
_MESSAGES = ("message", "content", "gen_ai.event.content")


def named(value: Any) -> str | None:
    """A text that is not empty, or a number as text."""
    if isinstance(value, str):
        return value or None
    if isinstance(value, int | float) and not isinstance(value, bool):
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
    tokens_in = _tokens(attributes.get(wanted.TOKENS_IN))
    tokens_out = _tokens(attributes.get(wanted.TOKENS_OUT))
    cost = attributes.get(wanted.COST)
    if isinstance(cost, bool) or not isinstance(cost, int | float) or not isfinite(cost):
        cost = None
    if tokens_in is None and tokens_out is None and cost is None:
        return None
    return SpanUsage(input_tokens=tokens_in, output_tokens=tokens_out, cost_usd=cost)


def wrong_counts(attributes: Mapping[str, Any]) -> str | None:
    """What is wrong with the token counts of a model request, in words; None where nothing is."""
    named = (("input", wanted.TOKENS_IN), ("output", wanted.TOKENS_OUT))
    wrong = [
        f"{what} tokens are {attributes[key]!r:.40}"
        for what, key in named
        if attributes.get(key) is not None and _tokens(attributes[key]) is None
    ]
    if wrong:
        return f"its {' and its '.join(wrong)}, which is no count; they are left out of all sums"
    if wanted.CONTRADICTS in attributes:
        usage = usage_of(attributes)
        taken = (None, None) if usage is None else (usage.input_tokens, usage.output_tokens)
        return f"its attributes say different numbers of tokens; taken are {taken[0]} in, {taken[1]} out"
    return None


def said(span: RecordedSpan) -> Any:
    """What a model answered: an attribute, or in old conventions an event."""
    found = span.attributes.get(wanted.SAID)
    if found is not None:
        return parsed(found)
    choices = [attributes for name, attributes in span.events or () if name == _CHOICE]
    if not choices and wanted.MESSAGE_EVENTS in span.attributes:
        told = parsed(span.attributes[wanted.MESSAGE_EVENTS])
        events = [event for event in told if isinstance(event, dict)] if isinstance(told, list) else []
        choices = [event for event in events if event.get("event.name") == _CHOICE]
    if choices:
        return parsed(next((choices[-1][key] for key in _MESSAGES if key in choices[-1]), None))
    return parsed(span.attributes.get(wanted.OUTPUT))


def error_of(span: RecordedSpan) -> str:
    """Why a span failed, in the words of its status, its exception or the type of its error."""
    if span.error:
        return span.error
    for name, attributes in span.events or ():
        if name == "exception":
            told = [attributes.get(f"exception.{part}") for part in ("type", "message")]
            return ": ".join(part for part in told if part and isinstance(part, str))
    return named(span.attributes.get(wanted.ERROR_TYPE)) or ""


def escaped(span: RecordedSpan) -> bool:
    """Whether an exception left the span, though its status does not say so."""
    return any(
        name == "exception" and attributes.get("exception.escaped") in (True, "true", "True")
        for name, attributes in span.events or ()
    )


def _tokens(value: Any) -> int | None:
    if value is None:
        return None
    if isinstance(value, str) and value.isdecimal() and len(value) <= 16:
        value = int(value)
    if isinstance(value, float) and isfinite(value) and value == int(value):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _MOST_TOKENS:
        return None
    return value
