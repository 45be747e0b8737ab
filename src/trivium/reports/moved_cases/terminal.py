"""Moved cases in a terminal: question, reference and both outputs, a few lines each."""

import re
from collections.abc import Iterator

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from trivium.errors import StoreError
from trivium.reports.moved_cases.shown import (
    CALL_MARKS,
    ShownCase,
    ShownText,
    call_text,
    facts_text,
    shown_case,
    what_moved,
)
from trivium.reports.moved_cases.word_diff import Kind
from trivium.reports.wording import counted
from trivium.runs.comparing.moved_cases import MovedCases

CASES_SHOWN = 3
TEXT_CHARS = 240
"""Largest number of characters of a text: three lines of 80 columns."""
CALLS_SHOWN = 8

_TONES = {"good": "green", "bad": "red", "warn": "yellow"}
_STYLES: dict[Kind, str] = {"same": "", "deleted": "red", "inserted": "green"}
_BRACKETS: dict[Kind, tuple[str, str]] = {
    "same": ("", ""),
    "deleted": ("[-", "-]"),
    "inserted": ("{+", "+}"),
}
_SPACE = re.compile(r"\s+")


def moved_cases_section(moved: MovedCases, *, at_most: int) -> Iterator[RenderableType]:
    """How many cases moved, and the first of them with both outputs.

    Args:
        moved: The cases.
        at_most: Largest number of cases shown.
    """
    if not moved.compared:
        return
    title = Text("\nwhat changed", style="bold")
    title.append(f"  {what_moved(moved)}", style="not bold")
    yield title
    try:
        for case in moved.first(at_most):
            yield Text()
            yield from _case(shown_case(case, chars=TEXT_CHARS, calls=CALLS_SHOWN))
    except StoreError as error:
        yield Text(f"the outputs cannot be read: {error}")
    if 0 < at_most < len(moved):
        further = counted(len(moved) - at_most, "further case")
        yield Text(f"\n{further} not shown (--cases {len(moved)}, --html)", style="dim")


def _case(case: ShownCase) -> Iterator[RenderableType]:
    head = Text(f"{case.mark} ", style=_TONES[case.tone])
    head.append(case.id, style="bold")
    head.append(f"  {facts_text(case)}", style="not bold")
    yield head
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True, style="dim")
    grid.add_column(overflow="fold")
    for label, words in _rows(case):
        grid.add_row(label, words)
    yield Padding(grid, (0, 0, 0, 2))


def _rows(case: ShownCase) -> Iterator[tuple[str, Text]]:
    yield "input", _text(case.input)
    for reference in case.references:
        yield "expected", _text(reference)
    if case.same:
        yield "both", _text(case.outputs[0])
    else:
        for side, output, problem in zip(("base", "head"), case.outputs, case.problems, strict=True):
            yield side, _text(output) if problem is None else Text(f"failed: {problem}", style="red")
        if case.note:
            yield "", Text(case.note, style="dim")
    for name, base, head in case.reasons:
        yield name[:20], Text(f"base {base}")
        yield "", Text(f"head {head}")
    for place, call in enumerate(case.calls or ()):
        line = Text(f"{CALL_MARKS[call.kind]} {call_text(call)}", style=_STYLES[call.kind])
        yield "" if place else "calls", line
    if case.calls_left_out:
        yield "", Text(f"… {counted(case.calls_left_out, 'further call')}", style="dim")


def _text(shown: ShownText) -> Text:
    """A text on one line, with brackets around what differs unless all of it does."""
    kinds = {piece.kind for piece in shown.pieces if piece is not None and piece.text.strip()}
    words = Text()
    for piece in shown.pieces:
        if piece is None:
            words.append(" … ", style="dim")
            continue
        before, after = _BRACKETS[piece.kind] if len(kinds) > 1 else ("", "")
        words.append(f"{before}{_SPACE.sub(' ', piece.text)}{after}", style=_STYLES[piece.kind])
    if shown.left_out:
        words.append(f" … {shown.left_out:,} more characters", style="dim")
    return words if words.plain.strip() else Text("empty", style="dim")
