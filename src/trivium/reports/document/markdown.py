"""Writes blocks as Markdown for a comment in a code review (GitHub, GitLab)."""

import re
from collections.abc import Iterable, Iterator
from html import escape
from typing import assert_never

from trivium.reports.document import blocks as b
from trivium.safe_text import one_line, visible
from trivium.values import counted

COMMENT_CHARS = 65_536
"""Longest comment that GitHub accepts, in characters."""

ANSWER_MARKS = {"pass": "✅", "fail": "❌", "inconclusive": "❔"}
_TONES: dict[b.Tone, str] = {"good": "🟢", "bad": "🔴", "warn": "🟡"}
_TAGS: dict[b.Kind, tuple[str, str]] = {
    "same": ("", ""),
    "deleted": ("<del>", "</del>"),
    "inserted": ("<ins>", "</ins>"),
}
_RULES = {"mark": ":-:", "number": "--:", "tally": "--:"}

_PUNCTUATION = re.compile(r"([\\`*_\[\]{}|~!$])")
_AUTOLINKS = re.compile(r"(@|#|://|www|GH)(?=\S)", re.IGNORECASE)
_PLAIN = re.compile(r"[^`|\\\s](?:[^`|\\]*[^`|\\\s])?")
_NOT_WORD = re.compile(r"[^0-9A-Za-z ]")


def markdown(blocks: Iterable[b.Block]) -> str:
    """Blocks as GitHub-flavoured Markdown; untrusted text is escaped.

    So many cases are shown as a comment has room for; the others are counted.
    """
    texts: list[str] = []
    waiting: list[tuple[int, b.Cases]] = []
    for block in _flat(blocks):
        if isinstance(block, b.Cases):
            waiting.append((len(texts), block))
        elif isinstance(block, b.Section):
            beside = f" · {prose(block.beside)}" if block.beside else ""
            texts.append(f"**{prose(block.title[:1].upper() + block.title[1:])}**{beside}")
        elif isinstance(block, b.Fold):
            inner = "\n\n".join(
                filter(None, (_leaf(each) for each in block.blocks if not isinstance(each, b.Cases)))
            )
            texts.append(f"<details><summary>{_in_html(block.title)}</summary>\n\n{inner}\n\n</details>")
        elif text := _leaf(block):
            texts.append(text)
    for place, cases in reversed(waiting):
        texts[place:place] = _cases(cases, room=COMMENT_CHARS - sum(len(text) + 2 for text in texts))
    return "\n\n".join(texts) + "\n"


def _flat(blocks: Iterable[b.Block]) -> Iterator[b.Block]:
    """The blocks, with those of a section after its heading."""
    for block in blocks:
        yield block
        if isinstance(block, b.Section):
            yield from _flat(block.blocks)


def _leaf(block: b.Leaf) -> str:
    match block:
        case b.Title():
            mark = f"{ANSWER_MARKS.get(block.answer, '❔')} " if block.answer else ""
            answer = f": {prose(block.answer)}" if block.answer else ""
            return f"### {mark}Trivium · {code(block.text)}{answer}"
        case b.Paragraph(tone="quiet"):
            return _quiet(block.lines)
        case b.Paragraph(tone="strong"):
            return "  \n".join(f"**{prose(line)}**" for line in block.lines)
        case b.Paragraph() | b.Answer():
            return "  \n".join(map(prose, block.lines))
        case b.Remarks():
            lines = [*block.lines, *([block.more] if block.more else [])]
            return "\n".join(f"> ⚠️ {prose(line)}  " for line in lines)
        case b.Facts():
            return "  \n".join(f"**{prose(name)}** {prose(words)}" for name, words in block.rows)
        case b.KeyFigures():
            return _leaf(block.table)
        case b.Table():
            return "\n\n".join(filter(None, (_table(block), _quiet(block.notes))))
        case b.Drawing() | b.Links():
            return ""
        case _:
            assert_never(block)


def _in_html(text: str) -> str:
    """Plain words inside an HTML element, where Markdown is not read and its escapes would be shown."""
    return escape(_AUTOLINKS.sub("\\1\u200b", one_line(text, at_most=2000)))


def _quiet(lines: Iterable[str]) -> str:
    words = "<br>".join(map(prose, lines))
    return f"<sub>{words}</sub>" if words else ""


