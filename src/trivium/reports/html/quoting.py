"""Quotes of a judge found again in a text, as evidence is found, and where they stand in it."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

import msgspec

from trivium.metrics.judge.signals.evidence import QUOTATION_MARKS, folded, places, quote_parts
from trivium.reports.html.folding import HEAD_CHARS, TEXT_CHARS, as_json

SEARCHED_CHARS = 200_000
"""Of a text."""
PLACES_SHOWN = 20
"""Of one quote in one text."""
AROUND_CHARS = 240
"""Of a document that are shown before and after a quote."""

Span = tuple[int, int, int]
"""Where a quote begins and ends in a text, and its number."""


class Piece(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a text.

    Attributes:
        text: As it stands there.
        quotes: Numbers of the quotes that it belongs to.
        gap: Characters that are left out before it.
    """

    text: str
    quotes: tuple[int, ...] = ()
    gap: int = 0


class Marked(msgspec.Struct, frozen=True, kw_only=True):
    """A text in pieces, ready to show.

    Attributes:
        head: What is shown at once.
        rest: What is folded.
        rest_chars: Length of what is folded.
        chars: Length of the whole text.
        left_out: Characters after the last piece that are not in the report.
        is_json: Whether it is a value written out, not somebody's text.
    """

    head: tuple[Piece, ...]
    rest: tuple[Piece, ...]
    rest_chars: int
    chars: int
    left_out: int
    is_json: bool = False

    @property
    def rest_open(self) -> bool:
        """Whether a quote stands in what would be folded."""
        return any(piece.quotes for piece in self.rest)


def quotes_in(text: str, quotes: Sequence[str]) -> list[Span]:
    """Where quotes, or their parts, stand in a text, in the order of the text.

    Args:
        text: Of which the first 200,000 characters are searched.
        quotes: Numbered from 1; an empty one stands nowhere.
    """
    text = text[:SEARCHED_CHARS]
    wanted = [(number, quote_parts(quote)) for number, quote in enumerate(quotes, 1)]
    whole = folded(text)
    wanted = [(number, parts) for number, parts in wanted if places(parts, whole)]
    if not wanted:
        return []
    whole, origins = _mapped(text)
    spans: list[Span] = []
    for number, parts in wanted:
        found = places(parts, whole)
        for _ in range(PLACES_SHOWN):
            if not found:
                break
            spans += [(origins[first], origins[last - 1] + 1, number) for first, last in found]
            found = places(parts, whole, found[-1][1])
    return sorted(spans)


def marked(value: object, quotes: Sequence[str]) -> Marked | None:
    """A text or any JSON value with the quotes marked in it; None when there is nothing."""
    if value is None or value == "":
        return None
    is_json = not isinstance(value, str)
    text = as_json(value) if is_json else str(value)
    shown = text[:TEXT_CHARS]
    spans = quotes_in(shown, quotes)
    split = len(shown) if len(shown) <= HEAD_CHARS else _end_of_head(shown, spans)
    return Marked(
        head=tuple(_pieces(shown, spans, 0, split)),
        rest=tuple(_pieces(shown, spans, split, len(shown))),
        rest_chars=len(shown) - split,
        chars=len(text),
        left_out=len(text) - len(shown),
        is_json=is_json,
    )


def excerpts(text: str, quotes: Sequence[str]) -> Marked | None:
    """The parts of a document around the quotes that stand in it; None when none does."""
    spans = quotes_in(text, quotes)
    if not spans:
        return None
    windows: list[list[int]] = []
    for start, stop, _ in spans:
        begin, end = max(0, start - AROUND_CHARS), min(len(text), stop + AROUND_CHARS)
        if windows and begin <= windows[-1][1]:
            windows[-1][1] = max(end, windows[-1][1])
        else:
            windows.append([begin, end])
    pieces: list[Piece] = []
    shown, before = 0, 0
    for begin, end in windows:
        if shown >= TEXT_CHARS:
            break
        first, *others = _pieces(text, spans, begin, end)
        pieces += [msgspec.structs.replace(first, gap=begin - before), *others]
        shown, before = shown + end - begin, end
    return Marked(head=tuple(pieces), rest=(), rest_chars=0, chars=len(text), left_out=len(text) - before)


def _mapped(text: str) -> tuple[str, list[int]]:
    """The folded text, and which character of the text each of its characters comes from."""
    pieces: list[str] = []
    origins: list[int] = []
    space: int | None = None
    for place, character in enumerate(text):
        if character.isspace():
            space = place if space is None else space
            continue
        if character in QUOTATION_MARKS:
            continue
        if space is not None and pieces:
            pieces.append(" ")
            origins.append(space)
        space = None
        plain = character.casefold()
        pieces.append(plain)
        origins += [place] * len(plain)
    return "".join(pieces), origins


def _pieces(text: str, spans: Sequence[Span], begin: int, end: int) -> Iterator[Piece]:
    """The text from begin to end, cut wherever a quote begins or ends."""
    inside = [span for span in spans if span[0] < end and begin < span[1]]
    cuts = {begin, end, *(cut for span in inside for cut in span[:2] if begin < cut < end)}
    edges = sorted(cuts)
    for start, stop in pairwise(edges):
        quotes = {number for first, last, number in inside if first <= start and stop <= last}
        yield Piece(text=text[start:stop], quotes=tuple(sorted(quotes)))


def _end_of_head(text: str, spans: Sequence[Span]) -> int:
    """Where to fold: at white space near the limit, and in the middle of no quote."""
    for place in range(HEAD_CHARS, HEAD_CHARS - 80, -1):
        if text[place].isspace():
            break
    else:
        place = HEAD_CHARS
    return max([place, *(stop for start, stop, _ in spans if start < place < stop)])
