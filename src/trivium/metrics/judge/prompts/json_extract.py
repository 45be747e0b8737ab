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
    """The text holds no JSON object, or several, so that the answer is ambiguous."""


class DuplicateMembers(Exception):
    """An object has two members of one name with different values."""


class ExtractedJson(NamedTuple):
    """JSON extracted from a model's text.

    Attributes:
        value: The decoded JSON.
        whole: False for a truncated object; ``value`` then has its complete members only.
    """

    value: Any
    whole: bool


def extract_json(text: str, *, shown: Iterable[str] = ()) -> ExtractedJson:
    """Extract the JSON from a model's text.

    This is the whole text, or the part from its first brace to its last if that is one object. Thoughts
    before it, a code fence around it and words around it are ignored. Around a truncated object only thoughts
    and a fence are accepted.

    Args:
        text: The model's text.
        shown: Texts that the judge was shown. An object that stands among words and also occurs in one of
            these is a quotation, for example of an output that scores itself, and not the answer.

    Raises:
        NoJson: If there is no JSON, or more than one object.
        DuplicateMembers: If an object has two members of one name with different values.
    """
    try:
        return ExtractedJson(_DECODER.decode(text.strip()), whole=True)
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
        return ExtractedJson(_complete_members(text, first + 1), whole=False)
    alone = alone and _FENCE.fullmatch(text, last + 1) is not None
    if text.find("{", last) > 0 or (not alone and _is_quotation(text[first : last + 1], value, shown)):
        raise NoJson
    return ExtractedJson(value, whole=True)


def thoughts(text: str) -> int:
    """Length in characters of the thoughts in tags at the beginning of a text; 0 without any."""
    match = _THOUGHTS.match(text)
    return match.end() if match else 0


def _complete_members(text: str, start: int) -> dict[str, Any]:
    """Decode the members of a truncated object up to the first incomplete one.

    Raises:
        NoJson: If the object is not truncated; then text that looks like part of an answer follows it.
    """
    members: list[tuple[str, Any]] = []
    while (member := _MEMBER.match(text, start)) is not None and bool(member[1]) == bool(members):
        try:
            name, start = _DECODER.raw_decode(text, member.end())
            colon = _COLON.match(text, start)
            if colon is None:
                break
            value, start = _DECODER.raw_decode(text, colon.end())
        except (ValueError, RecursionError):
            break
        members.append((name, value))
    if _END.match(text, start):
        raise NoJson
    return _without_conflicts(members)


def _without_conflicts(members: list[tuple[str, Any]]) -> dict[str, Any]:
    """Build an object from its members.

    Raises:
        DuplicateMembers: If two members of one name differ.
    """
    by_name = dict(members)
    if len(by_name) < len(members) and any(by_name[name] != value for name, value in members):
        raise DuplicateMembers
    return by_name


_DECODER = json.JSONDecoder(strict=False, object_pairs_hook=_without_conflicts)
"""Accepts raw line breaks within strings, which models often forget to escape."""

_PLAIN = json.JSONDecoder(strict=False)


def _is_quotation(raw: str, value: Any, shown: Iterable[str]) -> bool:
    """Whether an object occurs in a shown text, whatever its spacing, escaping and order of members."""
    bare = _SPACED.sub("", raw)
    longest = 8 * len(bare) + 1000
    for text in shown:
        if bare in _SPACED.sub("", text):
            return True
        spaced = _SPACES.sub(" ", text)
        if any(_contains_object(each, value, longest) for each in {spaced, spaced.replace('\\"', '"')}):
            return True
    return False


def _contains_object(text: str, value: Any, longest: int) -> bool:
    """Whether an object occurs in a text, or in JSON nested in it; True if the nesting is too deep to tell.

    Each decoding reads at most ``longest`` characters, so that a broken object costs bounded time.
    """
    place = 0
    try:
        while (match := _OBJECT.search(text, place)) is not None:
            place = match.end()
            try:
                decoded, length = _PLAIN.raw_decode(text[match.start() : match.start() + longest])
            except ValueError:
                continue
            if _contains(decoded, value, longest):
                return True
            place = match.start() + length
    except RecursionError:
        return True
    return False


def _contains(decoded: Any, value: Any, longest: int) -> bool:
    if decoded == value:
        return True
    if isinstance(decoded, dict):
        decoded = list(decoded.values())
    if isinstance(decoded, list):
        return any(_contains(each, value, longest) for each in decoded)
    return isinstance(decoded, str) and _contains_object(decoded, value, longest)
