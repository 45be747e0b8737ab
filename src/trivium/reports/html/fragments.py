"""Fragments of HTML pages: folded texts and the drawing of an interval."""

import re
from typing import Any

import msgspec
from markupsafe import Markup

from trivium.reports.drawings.interval import range_svg
from trivium.reports.escape import as_json, cut, one_line, visible

HEAD_CHARS = 1_500
"""Characters of a text shown without unfolding."""
TEXT_CHARS = 20_000
"""Largest number of characters of a text in the report, which states how many it leaves out."""
JSON_CHARS = 4_000
CELL_CHARS = 160
_WORD_ENDS = re.compile(r"(?<=[_./:-])(?=\w)")


class Folded(msgspec.Struct, frozen=True, kw_only=True):
    """A text split into a visible and a folded part.

    Attributes:
        head: The visible part.
        rest: The folded part.
        chars: Length of the whole text.
        left_out: Number of characters that are not in the report.
        is_json: Whether it is a value written as JSON rather than a text.
    """

    head: str
    rest: str
    chars: int
    left_out: int
    is_json: bool


def folded(value: Any, *, at_most: int = TEXT_CHARS) -> Folded | None:
    """A text or any JSON value, ready to show; None if empty."""
    if value is None or value == "":
        return None
    is_json = not isinstance(value, str)
    text = as_json(value) if is_json else value
    shown, left_out = cut(text, at_most=at_most)
    split = len(shown) if len(shown) <= HEAD_CHARS else _word_end(shown)
    return Folded(head=shown[:split], rest=shown[split:], chars=len(text), left_out=left_out, is_json=is_json)


def short(value: Any) -> str:
    """A value for a table cell."""
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, str):
        return one_line(value, at_most=CELL_CHARS)
    return one_line(as_json(_rounded(value), indent=None), at_most=CELL_CHARS)


def _rounded(value: Any) -> Any:
    """A list of numbers rounded to four digits."""
    if isinstance(value, (list, tuple)):
        return [float(f"{one:.4g}") if isinstance(one, float) else one for one in value]
    return value


def _word_end(text: str) -> int:
    """Where to fold: at the last white space within 80 characters before the limit, or at the limit."""
    for place in range(HEAD_CHARS, HEAD_CHARS - 80, -1):
        if text[place].isspace():
            return place
    return HEAD_CHARS


def breakable(name: str) -> Markup:
    """A name that a line may break after ``_ . / : -`` and not in the middle of a word."""
    return Markup("<wbr>").join(_WORD_ENDS.split(visible(name)))


def bar(mean: float | None, interval: tuple[float, float] | None = None) -> Markup:
    """A mean and its interval, drawn on [0, 1]."""
    return Markup(range_svg(mean, interval))  # noqa: S704 - made of numbers
