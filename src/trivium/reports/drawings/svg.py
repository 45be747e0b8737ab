"""Builds SVG elements as text, with all content escaped."""

import math
from html import escape

import msgspec

from trivium.safe_text import one_line

Number = int | float
Point = tuple[float, float]


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
