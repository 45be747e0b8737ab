"""Replaces characters that a store or JSON cannot hold, and flags what was replaced.

Definition: docs/definitions/text.md#sanitising.

Lone surrogates become U+FFFD, NUL becomes U+2400. Nothing else is normalised.
"""

import re
from typing import Any

LONE_SURROGATES = "lone_surrogates"
NUL = "nul"

_SURROGATE = re.compile("[\ud800-\udfff]")


def sanitise(value: Any) -> tuple[Any, tuple[str, ...]]:
    """Replace the characters of a JSON value that cannot be stored.

    Works without recursion, so that any depth and values that contain themselves are safe.

    Args:
        value: A text, or any JSON value; other objects within it are not changed.

    Returns:
        The value itself if nothing was replaced, else a copy; and those of the flags ``lone_surrogates`` and
        ``nul`` that apply.
    """
    flags = _flags(value)
    return (_cleaned(value) if flags else value), flags


def _flags(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        return _flags_of_text(value)
    if not isinstance(value, dict | list | tuple):
        return ()
    found: set[str] = set()
    seen: set[int] = set()
    waiting: list[Any] = [value]
    while waiting:
        current = waiting.pop()
        if isinstance(current, str):
            found.update(_flags_of_text(current))
        elif isinstance(current, dict | list | tuple) and id(current) not in seen:
            seen.add(id(current))
            if isinstance(current, dict):
                waiting.extend(current)
                waiting.extend(current.values())
            else:
                waiting.extend(current)
    return tuple(flag for flag in (LONE_SURROGATES, NUL) if flag in found)


def _flags_of_text(text: str) -> tuple[str, ...]:
    flags: tuple[str, ...] = ()
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            flags = (LONE_SURROGATES,)
    return (*flags, NUL) if "\0" in text else flags


def _cleaned_text(text: str) -> str:
    return _SURROGATE.sub("\ufffd", text).replace("\0", "\u2400")


def _cleaned(value: Any) -> Any:
    """Copy a value with every text in it sanitised; tuples become lists."""
    made: dict[int, Any] = {}
    holder: list[Any] = [None]
    waiting: list[tuple[Any, Any, Any]] = [(value, holder, 0)]
    while waiting:
        current, target, key = waiting.pop()
        if isinstance(current, str):
            target[key] = _cleaned_text(current)
        elif not isinstance(current, dict | list | tuple):
            target[key] = current
        elif id(current) in made:
            target[key] = made[id(current)]
        elif isinstance(current, dict):
            copy: Any = {_cleaned_key(name): None for name in current}
            target[key] = made[id(current)] = copy
            waiting.extend((item, copy, _cleaned_key(name)) for name, item in current.items())
        else:
            copy = [None] * len(current)
            target[key] = made[id(current)] = copy
            waiting.extend((item, copy, position) for position, item in enumerate(current))
    return holder[0]


def _cleaned_key(key: Any) -> Any:
    return _cleaned_text(key) if isinstance(key, str) else key
