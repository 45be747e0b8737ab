"""Writes blocks as HTML: for a page, which has our style sheet, and for a notebook, which has none.

Notebooks and code hosts remove style sheets and scripts from the outputs of cells, so that a notebook's
elements carry their style; they have no headings, links and anchors, which would be those of the document
around them.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, assert_never

from trivium.reports.document import blocks as b
from trivium.reports.drawings.interval import range_svg
from trivium.reports.drawings.svg import element
from trivium.safe_text import one_line, visible
from trivium.values import counted

if TYPE_CHECKING:
    from markupsafe import Markup

GOOD, WARN, BAD, BLUE = "#1f9d63", "#c98a00", "#d9534f", "#3d8fc4"
"""Colours that are visible on white and on black."""
FAINT = "rgba(128,128,128,.35)"

_QUIET = "opacity:.7;font-size:12px"
_CELL = f"padding:2px 10px 2px 0;border:0;border-bottom:1px solid {FAINT};background:none;vertical-align:top"
STYLES = {
    "box": (
        "font:13px/1.5 system-ui,sans-serif;color:inherit;max-width:980px;overflow-x:auto;"
        # colours for drawings that use those of the page
        f"--ink:currentColor;--muted:currentColor;--line:{FAINT};--soft:rgba(128,128,128,.15);"
        f"--good:{GOOD};--warn:{WARN};--bad:{BAD};--accent:{BLUE}"
    ),
    "h1": "font-size:15px;font-weight:600",
    "beside": "font-weight:400;margin-left:10px",
    "h2": "font-weight:600;margin:10px 0 2px",
    "h3": "opacity:.7;margin:6px 0 0",
    "dt": "font-weight:600;margin-right:6px",
    "p": "margin:2px 0",
    "quiet": _QUIET,
    "cut": _QUIET,
    "nothing": _QUIET,
    "strong": "font-weight:600",
    "pill": "white-space:nowrap",
    "verdict": "font-weight:600",
    "id": "font-weight:600",
    "head": "opacity:.7",
    "good": f"color:{GOOD}",
    "bad": f"color:{BAD}",
    "warn": f"color:{WARN}",
    "problems": f"border-left:3px solid {WARN};padding-left:8px;margin:6px 0",
    "table": "border-collapse:collapse;margin:8px 0;border:0;font-size:13px;color:inherit;background:none",
    "tr": "background:none",
    "th": f"{_CELL};text-align:left;font-weight:500",
    "td": f"{_CELL};text-align:left",
    "num": "text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums",
    "nowrap": "white-space:nowrap",
    "drawn": "line-height:0",
    "text": "white-space:pre-wrap;overflow-wrap:anywhere;max-width:680px",
    "inside": "margin:2px 0 8px 16px",
    "del": f"color:{BAD};text-decoration:line-through",
    "ins": f"color:{GOOD}",
}
"""The style of each element and class in a notebook."""

_PLAIN_TAGS = dict.fromkeys(("section", "h1", "h2", "h3", "p", "ul", "li", "ol", "dl"), "div")
_PLAIN_TAGS |= dict.fromkeys(("bdi", "a", "dt", "dd"), "span")
"""What a notebook has for an element of a page."""
_CLASSES: dict[b.Tone, str] = {
    "strong": "strong",
    "quiet": "quiet",
    "good": "good",
    "bad": "bad",
    "warn": "warn",
}
_PILLS: dict[b.Tone, str] = {"strong": "warn", "quiet": "plain", "": "plain"}
"""Class of a pill, where it is not its tone."""
_SHORT_NAME = 32
"""Characters of the longest name that is kept on one line."""
_NARROW = 30
"""Characters of the longest text that may stand in a narrow column."""
_RELATIONS = {"Previous": "prev", "Next": "next"}
_TAGS: dict[b.Kind, str] = {"deleted": "del", "inserted": "ins"}


class Html:
    """A writer of HTML.

    Args:
        styles: The style of each element and class; None for a page, whose style sheet knows them.
        inside: How many sections the blocks are in.
    """

    def __init__(self, styles: Mapping[str, str] | None = None, *, inside: int = 0) -> None:
        self._styles = styles
        self._inside = inside

    def write(self, blocks: Iterable[b.Block]) -> Iterator[str]:
        """Yield blocks as HTML, piece by piece; sections, folds and cases are read while they are written."""
        for block in blocks:
            if isinstance(block, b.Section):
                yield from self._section(block)
            elif isinstance(block, b.Fold):
                begin, end = self._around("details", role="cases")
                yield f"{begin}<summary>{_line(block.title)}</summary>"
                yield from self.write(block.blocks)
                yield end
            elif isinstance(block, b.Cases):
                yield from self._cases(block)
            else:
                yield self._leaf(block)

    def _leaf(self, block: b.Leaf) -> str:
        match block:
            case b.Title():
                beside = self._element("span", _line(block.beside), role="beside quiet")
                return self._element("h1", self._name(block.text, at_most=300), beside)
            case b.Paragraph(tone="strong"):
                return self._conclusion(block.lines)
            case b.Paragraph():
                return "".join(self._paragraph(line, _CLASSES.get(block.tone, "")) for line in block.lines)
            case b.Answer() | b.KeyFigures():
                return self._answer(block) if isinstance(block, b.Answer) else self._figures(block)
            case b.Remarks():
                return self._list([*block.lines, *([block.more] if block.more else [])])
            case b.Facts():
                return self._facts(block)
            case b.Table():
                return self._table(block)
            case b.Drawing():
                return self._drawing(block)
            case b.Links():
                return self._links(block)
            case _:
                assert_never(block)

    def _element(self, tag: str, *children: str, role: str = "", **attributes: str | None) -> str:
        if self._styles is None:
            return element(tag, *children, class_=role.strip() or None, **attributes)
        style = ";".join(self._styles[name] for name in (tag, *role.split()) if name in self._styles)
        return element(_PLAIN_TAGS.get(tag, tag), *children, style=style or None, dir=attributes.get("dir"))

    def _around(self, tag: str, **attributes: Any) -> tuple[str, str]:
        """The beginning and the end of an element."""
        begin, slash, end = self._element(tag, **attributes).rpartition("</")
        return begin, slash + end

    def _name(self, text: str, *, at_most: int = 200) -> str:
        return self._element("bdi", _line(text, at_most=at_most))

    def _paragraph(self, text: str, role: str) -> str:
        # A page leaves nothing out; a notebook is kept small.
        most = 2000 if self._styles is not None else max(2000, len(text))
        return self._element("p", _line(text, at_most=most), role=role)

    def _list(self, lines: Iterable[str]) -> str:
        items = [self._element("li", _line(line)) for line in lines]
        return self._element("ul", *items, role="problems") if items else ""

    def _facts(self, block: b.Facts) -> str:
        between = " " if self._styles is not None else ""
        rows = [
            self._element(
                "div",
                self._element("dt", _line(name, at_most=60)),
                between,
                self._element("dd", _line(words)),
            )
            for name, words in block.rows
        ]
        return self._element("dl", *rows, role="facts-list") if rows else ""

    def _figures(self, block: b.KeyFigures) -> str:
        if self._styles is not None:
            return self._table(block.table)
        cards = [element("div", *self._figure(each), class_="card") for each in block.figures]
        return element("section", *cards, class_="cards", aria_label="Answer")

    def _figure(self, figure: b.KeyFigure) -> Iterator[str]:
        yield element("h2", _heading(figure.name))
        interval = element("small", _line(figure.interval))
        yield element("p", _line(figure.value), " ", interval, class_="big")
        yield self._range(figure.range)
        for text in (figure.sentence, *figure.notes):
            yield element("p", self._linked(text), class_=_CLASSES.get(text.tone, "quiet"))

    def _linked(self, text: b.Toned) -> str:
        words = self._to(text.link, _line(text.text))
        if text.later:
            return self._element("span", words, hx_get=text.later, hx_trigger="revealed", hx_swap="outerHTML")
        return words

    def _to(self, link: str, words: str) -> str:
        return self._element("a", words, href=link) if link else words

    def _answer(self, block: b.Answer) -> str:
        mark, tone = b.ANSWERS.get(block.answer, ("?", "warn"))
        words = f"{mark} {_line(block.words or block.answer)}"
        pill = self._element("span", words, role=f"pill {_PILLS.get(tone, tone)} verdict")
        sentence = [self._paragraph(block.sentence, "strong")] if block.sentence else []
        said = [*sentence, *(self._paragraph(line, "") for line in block.grounds if line)]
        card = self._element("div", self._element("p", pill, role="answer"), *said, role="card")
        return self._element("section", card, role="cards", aria_label="Answer")

    def _conclusion(self, lines: Iterable[str]) -> str:
        said = [self._element("p", element("strong", self._name(line, at_most=2000))) for line in lines]
        return self._element("section", *said, role="conclusion", aria_label="Conclusion") if said else ""

    def _drawing(self, block: b.Drawing) -> str:
        if not any(each.label for each in block.pictures):
            return self._scroll("".join(each.svg for each in block.pictures), "")
        role = "charts" if any(each.title for each in block.pictures) else "pictures"
        return self._element("div", *map(self._picture, block.pictures), role=role)

    def _picture(self, picture: b.Picture) -> str:
        beside = element("span", _line(picture.beside), class_="quiet") if picture.beside else ""
        title = element("figcaption", self._name(picture.title), " ", beside) if picture.title else ""
        drawn = element("div", picture.svg, role_="img", aria_label=one_line(picture.label, at_most=2000))
        return element("figure", title, drawn, class_="picture")

    def _scroll(self, inner: str, label: str) -> str:
        group = {"role_": "group", "aria_label": label} if label else {}
        return self._element("div", inner, role="scroll", tabindex="0", **group)

    def _table(self, whole: b.Table) -> str:
        block = whole.of("always", "wide", *(["page"] if self._styles is None else []))
        sides = ["num" if each.kind in {"number", "tally", "interval"} else "" for each in block.columns]
        heads = [self._head(column, side) for column, side in zip(block.columns, sides, strict=True)]
        rows = [
            self._element(
                "tr",
                *(
                    self._cell(cell, column, side)
                    for cell, column, side in zip(row, block.columns, sides, strict=True)
                ),
                data_row="" if _leads_on(row) else None,
            )
            for row in block.rows
        ]
        named = any(column.head for column in block.columns)
        head = element("thead", self._element("tr", *heads)) if named else ""
        role = "small numbers rows" if any(map(_leads_on, block.rows)) else "small numbers"
        table = self._element("table", head, element("tbody", *rows), role=role)
        key = _range_key(block) if self._styles is None else ""
        notes = [self._paragraph(note, "quiet") for note in block.notes]
        return key + self._scroll(table, block.label) + "".join(notes)

    def _head(self, column: b.Column[Any], side: str) -> str:
        if column.kind == "range" and self._styles is None:
            ends = '<span class="ends"><span>0</span><span>1</span></span>'
            return element("th", ends, class_="drawn", scope="col")
        words = self._element("span", _line(column.head), role="head")
        return self._element("th", words, role=side, scope="col")

    def _range(self, cell: b.Range) -> str:
        return range_svg(cell.mean, cell.ends, cell.human, notebook=self._styles is not None)

    def _cell(self, cell: b.Cell, column: b.Column[Any], side: str) -> str:
        if isinstance(cell, b.Range):
            return self._element("td", self._range(cell), role="drawn")
        if isinstance(cell, b.Choice):
            return self._element("td", _box(cell) if self._styles is None else "")
        kept = _lines(cell)
        longest = max((len(each.text) for each in kept if isinstance(each, b.Toned)), default=0)
        if column.kind == "name" and kept:
            said = "<br>".join(self._element("bdi", each) for each in self.lines(kept))
            return self._element("th", said, role="nowrap" if longest <= _SHORT_NAME else "", scope="row")
        if column.kind == "mark":
            return self._element("td", *(self._pill(each) for each in kept))
        alone = kept[0] if len(kept) == 1 else None
        tone = _CLASSES.get(alone.tone, "") if isinstance(alone, b.Toned) else ""
        wide = "words" if column.kind == "text" and longest > _NARROW else ""
        said = self._linked(alone) if isinstance(alone, b.Toned) else "<br>".join(self.lines(kept))
        role = " ".join(filter(None, (side, tone, wide)))
        return self._element("td", said, role=role, dir="auto" if wide else None)

    def lines(self, lines: Iterable[b.Toned | b.Mark]) -> Iterator[str]:
        """Yield the lines of a cell."""
        for line in lines:
            if isinstance(line, b.Mark):
                yield self._pill(line)
            elif tone := _CLASSES.get(line.tone, ""):
                yield self._element("span", self._linked(line), role=tone, dir="auto")
            else:
                yield self._linked(line)

    def _pill(self, said: b.Mark | b.Toned) -> str:
        if isinstance(said, b.Mark):
            mark, tone = b.ANSWERS.get(said.answer, ("?", "warn"))
            words = f"{mark} {_line(said.words)}"
        else:
            words, tone = _line(said.text), said.tone
        role = f"pill {_PILLS.get(tone, tone)}"
        return self._element("a" if said.link else "span", words, role=role, href=said.link or None)

    def _links(self, block: b.Links) -> str:
        links = "".join(
            f" {element('a', escape(text), href=link, rel=_RELATIONS.get(text))}"
            for text, link in block.links
        )
        return self._element("p", self._element("span", _line(block.text), role="quiet"), links, role="turn")

    def _section(self, block: b.Section) -> Iterator[str]:
        level, key, title = "h3" if self._inside else "h2", block.key, f"{block.key}-title"
        named = {"id": key, "aria_labelledby": title} if key else {}
        begin, end = self._around("section", role="part" * bool(self._inside), **named)
        beside = self._paragraph(block.beside, "quiet") if block.beside else ""
        yield f"{begin}{self._element(level, _heading(block.title), id=title if key else None)}{beside}"
        self._inside += 1
        yield from self.write(block.blocks)
        self._inside -= 1
        yield f"{end}\n"

    def _cases(self, block: b.Cases) -> Iterator[str]:
        shown = 0
        begin, end = self._around("div", role="list")
        yield begin
        for case in block.cases:
            yield self._case(case)
            shown += 1
        yield end
        if block.further and shown < block.total:
            further = counted(block.total - shown, "further case")
            yield self._paragraph(f"{further} {block.further}", "quiet")

    def _case(self, case: b.Case) -> str:
        state = self._element("span", f"{_line(case.mark)} {_line(case.word)}", role=f"pill {case.tone}")
        name = self._element("span", self._name(case.name), role="id")
        told = " ".join(map(self._piece, case.differs)) or _line(case.gist)
        gist = self._element("span", told, role="gist", dir="auto")
        change = self._element("span", _line(case.change), role="value")
        summary = element("summary", " ".join((state, name, gist, change)))
        others = [fact for fact in case.facts if fact and fact != case.change]
        facts = self._element("p", _line(" · ".join(others)), role="facts") if others else ""
        inside = self._element("div", facts, *self._parts(case.parts), role="inside")
        named = {"name": "moved", "id": case.anchor, "data_row": ""}
        return self._element("details", summary, inside, role="attempt moved", **named)

    def _parts(self, parts: Iterable[b.Part]) -> Iterator[str]:
        """Yield the parts; those that are sides stand next to each other."""
        sides: list[str] = []
        for part in parts:
            if part.side:
                sides.append(self._part(part))
                continue
            if sides:
                yield self._element("div", *sides, role="two")
                sides = []
            yield self._part(part)
        if sides:
            yield self._element("div", *sides, role="two")

    def _part(self, part: b.Part) -> str:
        if not part.label:
            return self.text(part.texts, "cut")
        link = f" {self._element('a', 'whole attempt', role='quiet', href=part.link)}" if part.link else ""
        heading = self._element("h3", _line(part.label), link)
        role = "reason bad" if part.tone == "bad" else "text"
        more = [self._paragraph(f"{part.more} not shown here", "cut")] if part.more else []
        return self._element("section", heading, self.text(part.texts, role), *more)

    def text(self, texts: Sequence[b.ShownText], role: str) -> str:
        """Texts below one another, with their marks."""
        lines = ["".join(map(self._piece, text.pieces)) for text in texts]
        if not any(lines):
            return self._element("p", "empty", role="nothing")
        left_out = sum(text.left_out for text in texts)
        more = f"{left_out:,} further characters are not shown here."
        cut = self._paragraph(more, "cut") if left_out else ""
        return self._element("div", "\n".join(lines), role=role, dir="auto") + cut

    def _piece(self, piece: b.Piece | None) -> str:
        if piece is None:
            return self._element("span", "…", role="gap")
        words = escape(visible(piece.text))
        return words if piece.kind == "same" else self._element(_TAGS[piece.kind], words)


def _range_key(block: b.Table) -> str:
    """What the drawn means and intervals of a table are; empty if it has none."""
    ranges = [cell for row in block.rows for cell in row if isinstance(cell, b.Range)]
    known = {"dot": "mean", "line": "its interval"}
    known |= {"diamond": "people’s own outputs"} if any(each.human is not None for each in ranges) else {}
    words = " ".join(f"{element('span', class_=f'k-{sign}')} {means}" for sign, means in known.items())
    return element("p", words, class_="key") if ranges else ""


def _lines(cell: str | b.Toned | b.Mark | b.Lines) -> list[b.Toned | b.Mark]:
    """The lines of a cell that say something."""
    given = cell.lines if isinstance(cell, b.Lines) else (b.Toned(cell) if isinstance(cell, str) else cell,)
    return [line for line in given if isinstance(line, b.Mark) or line.text]


def _leads_on(row: Iterable[b.Cell]) -> bool:
    """Whether a row has a link."""
    return any(line.link for cell in row if not isinstance(cell, b.Range | b.Choice) for line in _lines(cell))


def _box(choice: b.Choice) -> str:
    attributes = {"type": "checkbox", "form": choice.form, "name": choice.name, "value": choice.value}
    return element("input", **attributes, aria_label=choice.label).removesuffix("</input>")


def _heading(words: str) -> str:
    return _line(words[:1].upper() + words[1:], at_most=300)


def _line(text: str, *, at_most: int = 2000) -> str:
    return escape(one_line(text, at_most=at_most))


def shown(text: b.ShownText) -> "Markup":
    """A text with its marks as HTML for a page."""
    from markupsafe import Markup

    return Markup(Html().text([text], "text moved"))  # noqa: S704 - escaped


def html(blocks: Iterable[b.Block], *, inside: int = 0) -> "Markup":
    """Blocks, inside so many sections, as HTML for a page."""
    from markupsafe import Markup

    return Markup("".join(Html(inside=inside).write(blocks)))  # noqa: S704 - every text is escaped where it is written


def cell(lines: b.Lines) -> "Markup":
    """What stands in a cell of a table on a page."""
    from markupsafe import Markup

    return Markup("<br>".join(Html().lines(lines.lines)))  # noqa: S704 - escaped


def fragment(blocks: Iterable[b.Block]) -> str:
    """Blocks as HTML for a notebook's cell."""
    return element("div", *Html(STYLES).write(blocks), style=STYLES["box"])
