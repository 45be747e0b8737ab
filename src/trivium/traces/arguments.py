"""Arguments: when those of two tool calls are the same."""

import json
import re
from typing import Any

import msgspec


def canonical(value: Any) -> bytes:
    """A JSON value as bytes that are equal for equal values: keys sorted, 1.0 written as 1.

    A text that holds a JSON object or list counts as that value, since formats differ in it; no arguments
    at all count as an empty object.
    """
    if value is None:
        return b"{}"
    if isinstance(value, str) and value[:1] in ("{", "["):
        value = _decoded(value)
    try:
        text = msgspec.json.encode(value, order="deterministic")
    except UnicodeEncodeError:  # a lone surrogate, which only escaped ASCII can hold
        return json.dumps(value, sort_keys=True).encode()
    if _MAY_HOLD_WHOLE_FLOAT(text):
        text = msgspec.json.encode(_WHOLE_FLOATS.decode(text), order="deterministic")
    return text


def _decoded(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return text


def _number(text: str) -> int | float:
    value = float(text)
    return int(value) if value.is_integer() and abs(value) < 2**53 else value


_MAY_HOLD_WHOLE_FLOAT = re.compile(rb"[0-9](?:\.0|[eE])").search
_WHOLE_FLOATS = msgspec.json.Decoder(float_hook=_number)
