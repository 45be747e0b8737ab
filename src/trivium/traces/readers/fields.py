"""Fields: what foreign JSON holds, taken leniently. A field of the wrong type counts as absent."""

from datetime import UTC, datetime
from typing import Any


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
        if isinstance(value, str | int | float) and not isinstance(value, bool) and value != "":
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