def code(text: str, *, at_most: int = 200) -> str:
    """Text as code, without effect of mentions, links and markup; safe in a table cell."""
    line = one_line(text, at_most=at_most)
    if _PLAIN.fullmatch(line):
        return f"`{line}`"
    # A code span cannot hold every character; a character reference is never markup.
    return f"<code>{_NOT_WORD.sub(lambda match: f'&#{ord(match[0])};', line)}</code>" if line else ""


def prose(text: str, *, at_most: int = 2000) -> str:
    """Text as plain words without markup, mentions and links; safe in a table cell."""
    return escaped(one_line(text, at_most=at_most))


def escaped(text: str) -> str:
    """Text without markup, mentions and links; white space stays, so line breaks must be replaced."""
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    # GitHub finds mentions and bare addresses in the rendered text, so escaping does not stop them;
    # a zero-width character in the middle does.
    return _AUTOLINKS.sub("\\1\u200b", _PUNCTUATION.sub(r"\\\1", text))


def _table(block: b.Table) -> str:
    shown = block.of("always", "wide", but="range")
    heads = ["" if column.kind == "mark" else prose(column.head) for column in shown.columns]
    rules = [_RULES.get(column.kind, ":--") for column in shown.columns]
    rows = [
        [_cell(cell, name=column.kind == "name") for cell, column in zip(row, shown.columns, strict=True)]
        for row in shown.rows
    ]
    return "\n".join([_row(heads), f"|{'|'.join(rules)}|", *map(_row, rows)])


def _row(cells: Iterable[str]) -> str:
    return "|" + "".join(f" {cell} |" if cell else " |" for cell in cells)


def _cell(cell: b.Cell, *, name: bool) -> str:
    if isinstance(cell, b.Mark):
        mark = ANSWER_MARKS.get(cell.answer, "❔")
        return mark if cell.brief else f"{mark} {prose(cell.words, at_most=40)}"
    if isinstance(cell, b.Range | b.Choice):
        return ""
    if isinstance(cell, b.Lines):
        return "<br>".join(filter(None, (_cell(line, name=name) for line in cell.lines)))
    text, tone = (cell.text, cell.tone) if isinstance(cell, b.Toned) else (cell, "")
    words = code(text) if name else prose(text)
    return f"**{words}**" if tone == "strong" and words and not name else words


def _cases(block: b.Cases, *, room: int) -> list[str]:
    texts: list[str] = []
    room -= 200  # for the last line
    for case in block.cases:
        text = _case(case)
        room -= len(text) + 2
        if room < 0:
            break
        texts.append(text)
    if block.further and len(texts) < block.total:
        further = counted(block.total - len(texts), "further case")
        texts.append(f"<sub>{prose(f'{further} {block.further}')}</sub>")
    return texts


def _case(case: b.Case) -> str:
    rows = "\n".join(f"| {_label(part)} | {_part(part)} |" for part in case.parts)
    name, facts = f"<code>{_in_html(case.name)}</code>", _in_html(" · ".join(case.facts))
    differs = "".join(
        f" {_TAGS[each.kind][0]}{_in_html(each.text)}{_TAGS[each.kind][1]}" for each in case.differs
    )
    title = f"{_TONES.get(case.tone, '⚪')} {name} {facts}{differs}"
    return f"<details><summary>{title}</summary>\n\n| | |\n|:--|:--|\n{rows}\n\n</details>"


def _label(part: b.Part) -> str:
    return f"**{prose(part.label)}**" if part.side else prose(part.label)


def _part(part: b.Part) -> str:
    lines = [_text(text) for text in part.texts]
    return "<br>".join([*lines, *([f"… {prose(part.more)}"] if part.more else [])])


def _text(shown: b.ShownText) -> str:
    words = "".join(" … " if piece is None else _piece(piece) for piece in shown.pieces)
    if shown.left_out:
        words += f" … {shown.left_out:,} more characters"
    return words if words.strip() else "*empty*"


def _piece(piece: b.Piece) -> str:
    before, after = _TAGS[piece.kind]
    lines = [escaped(" ".join(line.split("\t"))) for line in visible(piece.text).split("\n")]
    return f"{before}{'<br>'.join(lines)}{after}"
