"""Writes blocks to a terminal (Rich)."""

import re
from collections.abc import Iterable, Iterator
from typing import Any, assert_never

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text

from trivium.reports.document import blocks as b
from trivium.safe_text import one_line, visible
from trivium.values import counted

WIDE = 104
"""Width in columns from which a table shows its columns for wide terminals."""
TEXT_COLUMNS = 12
"""Narrowest column of words."""
_WRAPPED = {"name": 22, "text": TEXT_COLUMNS}
"""Kinds of columns that are wrapped, and at how many characters they are so only where there is no room."""

STYLES: dict[b.Tone, str] = {
    "": "",
    "strong": "bold",
    "quiet": "dim",
    "good": "green",
    "bad": "red",
    "warn": "yellow",
}
BAR_COLUMNS = 25
_PIECES: dict[b.Kind, str] = {"same": "", "deleted": "red", "inserted": "green"}
_BRACKETS: dict[b.Kind, tuple[str, str]] = {
    "same": ("", ""),
    "deleted": ("[-", "-]"),
    "inserted": ("{+", "+}"),
}
_SPACE = re.compile(r"\s*[^\S ]\s*|(?!\A) {2,}")
"""What becomes one space: line breaks, and spaces that do not indent the text."""


class Printed:
    """A Rich renderable of blocks: ``console.print(Printed(blocks))``."""

    def __init__(self, blocks: Iterable[b.Block]) -> None:
        self.blocks = tuple(blocks)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from _written(self.blocks, options.max_width)


def _written(blocks: Iterable[b.Block], width: int) -> Iterator[RenderableType]:
    """Write blocks, with an empty line between them; none after a title."""
    before: b.Block | None = None
    for block in blocks:
        parts = list(_block(block, width))
        if not parts:
            continue
        if isinstance(block, b.Cases) or not (before is None or isinstance(before, b.Title)):
            yield Text()
        yield from parts
        before = block


def _block(block: b.Block, width: int) -> Iterator[RenderableType]:
    if isinstance(block, b.Section):
        yield _title(block.title, block.beside, beside_style="not bold")
        yield from _written(block.blocks, width)
    elif isinstance(block, b.Fold):
        yield _title(block.title, "", beside_style="")
        yield Padding(Group(*_written(block.blocks, width - 2)), (0, 0, 0, 2))
    elif isinstance(block, b.Cases):
        yield from _cases(block)
    else:
        yield from _leaf(block, width)


def _leaf(block: b.Leaf, width: int) -> Iterator[RenderableType]:
    match block:
        case b.Title():
            yield _title(block.text, block.beside, beside_style="dim")
        case b.Paragraph():
            yield from _lines(block.lines, STYLES[block.tone])
        case b.Answer():
            yield _answer(block)
        case b.Remarks():
            yield from _remarks(block, width)
        case b.Table() | b.KeyFigures():
            shown = block if isinstance(block, b.Table) else block.table
            yield _table(shown, width)
            yield from _lines(shown.notes, "dim")
        case b.Facts():
            yield from [_facts(block)] if block.rows else []
        case b.Drawing():
            yield from _lines([block.words] if block.words else [], "dim")
        case b.Links():
            pass
        case _:
            assert_never(block)


def _lines(lines: Iterable[str], style: str) -> Iterator[Text]:
    return (Text(one_line(line, at_most=2000), style=style) for line in lines)


def _remarks(block: b.Remarks, width: int) -> Iterator[RenderableType]:
    # What to do about a reservation stands at its end, and is seldom cut.
    most = 3 * (width - 4) if block.brief else 2000
    for line in block.lines:
        yield _marked_paragraph("!", one_line(line, at_most=most), style="yellow")
    if block.more:
        yield Text(f"  {one_line(block.more)}", style="yellow")


def _facts(block: b.Facts) -> RenderableType:
    grid = Grid.grid(padding=(0, 2))
    grid.add_column(overflow="fold")
    grid.add_column(overflow="fold")
    for name, words in block.rows:
        style = STYLES[block.tone]
        grid.add_row(
            Text(one_line(name, at_most=60), style=style or "bold"),
            Text(one_line(words, at_most=2000), style=style),
        )
    return grid


def _answer(block: b.Answer) -> RenderableType:
    mark, tone = b.ANSWERS.get(block.answer, ("?", "warn"))
    words = "\n".join(one_line(line, at_most=2000) for line in block.lines)
    return _marked_paragraph(mark, f"{one_line(block.words or block.answer)}. {words}", style=STYLES[tone])


def _title(words: str, beside: str, *, beside_style: str) -> Text:
    title = Text(one_line(words, at_most=300), style="bold")
    if beside:
        title.append(f"  {one_line(beside, at_most=300)}", style=beside_style)
    return title


def _marked_paragraph(mark: str, text: str, *, style: str) -> RenderableType:
    """A paragraph with a hanging mark."""
    grid = Grid.grid(padding=(0, 1))
    grid.add_column(no_wrap=True, min_width=1)
    grid.add_column(overflow="fold")
    grid.add_row(Text(mark, style=f"bold {style}"), Text(text, style=style))
    return grid


