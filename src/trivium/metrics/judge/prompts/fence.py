"""Fence: marks that no text between them can write, since they are made from a digest of it.

Everything that is judged is hostile until shown otherwise.
"""

import re
import unicodedata
from collections.abc import Mapping
from hashlib import blake2b

import msgspec

from trivium.suites.rubrics.template import SEEN

NO_MARK = "(no mark) "

_OPENING = 3
"""Brackets that open a mark."""

_BRACKETS = dict.fromkeys("<＜﹤‹〈⟨❮˂ᐸ", 1) | dict.fromkeys("«≪《⟪", 2) | {"⋘": 3}
"""What looks like brackets that open, and like how many."""

_BRACKET = re.compile(f"[{''.join(_BRACKETS)}]")
_UNSEEN = frozenset({"Cf", "Mn", "Me", "Cc", "Zl", "Zp"})
"""Unicode categories of characters that leave no gap: formats, combining marks, controls, separators."""
_FILLERS = "\u115f\u1160\u3164\uffa0"
"""Letters that are not seen."""
_NAME = re.compile(rf" ?(?:end of )?(?:{'|'.join((*SEEN, 'first', 'second', 'example'))})\b")
_NAME_CHARS = 24
"""Of a name after its brackets that are read, folded: the longest is "end of references"."""


def code_of(texts: Mapping[str, str]) -> str:
    """The code of the marks around some texts: to write it, a text would have to hold a digest of itself."""
    return blake2b(msgspec.json.encode(texts), digest_size=16).hexdigest()


def harmless(text: str) -> str:
    """A text in which nothing looks like one of our marks, for readers who do not look at codes."""
    pieces: list[str] = []
    done = place = 0
    while (found := _BRACKET.search(text, place)) is not None:
        place, brackets = _brackets(text, found.start())
        if brackets >= _OPENING and _NAME.match(_folded(text, place)):
            pieces += (text[done : found.start()], NO_MARK)
            done = place
    return "".join([*pieces, text[done:]]) if pieces else text


def _brackets(text: str, start: int) -> tuple[int, int]:
    """Where a row of brackets ends, whatever unseen stands between them, and how many they look like."""
    end, count = start, 0
    for place in range(start, len(text)):
        if text[place] in _BRACKETS:
            end, count = place + 1, count + _BRACKETS[text[place]]
        elif not _is_unseen(text[place]):
            break
    return end, count


def _folded(text: str, start: int) -> str:
    """How a text goes on as a reader sees it: letters of all shapes small, whitespace as single spaces."""
    seen = ""
    for place in range(start, len(text)):
        character = text[place]
        if character.isspace():
            seen += "" if seen.endswith(" ") else " "
        elif not _is_unseen(character):
            seen += unicodedata.normalize("NFKC", character).casefold()
        if len(seen) > _NAME_CHARS:
            break
    return seen


def _is_unseen(character: str) -> bool:
    plain = character in "\t\n\v\f\r"
    return character in _FILLERS or (not plain and unicodedata.category(character) in _UNSEEN)


def between_marks(name: str, text: str, code: str) -> str:
    """A text between its marks."""
    return f"<<<{name} {code}>>>\n{text}\n<<<end of {name} {code}>>>"


def fenced(texts: Mapping[str, str]) -> str:
    """Texts one after the other, harmless, each between marks of the same code."""
    code = code_of(texts)
    return "\n\n".join(between_marks(name, harmless(text), code) for name, text in texts.items())
