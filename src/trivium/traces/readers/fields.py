"""Fields: what foreign JSON holds, taken leniently. A field of the wrong type counts as absent."""

import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import Any

import msgspec

_UNITS = ((1e17, 1e-9), (1e14, 1e-6), (1e11, 1e-3))
"""Numbers above the first are times since 1970 in the second: nano-, micro- and milliseconds."""


def dicts(value: Any) -> list[dict[str, Any]]:
    """The objects in a list; nothing when it is no list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def dict_(value: Any) -> dict[str, Any]:
    """An object, or an empty one."""
    return value if isinstance(value, dict) else {}


def text(item: dict[str, Any], *keys: str) -> str | None:
    """The first of some keys that holds a text or a number, as text."""
    for key in keys:
        value = item.get(key)
        if isinstance(value, str):
            if value:
                return value
        elif isinstance(value, int | float) and not isinstance(value, bool):
            return str(value)
    return None


def number(value: Any) -> float | None:
    """A number of seconds; ISO dates become seconds since 1970, in UTC when they do not say."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return float(value) if abs(value) < 1e300 or value != value else None  # noqa: PLR0124 - NaN is kept
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            return None
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    return None


def moment(value: Any) -> float | None:
    """A time as seconds since 1970; None when there is none, as the all-zero time of an unfinished call.

    ISO dates are read with a T or a space, and those of HTTP headers, which Flask writes into JSON; numbers
    (or texts of digits) as seconds, milli-, micro- or nanoseconds, whichever puts them into this age.
    """
    if isinstance(value, str) and value.isdecimal() and len(value) < 25:
        value = int(value)
    seconds = number(value)
    if seconds is None and isinstance(value, str) and value[3:4] == ",":
        seconds = _http_date(value)
    if seconds is None or seconds <= 0:
        return None
    if isinstance(value, int | float):
        seconds *= next((unit for least, unit in _UNITS if seconds > least), 1.0)
    return seconds


def _http_date(value: str) -> float | None:
    try:
        return parsedate_to_datetime(value[:40]).timestamp()
    except (ValueError, TypeError, OverflowError):
        return None


def count(value: Any) -> int | None:
    """A number of tokens, or None."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 2**53:
        return None
    return int(value)


def dollars(value: Any) -> float | None:
    """A cost above zero, or None (a service that knows no price says 0); decimals may be written as text."""
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e12:
        return None
    return float(value)


def decoded(value: Any) -> Any:
    """What a JSON text holds (an object, a list, or a text that was encoded twice), else the value itself."""
    for _ in range(2):
        if not isinstance(value, str) or value[:1] not in {"{", "[", '"'}:
            break
        try:
            value = msgspec.json.decode(value)
        except (msgspec.DecodeError, RecursionError, UnicodeError):
            break
    return value


def snake(item: dict[str, Any]) -> dict[str, Any]:
    """An object with its keys in snake case; a key that is there in both forms keeps the snake's value."""
    if all(map(str.islower, item)):
        return item
    return {_snake(key): value for key, value in item.items()} | {
        key: value for key, value in item.items() if _snake(key) == key
    }


@lru_cache(maxsize=4096)
def _snake(key: str) -> str:
    return re.sub("(?<=[a-z0-9])([A-Z])", r"_\1", key).lower()
