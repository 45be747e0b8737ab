"""Tables of slices: figures of a run, or differences of two runs, by the values of a key."""

from collections.abc import Iterator

import msgspec
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from trivium.reports import wording
from trivium.reports.escape import one_line
from trivium.reports.markdown import prose
from trivium.runs.comparing.comparison import ComparedSlice, Comparison
from trivium.runs.slices import Slice, Slices

ROWS_SHOWN = 20
"""Slices in a terminal and in a comment; a page has all."""
VALUE_CHARS = 40


class SliceRows(msgspec.Struct, frozen=True, kw_only=True):
    """A table of slices, ready to be rendered.

    Attributes:
        title: Its title.
        head: Headings of the columns; the first column holds the values of the key.
        rows: The cells, worst slice first, as one-line texts.
        tones: ``bad``, ``good`` or an empty text for each row.
        notes: Lines below the table.
    """

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    tones: tuple[str, ...]
    notes: tuple[str, ...]


def run_rows(slices: Slices) -> SliceRows:
    """The table of a run's slices: pass rate with its interval, composite, and which slices differ."""
    level = slices.level
    with_composite = any(one.composite.mean is not None for one in slices.slices)
    rows, tones = [], []
    for one in slices.slices:
        rows.append(
            (
                one_line(one.value, at_most=VALUE_CHARS),
                f"{one.cases:,}",
                wording.number(one.pass_rate.mean),
                wording.interval(one.pass_rate.ci95),
                *([wording.number(one.composite.mean)] if with_composite else []),
                _against_rest(one, level),
            )
        )
        tones.append(_tone(one, level))
    head = ("value", "cases", "pass rate", "interval", *(["composite"] if with_composite else []))
    return SliceRows(
        title=f"by {one_line(slices.by)}, worst first",
        head=(*head, "than the others"),
        rows=tuple(rows),
        tones=tuple(tones),
        notes=slices.warnings,
    )


def compared_rows(comparison: Comparison, by: str) -> SliceRows:
    """The table of a comparison's slices: the difference of a deciding metric, and which slices changed."""
    name, slices = comparison.slices_of, comparison.slices[by]
    rows, tones = [], []
    for one in slices:
        change = one.change(name, level=comparison.level)
        rows.append(tuple(_compared_cells(one, name, change or "")))
        tones.append({"worse": "bad", "better": "good"}.get(change or "", ""))
    alpha = f"{1 - comparison.level:.2g}"
    notes = [
        f"worse and better: p below {alpha} after Holm's adjustment for {len(slices)} slices",
        f"P(loss): probability of a loss of more than {comparison.margin:g}",
    ]
    return SliceRows(
        title=f"{one_line(name)} by {one_line(by)}, largest loss first",
        head=("value", "cases", "base", "head", "delta", "interval", "P(loss)", "change"),
        rows=tuple(rows),
        tones=tuple(tones),
        notes=tuple(notes),
    )


def _compared_cells(one: ComparedSlice, name: str, change: str) -> Iterator[str]:
    yield one_line(one.value, at_most=VALUE_CHARS)
    yield f"{one.cases:,}"
    delta = one.metrics.get(name)
    if delta is None:
        yield from ("–", "–", "–", "–", "–", "")
        return
    yield wording.number(delta.base)
    yield wording.number(delta.head)
    yield wording.signed(delta.delta)
    yield wording.signed_interval(delta.ci95)
    yield wording.NOTHING if delta.probability is None else wording.share(delta.probability)
    yield change


def _against_rest(one: Slice, level: float) -> str:
    tested = one.versus_rest
    if tested is None or tested.p_holm is None:
        return ""
    if tested.p_holm > 1 - level:
        return "–"
    side = "lower" if tested.difference < 0 else "higher"
    return f"{side} by {abs(tested.difference):.3f}"


def _tone(one: Slice, level: float) -> str:
    tested = one.versus_rest
    if tested is None or tested.p_holm is None or tested.p_holm > 1 - level:
        return ""
    return "bad" if tested.difference < 0 else "good"


def terminal_table(table: SliceRows) -> RenderableType:
    """The table for a terminal; at most ``ROWS_SHOWN`` rows."""
    grid = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    for at, name in enumerate(table.head):
        numeric = 0 < at < len(table.head) - 1
        grid.add_column(name, justify="right" if numeric else "left", no_wrap=numeric, overflow="fold")
    styles = {"bad": "red", "good": "green"}
    for row, tone in zip(table.rows[:ROWS_SHOWN], table.tones, strict=False):
        grid.add_row(*row[:-1], Text(row[-1], style=styles.get(tone, "dim")))
    lines = [Text(one_line(note, at_most=300), style="dim") for note in _notes(table)]
    return Group(Text(f"\n{table.title}", style="bold"), grid, *lines)


def markdown_table(table: SliceRows) -> str:
    """The table as GitHub-flavoured Markdown; at most ``ROWS_SHOWN`` rows. Untrusted text is escaped."""
    head = f"| {' | '.join(table.head)} |"
    rule = f"|:--|{'--:|' * (len(table.head) - 2)}:--|"
    rows = [f"| {' | '.join(prose(cell) for cell in row)} |" for row in table.rows[:ROWS_SHOWN]]
    notes = "<br>".join(prose(note) for note in _notes(table))
    blocks = [f"**{prose(table.title)}**", "\n".join([head, rule, *rows])]
    return "\n\n".join([*blocks, f"<sub>{notes}</sub>"] if notes else blocks)


def _notes(table: SliceRows) -> list[str]:
    hidden = len(table.rows) - ROWS_SHOWN
    return [*([f"and {hidden:,} more slices"] if hidden > 0 else []), *table.notes]