def _table(block: b.Table, width: int) -> RenderableType:
    shown = block.of("always", "wide") if width >= WIDE else block.of("always")
    rows = [[_cell(cell) for cell in row] for row in shown.rows]
    heads = [_head(column) for column in shown.columns]
    least = [
        _least(column, [cell_len(head), *(row[place].cell_len for row in rows)])
        for place, (column, head) in enumerate(zip(shown.columns, heads, strict=True))
    ]
    gaps = len(least) - 1
    between = 2 if sum(least) + 2 * gaps <= width else 1
    lacking = max(0, sum(least) + between * gaps - width)
    grid = Grid(
        box=None,
        padding=(0, between, 0, 0),
        pad_edge=False,
        show_header=any(map(str.strip, heads)),
        header_style="dim",
    )
    for column, head, columns in zip(shown.columns, heads, least, strict=True):
        words = column.kind in _WRAPPED
        grid.add_column(
            head,
            justify="right" if column.kind in {"number", "tally"} else "left",
            no_wrap=not (words or column.kind == "tally"),
            overflow="fold",
            min_width=max(min(columns, TEXT_COLUMNS), columns - lacking) if words else None,
        )
    for row in rows:
        grid.add_row(*row)
    return grid


def _head(column: b.Column[Any]) -> str:
    if column.kind == "range":
        return f"0{'1':>{BAR_COLUMNS - 1}}"
    return "" if column.kind == "mark" else column.brief or one_line(column.head)


def _least(column: b.Column[Any], lengths: list[int]) -> int:
    """The columns that a column of the table needs: words may be wrapped, numbers may not."""
    return min(max(lengths), _WRAPPED.get(column.kind, max(lengths)))


def _cell(cell: b.Cell) -> Text:
    match cell:
        case b.Mark():
            mark, tone = b.ANSWERS.get(cell.answer, ("?", "warn"))
            return Text(mark if cell.brief else f"{mark} {one_line(cell.words)}", style=STYLES[tone])
        case b.Range():
            return Text(range_bar(cell.mean, cell.ends, columns=BAR_COLUMNS), style="cyan")
        case b.Lines():
            return Text("\n").join(filter(None, map(_cell, cell.lines)))
        case b.Choice():
            return Text()
        case b.Toned():
            return Text(one_line(cell.text), style=STYLES[cell.tone])
        case _:
            return Text(one_line(cell))


def _cases(block: b.Cases) -> Iterator[RenderableType]:
    shown = 0
    for case in block.cases:
        if shown:
            yield Text()
        head = Text(f"{one_line(case.mark)} ", style=STYLES[case.tone])
        head.append(one_line(case.name), style="bold")
        head.append(f"  {one_line(' · '.join(case.facts), at_most=1000)}", style="not bold")
        yield head
        grid = Grid.grid(padding=(0, 2))
        grid.add_column(no_wrap=True, style="dim")
        grid.add_column(overflow="fold")
        for part in case.parts:
            for label, words in _part(part):
                grid.add_row(label, words)
        yield Padding(grid, (0, 0, 0, 2))
        shown += 1
    if block.further and shown < block.total:
        further = counted(block.total - shown, "further case")
        yield Text(f"\n{further} {one_line(block.further)}", style="dim")


def _part(part: b.Part) -> Iterator[tuple[str, Text]]:
    label = one_line(part.label, at_most=20)
    for text in part.texts:
        yield label, _marked(text, STYLES[part.tone])
        label = ""
    if part.more:
        yield label, Text(f"… {one_line(part.more)}", style="dim")


def _marked(shown: b.ShownText, style: str) -> Text:
    """A text on one line, with brackets around what differs unless all of it does."""
    kinds = {piece.kind for piece in shown.pieces if piece is not None and piece.text.strip()}
    words = Text(style=style)
    for piece in shown.pieces:
        if piece is None:
            words.append(" … ", style="dim")
            continue
        before, after = _BRACKETS[piece.kind] if len(kinds) > 1 else ("", "")
        words.append(f"{before}{_SPACE.sub(' ', visible(piece.text))}{after}", style=_PIECES[piece.kind])
    if shown.left_out:
        words.append(f" … {shown.left_out:,} more characters", style="dim")
    return words if words.plain.strip() else Text("empty", style="dim")


def range_bar(
    mean: float | None,
    interval: tuple[float, float] | None,
    *,
    columns: int,
) -> str:
    """``····├──●──┤·········``: ● is the mean, ├ ┤ the interval.

    Args:
        mean: In [0, 1]; values outside are drawn at the edge.
        interval: Ends in [0, 1].
        columns: Width in characters.
    """

    def place(value: float) -> int:
        return round(min(1.0, max(0.0, value)) * (columns - 1))

    cells = ["·"] * columns
    if interval is not None:
        low, high = place(interval[0]), place(interval[1])
        cells[low : high + 1] = "─" * (high - low + 1)
        cells[low], cells[high] = "├", "┤"
    if mean is not None:
        cells[place(mean)] = "●"
    return "".join(cells)
