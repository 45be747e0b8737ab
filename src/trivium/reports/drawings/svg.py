"""Builds SVG elements as text, with all content escaped."""

import math
import re
from html import escape
from pathlib import Path

import msgspec

from trivium.errors import InputError, MissingExtra
from trivium.safe_text import one_line

Number = int | float
Point = tuple[float, float]

COLOURS = {
    "ink": "var(--ink,#1c2127)",
    "muted": "var(--muted,#59626c)",
    "line": "var(--line,#dcdfe3)",
    "soft": "var(--soft,#f2f2ef)",
    "paper": "var(--paper,#ffffff)",
    "good": "var(--good,#1a7346)",
    "warn": "var(--warn,#825500)",
    "bad": "var(--bad,#ab2f28)",
    "accent": "var(--accent,#1d5b86)",
    "second": "var(--second,#a3541a)",
    "third": "var(--third,#7d5399)",
}
"""Colours of the page around a drawing, each with the one that it has elsewhere."""
_VARIABLE = re.compile(r"var\(--\w+,(#\w+)\)")
_PAPER = '<rect width="100%" height="100%" fill="#ffffff"/>'


HALF_PAGE = 545
"""Widest drawing in pixels that fits next to another."""


class Drawing(msgspec.Struct, frozen=True, kw_only=True):
    """A finished drawing.

    Attributes:
        svg: The element, safe to embed in a page.
        title: Title of the drawing.
        width: Width in pixels; None if it fills the available width.
        notes: What was left out, one sentence each.
    """

    svg: str
    title: str
    width: float | None = None
    notes: tuple[str, ...] = ()

    @property
    def wide(self) -> bool:
        """Whether it needs the whole width of a page."""
        return (self.width or 0) > HALF_PAGE


def element(tag: str, *children: str, **attributes: str | Number | None) -> str:
    """One element.

    Args:
        tag: Name of the element.
        children: Content: elements made here, or escaped text.
        attributes: ``class_`` and ``text_anchor`` become ``class`` and ``text-anchor``; None omits an
            attribute.
    """
    attribute_text = "".join(
        f' {name.strip("_").replace("_", "-")}="{_value(value)}"'
        for name, value in attributes.items()
        if value is not None
    )
    return f"<{tag}{attribute_text}>{''.join(children)}</{tag}>"


def text(content: str, *, at_most: int = 200) -> str:
    """Untrusted text on one line, escaped."""
    return escape(one_line(content, at_most=at_most))


def picture(*children: str, label: str, width: Number, height: Number, class_: str) -> str:
    """An ``svg`` element with a description for screen readers."""
    return element(
        "svg",
        element("title", text(label, at_most=600)),
        *children,
        xmlns="http://www.w3.org/2000/svg",
        role="img",
        class_=class_,
        width=width,
        height=height,
        viewBox=f"0 0 {_value(width)} {_value(height)}",
    )


def line(
    x1: float,
    y1: float,
    x2: float,
    y2: float,
    colour: str = "line",
    *,
    width: int = 1,
    dashes: str | None = None,
) -> str:
    """A line in one of ``COLOURS``; its dashes and gaps as lengths in pixels."""
    ends = {"x1": x1, "y1": y1, "x2": x2, "y2": y2}
    return element("line", **ends, stroke=COLOURS[colour], stroke_width=width, stroke_dasharray=dashes)


def label(
    words: str,
    x: float,
    y: float,
    *,
    anchor: str = "middle",
    colour: str = "ink",
    size: int = 12,
    **attributes: str | Number | None,
) -> str:
    """Words that are escaped already, in one of ``COLOURS``."""
    return element(
        "text",
        words,
        x=x,
        y=y,
        fill=COLOURS[colour],
        font_family="system-ui, sans-serif",
        font_size=size,
        text_anchor=anchor,
        **attributes,
    )


def round_step(rough: float) -> float:
    """The next larger number of 1, 2, 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(rough))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * (1 - 1e-9))


def check_picture_name(path: Path) -> None:
    """Refuse a file name that ends neither in .svg nor in .png.

    Raises:
        InputError: If it is refused.
    """
    if path.suffix.lower() not in {".svg", ".png"}:
        raise InputError(str(path), "a chart is written as .svg or .png")


def write_picture(path: Path, svg: str) -> None:
    """Write a picture to a file of its own, in default colours on white.

    Raises:
        InputError: If the file name ends neither in .svg nor in .png.
        MissingExtra: If the name ends in .png and ``trivium[report]`` is not installed.
        OSError: If the file cannot be written.
    """
    check_picture_name(path)
    svg = _VARIABLE.sub(r"\1", svg).replace("<title>", _PAPER + "<title>", 1)
    if path.suffix.lower() == ".svg":
        path.write_text(svg, encoding="utf-8")
        return
    try:
        import vl_convert
    except ImportError as error:
        raise MissingExtra("report", "A chart as PNG") from error
    path.write_bytes(vl_convert.svg_to_png(svg, scale=2))


def arrow_head(x: float, y: float, dx: float, dy: float) -> str:
    """A small triangle with its tip at (x, y), pointing along the unit vector (dx, dy)."""
    length, half = 7.0, 3.5
    back_x, back_y = x - length * dx, y - length * dy
    corners = [(x, y), (back_x - half * dy, back_y + half * dx), (back_x + half * dy, back_y - half * dx)]
    return element("polygon", points=" ".join(f"{_value(a)},{_value(b)}" for a, b in corners), class_="tip")


def thickness(count: int) -> float:
    """Width of an edge in pixels; it grows with every doubling, up to 4."""
    return min(4.0, 1.2 + 0.5 * math.log2(count)) if count > 0 else 1.2


def count_mark(at: Point, count: int) -> str:
    """A number on an edge."""
    label = f"{count:,}"
    width = 7.0 * len(label) + 7
    return element(
        "g",
        element("rect", x=at[0] - width / 2, y=at[1] - 8, width=width, height=16, rx=8),
        element("text", label, x=at[0], y=at[1] + 4),
        class_="count",
    )


def _value(value: str | Number) -> str:
    if isinstance(value, str):
        return escape(value)
    return f"{value:.1f}".removesuffix(".0")
