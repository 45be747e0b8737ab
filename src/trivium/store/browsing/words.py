"""Words of any script, for a search: one way to cut a text, for both databases.

Case, width and presentation forms do not count (NFKC, case folding), nor do the vowel marks of Arabic and
Hebrew, or the skin tones of emoji. Scripts without spaces between words give every character and every pair
of neighbours; each emoji is a word.
"""

import re
import sys
import unicodedata
from collections.abc import Iterator
from functools import cache

import msgspec

__all__ = ["Chunk", "Wanted", "folded", "folded_with_places", "index_words", "wanted"]

WORD_CHARACTERS = 64
"""Characters of a word that count."""

BEGUN_CHARACTERS = 3
"""Fewest characters by which a begun word is looked for."""

INDEXED_BYTES = 400_000
"""Most bytes of the different words of one document: PostgreSQL allows 1 MB."""

CHUNKS = 40
"""Most words or phrases of a query; further ones are not looked for."""

PHRASE_WORDS = 32
"""Words of a phrase that have to be next to one another; a text needs to have the further ones anywhere.

A text that repeats itself is compared with all of them at each of its places."""

STACKED_MARKS = 30
"""Marks on one character that count (UAX #15, stream-safe text): ordering them takes quadratic time."""

_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u3005-\u3007\u3041-\u309f\u30a1-\u30fa\u30fc-\u30ff"
    "\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
)
"""Thai, Lao, Myanmar, Hangul, Khmer, kana and Han."""

_SIGNS = "\u20a0-\u20cf\u2190-\u2bff\U0001f000-\U0001faff"
_EMOJI = f"[\U0001f1e6-\U0001f1ff]{{2}}|[{_SIGNS}]"
_DROPPED = re.compile(
    "[\u00ad\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u0640\u064b-\u065f\u0670\u06d6-\u06dc"
    "\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed\u200b-\u200f\u202a-\u202e\u2060\u2066-\u2069\ufe00-\ufe0f\ufeff"
    "\U0001f3fb-\U0001f3ff]"
)
_ALEFS = {0x622: 0x627, 0x623: 0x627, 0x625: 0x627}
_LETTER = f"[^\\W_{_UNSPACED}]"
_BETWEEN = rf"(?:(?![{_UNSPACED}{_SIGNS}])[\W_]){{0,8}}"
"""What may be between two words of a phrase: nothing that is a word, or there would be many ways to match."""


class Chunk(msgspec.Struct, frozen=True, kw_only=True):
    """A word or phrase that is looked for.

    Attributes:
        words: Words of the index that a text with it has.
        pattern: Finds it in a folded text.
        phrase: Whether a text may have all its words without having it.
    """

    words: tuple[str, ...]
    pattern: str
    phrase: bool


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """The terms of a query, all of which must match.

    Attributes:
        chunks: Its words and phrases.
        prefix: The last word of the last chunk, if it need only be the beginning of a word.
        left_out: Words or phrases past ``CHUNKS``.
    """

    chunks: tuple[Chunk, ...]
    prefix: str | None = None
    left_out: int = 0

    @property
    def words(self) -> tuple[str, ...]:
        """The words that a text needs to have, each once, without the prefix."""
        return tuple(dict.fromkeys(word for chunk in self.chunks for word in chunk.words))


def folded(text: str) -> str:
    """The text as it is compared."""
    if text.isascii():
        return text.lower()
    text = _stacked_marks().sub("", text)
    text = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return _DROPPED.sub("", text).translate(_ALEFS)


def folded_with_places(text: str) -> tuple[str, list[int] | range]:
    """The text as it is compared, and where each of its characters, and its end, is in the text itself."""
    if text.isascii():
        return text.lower(), range(len(text) + 1)
    pieces: list[str] = []
    places: list[int] = []
    for match in _clusters().finditer(text):
        piece = folded(match.group())
        pieces.append(piece)
        plain = match.lastgroup == "plain"
        places += range(match.start(), match.end()) if plain else [match.start()] * len(piece)
    return "".join(pieces), [*places, len(text)]


