"""What a report says: blocks, which every writer draws in its own way.

A result is described once, by a function that yields blocks. Their texts are as they came, also from
strangers: each writer makes them harmless for the place that it writes to. A new kind of block needs an arm
in each writer; the type checker finds those that lack it.
"""

from collections.abc import Callable, Iterable
from itertools import chain, repeat
from operator import itemgetter
from typing import Any, Generic, Literal, TypeVar

import msgspec

Surface = Literal["terminal", "comment", "page", "notebook"]
"""Where a report is read: a terminal, a comment in a code review, an HTML page, a notebook's cell."""

Tone = Literal["", "strong", "quiet", "good", "bad", "warn"]

ANSWERS: dict[str, tuple[str, Tone]] = {
    "pass": ("✓", "good"),
    "fail": ("✗", "bad"),
    "inconclusive": ("?", "warn"),
    "undecided": ("?", "warn"),
    "critical": ("✗", "bad"),
    "stalled": ("✗", "bad"),
    "no data": ("✗", "bad"),
    "warning": ("!", "warn"),
    "worse": ("↓", "warn"),
    "insufficient data": ("?", "quiet"),
    "healthy": ("✓", "good"),
    "resolved": ("✓", "good"),
}
"""Mark and tone of each answer and status."""


class Toned(msgspec.Struct, frozen=True):
    """A text with a tone.

    Attributes:
        text: The text.
        tone: Its tone.
        link: The address that it leads to on a page, made by us, or an empty text.
        later: Address of what a page of a server fetches into its place once it is seen, or an empty text.
    """

    text: str
    tone: Tone = ""
    link: str = ""
    later: str = ""


class Mark(msgspec.Struct, frozen=True):
    """An answer (pass, fail, inconclusive) in a table.

    Attributes:
        answer: The answer.
        words: What it says.
        brief: Whether terminals and Markdown show its sign only.
        link: The address that it leads to on a page, made by us, or an empty text.
    """

    answer: str
    words: str
    brief: bool = True
    link: str = ""


VERDICTS = {
    "error": Mark("fail", "error"),
    "failed": Mark("fail", "not passed"),
    "undecided": Mark("undecided", "undecided"),
    "passed": Mark("pass", "passed"),
}
"""The verdicts of attempts, the worst first."""


class Range(msgspec.Struct, frozen=True):
    """A mean in [0, 1] with its interval, and people's mean, to be drawn next to the numbers."""

    mean: float | None
    ends: tuple[float, float] | None
    human: float | None = None


class Choice(msgspec.Struct, frozen=True):
    """A box to tick, on pages only.

    Attributes:
        form: The form that it belongs to.
        name: Name of its field.
        value: What it chooses.
        label: What ticking it means, for screen readers.
    """

    form: str
    name: str
    value: str
    label: str


class Lines(msgspec.Struct, frozen=True):
    """Words below one another in one cell; empty ones are left out."""

    lines: tuple[Toned | Mark, ...]


Cell = str | Toned | Mark | Range | Choice | Lines
"""A cell of a table."""

Row = TypeVar("Row")

Kinds = Literal["mark", "name", "number", "tally", "interval", "range", "text"]


class Column(msgspec.Struct, Generic[Row], frozen=True):
    """A column of a table.

    Attributes:
        head: Its heading.
        cell: Gives the cell of a row.
        kind: ``number`` and ``tally`` are aligned to the right, and a long tally may be broken;
            ``name`` is an identifier, which may be long and anybody's; ``text`` is words.
        where: ``wide`` leaves it out of a narrow terminal, ``page`` shows it on pages only.
        brief: Its heading in a terminal, if it is another one.
        optional: Whether it is left out where no cell says anything.
    """

    head: str
    cell: Callable[[Row], Cell]
    kind: Kinds = "number"
    where: Literal["always", "wide", "page"] = "always"
    brief: str = ""
    optional: bool = False


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """A table; see :func:`table`.

    Attributes:
        columns: Its columns.
        rows: Cells, one for each column.
        label: What it holds, for screen readers.
        notes: Lines below it.
    """

    columns: tuple[Column[Any], ...]
    rows: tuple[tuple[Cell, ...], ...]
    label: str = ""
    notes: tuple[str, ...] = ()

    def of(self, *places: str, but: str = "") -> "Table":
        """The table with the columns that are shown at these places (``always``, ``wide``, ``page``).

        Args:
            places: The places.
            but: A kind of columns to leave out.
        """
        kept = [at for at, column in enumerate(self.columns) if column.where in places and column.kind != but]
        return Table(
            columns=tuple(self.columns[at] for at in kept),
            rows=tuple(tuple(row[at] for at in kept) for row in self.rows),
            label=self.label,
            notes=self.notes,
        )


