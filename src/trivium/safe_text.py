"""Makes untrusted texts safe: to store, and to show.

A store and JSON cannot hold lone surrogates and NUL: :func:`sanitise` replaces them, by U+FFFD and U+2400,
and normalises nothing else (docs/definitions/text.md#sanitising). On a screen and in a page, HTML escaping
keeps a text from becoming markup; :func:`visible` keeps it from moving the cursor, colouring the terminal,
breaking XML or reversing the reading direction.
"""

import json
import re
from typing import Any

import msgspec

LONE_SURROGATES = "lone_surrogates"
NUL = "nul"

_SURROGATES = range(0xD800, 0xE000)
_SURROGATE = re.compile("[\ud800-\udfff]")

_TOO_DEEP = "(nested too deeply to show)"
_BIDI_CONTROLS = (*range(0x202A, 0x202F), *range(0x2066, 0x206A))

_VISIBLE: dict[int, str] = {
    **{code: chr(0x2400 + code) for code in range(0x20) if chr(code) not in "\t\n"},
    0x7F: "␡",
    **dict.fromkeys(range(0x80, 0xA0), "�"),
    **dict.fromkeys(_SURROGATES, "�"),
    **{code: f"[U+{code:04X}]" for code in _BIDI_CONTROLS},
    0x2028: "\n",
    0x2029: "\n",
    0xFFFE: "�",
    0xFFFF: "�",
}


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


def visible(text: str) -> str:
    """Replace control characters by visible ones."""
    return text.replace("\r\n", "\n").translate(_VISIBLE)


def one_line(text: str, *, at_most: int = 200) -> str:
    """The beginning of a text on one line; an ellipsis marks omitted text."""
    # Only the head of a long text is processed: a few thousand characters are enough for one line.
    head = text[: 4 * at_most]
    line = " ".join(visible(head).split())
    if len(line) > at_most or len(head) < len(text):
        return line[: at_most - 1] + "…"
    return line


def cut(text: str, *, at_most: int) -> tuple[str, int]:
    """The beginning of a text, and the number of characters left out."""
    return visible(text[:at_most]), max(0, len(text) - at_most)


def as_json(value: Any, *, indent: int | None = 2) -> str:
    """A value as JSON for display; lone surrogates and deep nesting are harmless."""
    try:
        plain = msgspec.to_builtins(value, enc_hook=str, str_keys=True)
        return json.dumps(plain, ensure_ascii=False, indent=indent)
    except RecursionError:
        return _TOO_DEEP
