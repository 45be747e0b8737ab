"""Values: OTLP's tagged values, times and keys as plain JSON values."""

from typing import Any

from trivium.traces.readers.fields import dicts

LATEST = 2**63
"""Nanoseconds since 1970 in the year 2262; what is later is no time."""

_WHOLE = 2**63
_PLAIN = {
    "stringValue": str,
    "string_value": str,
    "boolValue": bool,
    "bool_value": bool,
    "bytesValue": str,
    "bytes_value": str,
}


def either(item: dict[str, Any], *keys: str) -> Any:
    """What stands under the first of some spellings that is there."""
    for key in keys:
        if key in item:
            return item[key]
    return None


def moment(value: Any) -> int | None:
    """Nanoseconds since 1970, from a number or its digits; zero and what is no time are None."""
    if isinstance(value, str):
        value = int(value) if value.isascii() and value.isdecimal() and len(value) < 20 else None
    elif isinstance(value, float):
        value = int(value) if 0 < value < LATEST else None
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if 0 < value < LATEST else None


def attributes_of(attributes: Any) -> dict[str, Any]:
    """Attributes by key; a plain object is taken as it is."""
    if isinstance(attributes, dict):
        return attributes
    return {item["key"]: any_value(item.get("value")) for item in dicts(attributes) if _is_key(item)}


def any_value(value: Any) -> Any:
    """What a tagged value says; None where it says nothing. Walked without recursion."""
    found: list[Any] = [None]
    waiting: list[tuple[Any, Any, Any]] = [(found, 0, value)]
    while waiting:
        target, key, tagged = waiting.pop()
        if not isinstance(tagged, dict):
            continue
        for tag, inner in tagged.items():
            if tag in {"arrayValue", "array_value"}:
                items = inner.get("values") if isinstance(inner, dict) else None
                items = items if isinstance(items, list) else []
                target[key] = made = [None] * len(items)
                waiting += [(made, index, item) for index, item in enumerate(items)]
            elif tag in {"kvlistValue", "kvlist_value"}:
                pairs = dicts(inner.get("values") if isinstance(inner, dict) else None)
                table: dict[str, Any] = {}
                target[key] = table
                waiting += [(table, pair["key"], pair.get("value")) for pair in pairs if _is_key(pair)]
            else:
                target[key] = _plain(tag, inner)
            break
    return found[0]


def _is_key(pair: dict[str, Any]) -> bool:
    return isinstance(pair.get("key"), str)


def _plain(tag: str, inner: Any) -> Any:
    if tag in {"intValue", "int_value"}:
        if isinstance(inner, str) and inner.removeprefix("-").isdecimal() and len(inner) <= 20:
            inner = int(inner)
        whole = isinstance(inner, int) and not isinstance(inner, bool) and -_WHOLE <= inner < _WHOLE
        return inner if whole else None
    if tag in {"doubleValue", "double_value"}:
        return float(inner) if isinstance(inner, int | float) and not isinstance(inner, bool) else None
    kind = _PLAIN.get(tag)
    return inner if kind is not None and isinstance(inner, kind) else None