def table(
    columns: Iterable[Column[Row]], rows: Iterable[Row], *, label: str = "", notes: Iterable[str] = ()
) -> Table:
    """A table with a row for each record.

    Args:
        columns: Its columns.
        rows: The records.
        label: What it holds, for screen readers.
        notes: Lines below it; empty ones are left out.
    """
    given = tuple(rows)
    made = [(column, [column.cell(row) for row in given]) for column in columns]
    kept = [
        (column, cells) for column, cells in made if not column.optional or any(map(_is_something, cells))
    ]
    return Table(
        columns=tuple(column for column, _ in kept),
        rows=tuple(zip(*(cells for _, cells in kept), strict=True)),
        label=label,
        notes=tuple(filter(None, notes)),
    )


def table_of(
    heads: Iterable[str],
    kinds: Iterable[Kinds],
    rows: Iterable[tuple[Cell, ...]],
    *,
    label: str = "",
    notes: Iterable[str] = (),
) -> Table:
    """A table of cells that are there.

    Args:
        heads: Heading of each column.
        kinds: Kind of each column; numbers after the last of them.
        rows: The cells of each row.
        label: What it holds, for screen readers.
        notes: Lines below it; empty ones are left out.
    """
    number: Kinds = "number"
    of_each = chain(kinds, repeat(number))
    columns = [
        Column[tuple[Cell, ...]](head, itemgetter(place), kind)
        for place, (head, kind) in enumerate(zip(heads, of_each, strict=False))
    ]
    return table(columns, rows, label=label, notes=notes)


def _is_something(cell: Cell) -> bool:
    if isinstance(cell, Range):
        return cell.ends is not None
    if isinstance(cell, Lines):
        return any(map(_is_something, cell.lines))
    return not isinstance(cell, Toned | str) or (cell.text if isinstance(cell, Toned) else cell) not in {
        "",
        "–",
    }


class Title(msgspec.Struct, frozen=True, kw_only=True):
    """The title of a report: what it is about, beside it which runs, and the answer if it gives one."""

    text: str
    beside: str = ""
    answer: str = ""