def index_words(texts: Iterator[str] | list[str]) -> list[str]:
    """The different words of a document, up to ``INDEXED_BYTES``."""
    found: dict[str, None] = {}
    size = 0
    for text in texts:
        for piece in _pieces().finditer(folded(text)):
            for word in _words_of(piece, single=True):
                if word not in found:
                    size += len(word.encode())
                    if size > INDEXED_BYTES:
                        return list(found)
                    found[word] = None
    return list(found)


def wanted(query: str) -> Wanted:
    """Read a query: words, and phrases in double quotes; the last word may be only begun.

    Args:
        query: Any text; signs that other engines take for operators are text.
    """
    open_end = bool(query) and not query[-1].isspace() and query[-1] != '"'
    parts = [quoted or plain for quoted, plain in re.findall(r'"([^"]*)"?|([^\s"]+)', query)]
    chunks: list[Chunk] = []
    prefix, left_out = None, 0
    for place, part in enumerate(parts, 1):
        pieces = list(_pieces().finditer(folded(part)))
        if not pieces:
            continue
        if len(chunks) == CHUNKS:
            left_out += 1
            continue
        words = [word for piece in pieces for word in _words_of(piece, single=False)]
        begun = open_end and place == len(parts) and _may_be_begun(pieces[-1])
        if begun:
            prefix = words.pop()
        near = pieces[:PHRASE_WORDS]
        pattern = _BETWEEN.join(re.escape(piece.group()) for piece in near)
        start = f"(?<!{_LETTER})" if near[0].lastgroup == "word" else ""
        ends_open = begun and len(near) == len(pieces)
        end = f"(?!{_LETTER})" if near[-1].lastgroup == "word" and not ends_open else ""
        phrase = len(words) + begun > 1
        chunks.append(Chunk(words=tuple(words), pattern=start + pattern + end, phrase=phrase))
    return Wanted(chunks=tuple(chunks), prefix=prefix, left_out=left_out)


def _may_be_begun(piece: "re.Match[str]") -> bool:
    """Whether a word is long enough to be looked for by its beginning: a letter or two begin too many."""
    return piece.lastgroup == "word" and len(piece.group()) >= BEGUN_CHARACTERS


def _words_of(piece: "re.Match[str]", *, single: bool) -> Iterator[str]:
    text = piece.group()
    if piece.lastgroup != "run":
        yield text[:WORD_CHARACTERS]
        return
    if single or len(text) == 1:
        yield from text
    yield from (text[place : place + 2] for place in range(len(text) - 1))


@cache
def _marks() -> str:
    """Ranges of the marks that belong to the character before them."""
    ranges: list[list[int]] = []
    for code in range(0x300, min(sys.maxunicode, 0x1E9FF)):
        if unicodedata.category(chr(code))[0] == "M":
            if ranges and ranges[-1][1] == code - 1:
                ranges[-1][1] = code
            else:
                ranges.append([code, code])
    return "".join(f"{re.escape(chr(first))}-{re.escape(chr(last))}" for first, last in ranges)


@cache
def _stacked_marks() -> "re.Pattern[str]":
    """Finds marks past the most that count on one character."""
    return re.compile(f"(?<=[{_marks()}]{{{STACKED_MARKS}}})[{_marks()}]+")


@cache
def _pieces() -> "re.Pattern[str]":
    """Finds runs of scripts without spaces, emoji and words."""
    word = f"{_LETTER}(?:{_LETTER}|(?![{_UNSPACED}])[{_marks()}])*"
    return re.compile(f"(?P<run>[{_UNSPACED}]+)|(?P<emoji>{_EMOJI})|(?P<word>{word})")


@cache
def _clusters() -> "re.Pattern[str]":
    """Finds a character with the marks that it may be composed with, or several of ASCII without any."""
    marks = f"[{_marks()}\u1160-\u11ff\uff9e\uff9f\U0001f3fb-\U0001f3ff]"
    return re.compile(f"(?P<plain>[\x00-\x7f]+(?!{marks}))|(?s:.{marks}*)")
