"""Identifies the person who labels, by a token of the server or a typed name, and checks what they give.

A label stores its person as one text. For a token, the server writes ``token ID NAME`` (``Token.actor``),
which cannot be typed, so that reservations, overlap, undo and blinding belong to the token. Without tokens
(in a terminal, or on a server for this machine only) it is a typed name, which is not verified.
"""

import re
from collections import Counter
from collections.abc import Iterable
from hashlib import blake2b
from typing import Final

from trivium.errors import InputError
from trivium.safe_text import sanitise
from trivium.store.labels import NOBODY

LONGEST_NAME, LONGEST_NOTE = 200, 4000
"""Characters of a person's name, and of a note."""

_TOKEN: Final = re.compile(r"token ([0-9a-f]{8}) (.+)", re.DOTALL)
_LIKE_TOKEN: Final = re.compile(r"token\s+[0-9a-f]{8}\b", re.IGNORECASE)


def token_id(by: str) -> str | None:
    """The id of the token that a person labels with; None for a typed name."""
    found = _TOKEN.fullmatch(by)
    return None if found is None else found[1]


def typed_name(name: str) -> str:
    """Return a name that somebody typed, without what a store cannot hold.

    Raises:
        InputError: If it is empty, too long, or looks like the person of a token or like nobody.
    """
    checked = checked_name(name)
    if _LIKE_TOKEN.match(checked):
        raise InputError("the labeller's name", "the person of a token cannot be typed: choose another name")
    if checked == NOBODY:
        raise InputError("the labeller's name", f"{NOBODY} stands for nobody: choose another name")
    return checked


def shown_names(people: Iterable[str]) -> dict[str, str]:
    """Return the displayed name of each person: a token's name, with its id where names repeat."""
    everybody = list(dict.fromkeys(people))
    names = {by: found[2] if (found := _TOKEN.fullmatch(by)) else by for by in everybody}
    called = Counter(names.values())
    return {
        by: f"{name} (token {token_id(by)})" if called[name] > 1 and token_id(by) else name
        for by, name in names.items()
    }


def checked_name(by: str) -> str:
    """Return a person's name without what a store cannot hold.

    Raises:
        InputError: If it is empty or too long.
    """
    name = str(sanitise(by)[0]).strip()
    if not name or len(name) > LONGEST_NAME:
        raise InputError("the labeller's name", f"expected 1 to {LONGEST_NAME} characters, found {len(name)}")
    return name


def noted(note: str | None) -> str | None:
    """Return a note without what a store cannot hold, cut to its longest; None if it is empty."""
    return None if note is None else str(sanitise(note)[0]).strip()[:LONGEST_NOTE] or None


def key_of(*parts: str) -> str:
    """Return the key of a label: nobody can use the one of another person or queue."""
    text = "".join(f"{len(part)}:{part}" for part in parts)
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=24).hexdigest()