class Paragraph(msgspec.Struct, frozen=True):
    """Lines of text that belong together; strong ones are what follows from the figures."""

    lines: tuple[str, ...]
    tone: Tone = ""


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of a report.

    Attributes:
        answer: The answer or status, one of ``ANSWERS``.
        sentence: What it says.
        grounds: On which grounds.
        words: Words for the answer, if they are other ones.
    """

    answer: str
    sentence: str
    grounds: tuple[str, ...]
    words: str = ""

    @property
    def lines(self) -> list[str]:
        """The sentence with the first of the grounds, then the others."""
        first = " ".join(filter(None, (self.sentence, *self.grounds[:1])))
        return [line for line in (first, *self.grounds[1:]) if line]


class KeyFigure(msgspec.Struct, frozen=True, kw_only=True):
    """A figure that answers.

    Attributes:
        name: What it is.
        value: Its value.
        interval: Its interval, or an empty text.
        range: Both, to be drawn.
        sentence: What it says.
        notes: What is to be known besides.
    """

    name: str
    value: str
    interval: str
    range: Range
    sentence: Toned
    notes: tuple[Toned, ...] = ()


class KeyFigures(msgspec.Struct, frozen=True):
    """The figures that answer: cards on a page, elsewhere a table."""

    figures: tuple[KeyFigure, ...]

    @property
    def table(self) -> Table:
        """A row for each figure, and one for its notes."""
        rows: list[tuple[Cell, ...]] = []
        for each in self.figures:
            said = (Toned(each.name, "strong"), Toned(each.value, "strong"), each.interval, each.sentence)
            rows.append(said)
            if notes := " · ".join(note.text for note in each.notes):
                rows.append(("", "", "", Toned(notes, "quiet")))
        return table_of([""] * 4, ("text", "number", "interval", "text"), rows, label="Answer")


class Remarks(msgspec.Struct, frozen=True):
    """Reservations that change how to read the figures.

    Attributes:
        lines: The reservations.
        more: What is said of further ones.
        brief: Whether a terminal gives each three lines at most.
    """

    lines: tuple[str, ...]
    more: str = ""
    brief: bool = False


class Facts(msgspec.Struct, frozen=True):
    """Names, each with what is known of it."""

    rows: tuple[tuple[str, str], ...]
    tone: Tone = ""


class Picture(msgspec.Struct, frozen=True):
    """A drawing as SVG, made by us.

    Attributes:
        svg: The drawing.
        label: What it shows, for screen readers; empty if the drawing says it.
        title: Its title, or an empty text.
        beside: Words beside the title.
    """

    svg: str
    label: str = ""
    title: str = ""
    beside: str = ""


class Drawing(msgspec.Struct, frozen=True):
    """Pictures side by side; only HTML has them. A terminal shows the words instead."""

    pictures: tuple[Picture, ...]
    words: str = ""


class Links(msgspec.Struct, frozen=True):
    """Words with links (text and address, made by us) after them; only HTML has them."""

    text: str
    links: tuple[tuple[str, str], ...]


Kind = Literal["same", "deleted", "inserted"]


class Piece(msgspec.Struct, frozen=True):
    """A part of a text: ``same`` in both, ``deleted`` from base, or ``inserted`` in head."""

    kind: Kind
    text: str


class ShownText(msgspec.Struct, frozen=True, kw_only=True):
    """A text to show, of which pieces may be marked.

    Attributes:
        pieces: Its pieces; a piece of None stands for equal text that is left out.
        left_out: Number of characters that are not shown.
    """

    pieces: tuple[Piece | None, ...]
    left_out: int = 0


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """One part of a case.

    Attributes:
        label: What it is.
        texts: Its lines or paragraphs.
        tone: ``bad`` for a failure, ``quiet`` for a note.
        side: Whether it stands next to the part before or after it, where there is room.
        more: What is left out.
        link: Address of where all of it is, or an empty text.
    """

    label: str
    texts: tuple[ShownText, ...]
    tone: Tone = ""
    side: bool = False
    more: str = ""
    link: str = ""


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """A case with its texts, folded where that is possible.

    Attributes:
        name: Its id.
        mark: A sign.
        word: Its state, in a word.
        tone: good, bad or warn.
        facts: What is known of it, besides its texts.
        gist: The beginning of its input.
        differs: Words of its outputs that differ, deleted and inserted ones; shown in place of the gist.
        change: The fact that says most.
        parts: Its texts.
        anchor: Its place on a page.
    """

    name: str
    mark: str
    word: str
    tone: Tone
    facts: tuple[str, ...]
    gist: str
    change: str
    parts: tuple[Part, ...]
    anchor: str
    differs: tuple[Piece, ...] = ()


class Cases(msgspec.Struct, frozen=True, kw_only=True):
    """Cases with their texts.

    Attributes:
        cases: The cases; read once, one after another.
        total: How many there are, those that are not shown included.
        further: What is said after ``3 further cases``; empty to say nothing.
    """

    cases: Iterable[Case]
    total: int
    further: str = ""


class Section(msgspec.Struct, frozen=True, kw_only=True):
    """Blocks under a heading.

    Attributes:
        title: The heading.
        blocks: The blocks; read once, one after another.
        beside: Words beside or below the heading.
        key: Its place on a page.
    """

    title: str
    blocks: "Iterable[Block]"
    beside: str = ""
    key: str = ""


class Fold(msgspec.Struct, frozen=True):
    """Blocks that are folded under a title; in a terminal they stand below it."""

    title: str
    blocks: "Iterable[Leaf | Cases]"


Leaf = Title | Paragraph | Answer | KeyFigures | Remarks | Facts | Table | Drawing | Links
"""A block that holds no others."""

Block = Leaf | Cases | Section | Fold
