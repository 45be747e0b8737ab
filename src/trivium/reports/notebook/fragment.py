"""Building blocks of HTML for notebooks: escaped text, inline styles, colours for any background.

Notebooks and code hosts remove style sheets and scripts from cell outputs.
"""

from collections.abc import Iterable, Sequence

from trivium.reports.drawings.svg import element, text

GOOD, WARN, BAD, BLUE = "#1f9d63", "#c98a00", "#d9534f", "#3d8fc4"
"""Colours that are visible on white and on black."""
FAINT = "rgba(128,128,128,.35)"

ANSWERS = {"pass": ("✓", GOOD), "fail": ("✗", BAD), "inconclusive": ("?", WARN)}

_BOX = (
    "font:13px/1.5 system-ui,sans-serif;color:inherit;max-width:980px;overflow-x:auto;"
    # colours for drawings that use those of the page
    f"--ink:currentColor;--muted:currentColor;--line:{FAINT};--soft:rgba(128,128,128,.15);"
    f"--good:{GOOD};--warn:{WARN};--bad:{BAD}"
)
_CELL = f"padding:2px 10px 2px 0;border:0;border-bottom:1px solid {FAINT};white-space:nowrap;background:none"
_QUIET = "opacity:.7;font-size:12px"

BAR, BAR_HEIGHT = 150, 16
"""Width and height in pixels of an interval's drawing."""


def box(*parts: str) -> str:
    """The fragment made of these parts."""
    return element("div", *parts, style=_BOX)


def heading(words: str, beside: str = "") -> str:
    """A title, with a note next to it."""
    note = element("span", text(beside), style=f"{_QUIET};margin-left:10px")
    return element("div", element("b", text(words, at_most=300), style="font-size:15px"), note)


def line(words: str, *, quiet: bool = False) -> str:
    """A paragraph."""
    return element("div", text(words, at_most=2000), style=_QUIET if quiet else "margin:2px 0")


def warnings(lines: Iterable[str]) -> str:
    """A block of warnings; empty without any."""
    style = f"border-left:3px solid {WARN};padding-left:8px;margin:6px 0"
    paragraphs = "".join(element("div", text(each, at_most=2000)) for each in lines)
    return element("div", paragraphs, style=style) if paragraphs else ""


def verdict(answer: str, words: str) -> str:
    """An answer (pass, fail or inconclusive) with its reason."""
    mark, colour = ANSWERS.get(answer, ("?", WARN))
    answer_words = element("b", f"{mark} {text(answer)}", style=f"color:{colour};white-space:nowrap")
    return element("div", answer_words, " ", text(words, at_most=2000), style="margin:4px 0")


def table(names: Sequence[str], rows: Iterable[Sequence[str]], *, left: int = 1) -> str:
    """A table.

    Args:
        names: Names of the columns, escaped here.
        rows: Cells, each made by :func:`text` or :func:`element`.
        left: Number of left-aligned columns; the others hold numbers.
    """
    sides = ["left" if place < left else "right" for place in range(len(names))]
    head = "".join(
        element("th", text(name), style=f"{_CELL};text-align:{side};font-weight:500;opacity:.7")
        for name, side in zip(names, sides, strict=True)
    )
    body = "".join(
        element(
            "tr",
            *(
                element("td", cell, style=f"{_CELL};text-align:{side};font-variant-numeric:tabular-nums")
                for cell, side in zip(row, sides, strict=True)
            ),
            style="background:none",
        )
        for row in rows
    )
    style = "border-collapse:collapse;margin:8px 0;border:0;font-size:13px;color:inherit;background:none"
    return element("table", element("thead", element("tr", head)), element("tbody", body), style=style)


def interval_bar(mean: float | None, ends: tuple[float, float] | None) -> str:
    """A value with its interval on a line from 0 to 1, to be shown next to the numbers."""
    middle = BAR_HEIGHT / 2
    parts = [element("line", x1=2, x2=BAR - 2, y1=middle, y2=middle, stroke=FAINT, stroke_width=2)]
    if ends is not None:
        low, high = _across(ends[0]), _across(ends[1])
        parts.append(element("line", x1=low, x2=high, y1=middle, y2=middle, stroke=BLUE, stroke_width=4))
    if mean is not None:
        parts.append(element("circle", cx=_across(mean), cy=middle, r=4, fill="currentColor"))
    return element(
        "svg", *parts, width=BAR, height=BAR_HEIGHT, aria_hidden="true", style="vertical-align:middle"
    )


def _across(value: float) -> float:
    return 4 + (BAR - 8) * min(1.0, max(0.0, value))
