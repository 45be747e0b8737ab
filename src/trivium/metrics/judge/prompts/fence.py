"""Fence: marks that no text between them can write, since they are made from a digest of it.

Everything that is judged is hostile until shown otherwise.
"""

import re
from collections.abc import Mapping
from hashlib import blake2b

import msgspec

from trivium.suites.rubrics.template import SEEN

NO_MARK = "(no mark) "

_UNSEEN = "[\u00ad\u200b-\u200f\u2060-\u2064\u202a-\u202e\ufeff]*"
_OPENING = f"[<\uff1c\ufe64]{_UNSEEN}" * 3
_LIKE_A_MARK = re.compile(
    rf"{_OPENING}(?=\s{{0,20}}(?:end\s{{1,20}}of\s{{1,20}})?(?:{'|'.join(SEEN)}|example)\b)", re.IGNORECASE
)


def code_of(texts: Mapping[str, str]) -> str:
    """The code of the marks around some texts: to write it, a text would have to hold a digest of itself."""
    return blake2b(msgspec.json.encode(texts), digest_size=16).hexdigest()


def harmless(text: str) -> str:
    """A text in which nothing looks like one of our marks, for readers who do not look at codes."""
    return _LIKE_A_MARK.sub(NO_MARK, text)


def between_marks(name: str, text: str, code: str) -> str:
    """A text between its marks."""
    return f"<<<{name} {code}>>>\n{text}\n<<<end of {name} {code}>>>"


def fenced(texts: Mapping[str, str]) -> str:
    """Texts one after the other, harmless, each between marks of the same code."""
    code = code_of(texts)
    return "\n\n".join(between_marks(name, harmless(text), code) for name, text in texts.items())
