"""Fragments of HTML pages: values in a cell, names, and the drawing of an interval."""

import re
from math import isfinite
from typing import Any

from markupsafe import Markup

from trivium.reports.drawings.interval import range_svg
from trivium.safe_text import as_json, one_line, visible

HEAD_CHARS = 1_500
"""Characters of a text shown without unfolding."""
TEXT_CHARS = 20_000
"""Largest number of characters of a text in the report, which states how many it leaves out."""
JSON_CHARS = 4_000
CELL_CHARS = 160
_WORD_ENDS = re.compile(r"(?<=[_./:-])(?=\w)")


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


def breakable(name: str) -> Markup:
    """A name that a line may break after ``_ . / : -`` and not in the middle of a word."""
    return Markup("<wbr>").join(_WORD_ENDS.split(visible(name)))


def bar(value: float | None) -> Markup:
    """A value, drawn on [0, 1]; nothing for one that is missing."""
    known = value is not None and isfinite(value)
    return Markup(range_svg(value, None) if known else "")  # noqa: S704 - made of numbers
