"""Extracts the JSON object from a model's text; from a truncated object, its complete members."""

import json
import re
from collections.abc import Iterable
from typing import Any, NamedTuple

_MEMBER = re.compile(r'\s*+(,?+)\s*+(?=")')
_COLON = re.compile(r"\s*+:\s*+")
_END = re.compile(r"\s*+}")
_THOUGHTS = re.compile(r"[\s\ufeff]*+<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL)
_FENCE = re.compile(r"[\s\ufeff]*+(?:```)?+(?:json)?+\s*+", re.IGNORECASE)
_SPACED = re.compile(r"[\s\\]+")
_SPACES = re.compile(r"\s+")
_OBJECT = re.compile(r'\{\s*+"')


class NoJson(Exception):
    """There is no JSON object, or nobody can say which of several is meant."""


class SaidTwice(Exception):
    """An object says the same thing twice, and not alike."""


class Said(NamedTuple):
    """What a model said.

    Attributes:
        value: JSON.
        whole: Whether it ends. Of an object that breaks off, the members are there that do not.
    """

    value: Any
    whole: bool


def json_said(text: str, *, shown: Iterable[str] = ()) -> Said:
    """The JSON in a text.

    That is the text itself, or all from its first brace to its last where that is one object: thoughts
    before it, a fence around it and words after it are no part of it. An object that breaks off must be all
    that there is.

    Args:
        text: What a model said.
        shown: What it was shown. An object that stands among words and in one of these too is a quotation,
            as of a text that gives itself a score, and no answer.

    Raises:
        NoJson: If there is none.
        SaidTwice: If an object says the same thing twice, and not alike.
    """
    try:
        return Said(_DECODER.decode(text.strip()), whole=True)
    except (ValueError, RecursionError):
        begin = thoughts(text)
    first, last = text.find("{", begin), text.rfind("}")
    if first < 0:
        raise NoJson
    alone = _FENCE.fullmatch(text, begin, first) is not None
    try:
        value = _DECODER.decode(text[first : last + 1])
    except (ValueError, RecursionError):
        if not alone:
            raise NoJson from None
        return Said(_members(text, first + 1), whole=False)
    alone = alone and _FENCE.fullmatch(text, last + 1) is not None
    if text.find("{", last) > 0 or (not alone and _quoted(text[first : last + 1], value, shown)):
        raise NoJson
    return Said(value, whole=True)


def thoughts(text: str) -> int:
    """How many characters a model thought between tags before it said something."""
    found = _THOUGHTS.match(text)
    return found.end() if found else 0


def _members(text: str, start: int) -> dict[str, Any]:
    """The members of an object that are whole, up to the first that is not.

    Raises:
        NoJson: If the object ends: then something follows it that is like a part of an answer.
    """
    found: list[tuple[str, Any]] = []
    while (member := _MEMBER.match(text, start)) is not None and bool(member[1]) == bool(found):
        try:
            name, start = _DECODER.raw_decode(text, member.end())
            colon = _COLON.match(text, start)
            if colon is None:
                break
            value, start = _DECODER.raw_decode(text, colon.end())
        except (ValueError, RecursionError):
            break
        found.append((name, value))
    if _END.match(text, start):
        raise NoJson
    return _once(found)


def _once(members: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(members)
    if len(found) < len(members) and any(found[name] != value for name, value in members):
        raise SaidTwice
    return found


_DECODER = json.JSONDecoder(strict=False, object_pairs_hook=_once)
"""Takes line breaks within texts as they are, which models forget to write as JSON has them."""


def _quoted(said: str, value: Any, shown: Iterable[str]) -> bool:
    """Whether an object was shown, however it is spaced or escaped and in whatever order its members are."""
    bare = _SPACED.sub("", said)
    longest = 8 * len(bare) + 1000
    for text in shown:
        if bare in _SPACED.sub("", text):
            return True
        spaced = _SPACES.sub(" ", text)
        if any(_holds(each, value, longest) for each in {spaced, spaced.replace('\\"', '"')}):
            return True
    return False


def _holds(text: str, value: Any, longest: int) -> bool:
    """Whether an object stands in a text, or in a text in JSON in it; yes where that is too deep to tell.

    Each is looked for in ``longest`` characters: a mistake costs as much as what it stands in is long.
    """
    place = 0
    try:
        while (found := _OBJECT.search(text, place)) is not None:
            place = found.end()
            try:
                there, length = _PLAIN.raw_decode(text[found.start() : found.start() + longest])
            except ValueError:
                continue
            if _is_in(there, value, longest):
                return True
            place = found.start() + length
    except RecursionError:
        return True
    return False


def _is_in(there: Any, value: Any, longest: int) -> bool:
    if there == value:
        return True
    if isinstance(there, dict):
        there = list(there.values())
    if isinstance(there, list):
        return any(_is_in(each, value, longest) for each in there)
    return isinstance(there, str) and _holds(there, value, longest)


_PLAIN = json.JSONDecoder(strict=False)
