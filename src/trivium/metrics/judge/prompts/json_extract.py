"""Extracts the JSON object from a model's text; from a truncated object, its complete members."""

import json
import re
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, NamedTuple

from trivium.safe_text import sanitise

_MEMBER = re.compile(r'\s*+(,?+)\s*+(?=")')
_COLON = re.compile(r"\s*+:\s*+")
_END = re.compile(r"\s*+}")
_THINKS = r"think(?:ing)?|thought|reasoning"
_OPENED = re.compile(rf"[\s\ufeff]*+(?:<(?:{_THINKS})>|\[THINK\]|◁think▷|<\|channel\|>analysis)")
_CLOSED = re.compile(
    rf"</(?:{_THINKS})>|\[/THINK\]|◁/think▷|<\|channel\|>final[^{{}}\n]{{0,40}}?<\|message\|>"
)
"""Tags around thoughts. Where the chat template writes the opening one, the text has only the closing one."""

_FENCE = re.compile(r"[\s\ufeff]*+(?:```)?+(?:json)?+\s*+", re.IGNORECASE)
_SPACED = re.compile(r"[\s\\]+")
_SPACES = re.compile(r"\s+")
_OBJECT = re.compile(r'\{\s*+"')
_ESCAPE = re.compile(r"""\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}|'|)""")
_CALLS = (("<parameter=", ">", "</parameter>"), ("<arg_key>", "</arg_key>", "</arg_value>"))
"""Marks before the name, between name and value, and after the value of a parameter in a call that stands in
the text: of Qwen's and GLM's models."""


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
    before it, a code fence around it and words around it, such as the marks of a call, are ignored. Invalid
    escapes are read as text. Around a truncated object only thoughts and a fence are accepted.

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
        text = _ESCAPE.sub(_valid_escape, text)
    begin, opened = thoughts(text), _OPENED.match(text)
    if parameters := _call_parameters(text[begin:]):
        if any(_is_quotation(value, value, shown) for value in parameters.values()):
            raise NoJson
        return ExtractedJson(parameters, whole=True)
    first, last = text.find("{", begin), text.rfind("}")
    if first < 0:
        raise NoJson
    alone = _FENCE.fullmatch(text, begin or (opened.end() if opened else 0), first) is not None
    if begin and opened is None:
        alone = False  # the tag may be quoted, too
    unfinished = opened is not None and not begin  # what stands within such thoughts is a draft
    try:
        value = _DECODER.decode(text[first : last + 1])
    except (ValueError, RecursionError):
        if unfinished or not alone:
            raise NoJson from None
        return ExtractedJson(_complete_members(text, first + 1), whole=False)
    alone = alone and _FENCE.fullmatch(text, last + 1) is not None
    if text.find("{", last) > 0:
        raise NoJson
    if not alone and (unfinished or _is_quotation(text[first : last + 1], value, shown)):
        raise NoJson
    return ExtractedJson(value, whole=True)


def decoded_text(text: str) -> Any:
    """Decode a text that stands in place of an object or list; returned as it is if it holds neither.

    Raises:
        DuplicateMembers: If an object has two members of one name with different values.
    """
    try:
        return sanitise(_DECODER.decode(_ESCAPE.sub(_valid_escape, text.strip())))[0]
    except (ValueError, RecursionError):
        return text


def _valid_escape(found: re.Match[str]) -> str:
    """What an invalid escape stands for: an apostrophe, or a backslash."""
    return {"\\": "\\\\", "\\'": "'"}.get(found[0], found[0])


def _call_parameters(text: str) -> dict[str, Any]:
    """Parameters of a call that marks name one by one; empty without any."""
    given = []
    for before, between, after in _CALLS:
        for part in text.split(before)[1:]:
            name, _, rest = part.partition(between)
            value, closed, _ = rest.partition(after)
            if closed:
                given.append((name.strip(), value.replace("<arg_value>", "").strip()))
    return _without_conflicts(given)


def thoughts(text: str) -> int:
    """Length in characters of the thoughts before an answer, to their last closing tag; 0 without any."""
    *_, closing = (None, *_CLOSED.finditer(text))
    if closing is None or text.startswith("{", _fence_end(text)):
        return 0
    first, last = text.find("{"), text.rfind("}")
    if first < closing.start() < last:
        with suppress(ValueError, RecursionError, DuplicateMembers):
            _DECODER.decode(text[first : last + 1])
            return 0  # the tag is part of a text of the answer
    return closing.end()


def _fence_end(text: str) -> int:
    match = _FENCE.match(text)
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
