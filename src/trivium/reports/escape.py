"""Makes untrusted text safe to display.

HTML escaping keeps text from becoming markup. This module keeps it from moving the cursor, colouring the
terminal, breaking XML or reversing the reading direction.
"""

import json
from typing import Any

import msgspec

_TOO_DEEP = "(nested too deeply to show)"
_SURROGATES = range(0xD800, 0xE000)
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
