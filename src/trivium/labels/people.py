"""Identifies the person who labels: by a token of the server, or by a typed name.

A label stores its person as one text. For a token, the server writes ``token ID NAME`` (``Token.actor``),
which cannot be typed, so that reservations, overlap, undo and blinding belong to the token. Without tokens
(in a terminal, or on a server for this machine only) it is a typed name, which is not verified.
"""

import re
from collections import Counter
from collections.abc import Iterable
from typing import Final

from trivium.errors import InputError
from trivium.labels.records import checked_name
from trivium.store.labels import NOBODY

__all__ = ["shown_names", "token_id", "typed_name"]

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
