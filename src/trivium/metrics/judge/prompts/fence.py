"""Fence: marks that no text between them can write, since they are made from a digest of it.

Everything that is judged is hostile until shown otherwise.
"""

from collections.abc import Mapping
from hashlib import blake2b

import msgspec


def code_of(texts: Mapping[str, str]) -> str:
    """The code of the marks around some texts: to write it, a text would have to hold a digest of itself."""
    return blake2b(msgspec.json.encode(texts), digest_size=16).hexdigest()


def between_marks(name: str, text: str, code: str) -> str:
    """A text between its marks."""
    return f"<<<{name} {code}>>>\n{text}\n<<<end of {name} {code}>>>"


def fenced(texts: Mapping[str, str]) -> str:
    """Texts one after the other, each between marks of the same code."""
    code = code_of(texts)
    return "\n\n".join(between_marks(name, text, code) for name, text in texts.items())
