"""Reads untrusted values, writes any object as JSON, and limits the number of values in a JSON text.

Files of other tools may hold any value: :func:`number`, :func:`count`, :func:`dict_` and the like return a
value of their type, or else None or an empty one. They take any JSON value, and its Python equivalents.

User code can return any object, even one that claims another class, refers to itself, or raises in its
``repr``. :func:`encode` writes a bounded copy of it.
"""

import dataclasses
import datetime
import numbers
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any, TypeGuard, TypeVar

import msgspec

JsonObject = dict[str, Any]
"""A JSON object of a foreign format, or with user-defined keys: the types of its values are unknown."""

R = TypeVar("R")
T = TypeVar("T")

MOST_CHARS = 65_536
"""Longest text that replaces an object, in characters."""

_MOST_ELEMENTS = 10_000
"""Most elements of a NumPy array that is written as numbers; a larger one becomes its repr."""

_MOST_BITS = 1024
"""Most bits of an integer that is written as a number; Python refuses to print very large ones."""

_MISSING_TYPES = frozenset({"NAType", "NaTType"})
"""The types of pandas.NA and pandas.NaT."""

_DEEPEST = 100
"""Most levels of nesting that :class:`_Walk` follows."""

_MOST_NODES = 100_000
"""Most values that :class:`_Walk` copies, which bounds structures with shared parts."""


_MOST_AMOUNT = 1e12
_MOST_COUNT = 2**53
"""A double holds every whole number up to this one exactly."""


class FileRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A record that users write in files: an unknown key is a mistake, and defaults are not written."""


def is_number(value: Any) -> TypeGuard[int | float]:
    """Whether a value is an int or a float, but not a bool.

    NaN and infinity count, and so does NumPy's float64, a subclass of float; other NumPy scalars do not.
    """
    return isinstance(value, int | float) and not isinstance(value, bool)


def number(value: Any) -> float | None:
    """Return a finite number as a float; None for any other value, including texts and booleans."""
    return float(value) if is_number(value) and abs(value) < 1e300 else None


def amount(value: Any) -> float | None:
    """Return a number of seconds or dollars, from 0 to 10¹² (exclusive); None for any other value."""
    return float(value) if is_number(value) and 0 <= value < _MOST_AMOUNT else None


def count(value: Any) -> int | None:
    """Return a whole number of things, such as tokens, from 0 to 2⁵³; None for any other value.

    A float without a fraction and a text of at most 16 digits count, because some formats write those.
    """
    if type(value) is int and 0 <= value <= _MOST_COUNT:
        return value
    if isinstance(value, str) and value.isdecimal() and len(value) <= 16:
        value = int(value)
    if not is_number(value) or not 0 <= value <= _MOST_COUNT or value != int(value):
        return None
    return int(value)


def sum_known(numbers: Iterable[Any]) -> Any:
    """Sum the numbers that are not None; None if there is none."""
    known = [number for number in numbers if number is not None]
    return sum(known) if known else None


def nonempty_text(value: Any) -> str | None:
    """Return a text that is not empty; None for any other value."""
    return value if isinstance(value, str) and value else None


def dict_(value: Any) -> JsonObject:
    """Return a JSON object; an empty one for any other value."""
    return value if isinstance(value, dict) else {}


def list_(value: Any) -> list[Any]:
    """Return a list, or a tuple as one; an empty list for any other value."""
    return value if isinstance(value, list) else list(value) if isinstance(value, tuple) else []


def dicts(value: Any) -> list[JsonObject]:
    """Return the objects in a JSON list; an empty list for any other value."""
    return [item for item in list_(value) if isinstance(item, dict)]


def json_or_text(text: str) -> Any:
    """Decode a text that holds JSON; return any other text, or one nested too deep, unchanged."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return text


def json_text(value: Any, *, canonical: bool = False) -> str:
    """Return a JSON value or record as compact JSON.

    Args:
        value: The value.
        canonical: Whether to sort the keys of objects, so that equal values have equal texts.

    Raises:
        TypeError: If it holds another type of value; see :func:`encode`.
        UnicodeEncodeError: If a text in it has a lone surrogate.
    """
    return msgspec.json.encode(value, order="deterministic" if canonical else None).decode()


def json_document(value: Any) -> bytes:
    """Return a JSON value or record as an indented document in UTF-8, ending with a line break.

    NaN and infinity become null.
    """
    return msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"


def text_or_json(value: Any, *, canonical: bool = False) -> str:
    """Return a text as it is, an empty one for None, and any other value as :func:`json_text`."""
    if isinstance(value, str):
        return value
    return "" if value is None else json_text(value, canonical=canonical)


def dialogue_text(value: Any) -> str | None:
    """Format chat messages as text, one paragraph each; None if the value is not a list of messages.

    A message has a ``role``, a text, and a ``content``: a text or a list of parts. A part without text
    appears as its type in brackets; tool calls follow the text.
    """
    if not isinstance(value, list | tuple) or not value:
        return None
    paragraphs = []
    for message in value:
        if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
            return None
        content = message.get("content")
        parts = content if isinstance(content, list | tuple) else [content]
        lines = [text for part in parts if (text := _part_text(part))]
        calls = (dict_(call).get("function", call) for call in list_(message.get("tool_calls")))
        lines += [f"calls {dict_(call).get('name')}({dict_(call).get('arguments', '')})" for call in calls]
        paragraphs.append(f"{message['role']}: {chr(10).join(lines)}")
    return "\n\n".join(paragraphs)


def chat_problem(messages: Iterable[Any]) -> tuple[int, str] | None:
    """The place of the first entry of a chat that is no message with a role, and what is wrong with it."""
    for place, message in enumerate(messages):
        if not isinstance(message, Mapping):
            return place, "is no message: expected an object with a role and a content"
        if not isinstance(message.get("role"), str) or not message["role"]:
            return place, "the message has no role: expected system, user, assistant or tool"
    return None


def is_like_a_chat(value: Any) -> bool:
    """Whether a list holds a message as OpenAI's API has it."""
    return isinstance(value, list) and any(
        isinstance(each, Mapping)
        and each.get("role") in ("system", "developer", "user", "assistant", "tool")
        and not each.keys().isdisjoint(("content", "tool_calls"))
        for each in value
    )


def _part_text(part: Any) -> str:
    if isinstance(part, Mapping) and isinstance(part.get("text"), str):
        text: str = part["text"]
        return text
    return f"[{part['type']}]" if isinstance(part, Mapping) and "type" in part else text_or_json(part)


def resolved(record: type[R]) -> type[R]:
    """Make msgspec resolve the field types of a record now, during the import of its module.

    Otherwise msgspec resolves them when it first converts a value to the record, and the process crashes if a
    second thread converts one at the same time (msgspec 0.22).
    """
    msgspec.json.Decoder(record)
    return record


def encode(value: Any, as_text: list[str] | None = None) -> bytes:
    """Encode any value as JSON, catching every exception that the value raises except Ctrl-C.

    Numbers of other libraries and of subclasses become plain numbers, texts of subclasses plain texts, arrays
    of up to 10,000 elements lists, and Pydantic models objects. Any other object becomes its ``repr``, or a
    note if its ``repr`` raises. A lone surrogate becomes U+FFFD.

    Args:
        value: Any object.
        as_text: List to which the type name of each value written as text is appended.
    """
    type_names: list[str] = []
    try:
        encoded = msgspec.json.encode(value, enc_hook=lambda part: plain(part, type_names))
        if as_text is not None:
            as_text += type_names
        return encoded
    except BaseException as error:
        _reraise_ctrl_c(error)
    # A cycle, deep nesting, a lone surrogate or an object that raises: copy it part by part.
    walk = _Walk([] if as_text is None else as_text)
    return msgspec.json.encode(walk.copied(value, 0))


def is_absent(value: Any) -> bool:
    """Whether a value marks missing data: None, NaN, or NA and NaT of pandas.

    The text ``"NaN"`` is an ordinary text, not missing data.
    """
    if isinstance(value, numbers.Real | Decimal):
        return value != value  # noqa: PLR0124 - only NaN differs from itself
    return value is None or type(value).__name__ in _MISSING_TYPES


def plain_text(value: Any) -> str:
    """Convert a name to a plain str: an instance of a str subclass to its text, any other to its repr."""
    text = value if type(value) is str else plain(value)
    return _replace_lone_surrogates(text if type(text) is str else _bounded_repr(text))


def plain(value: Any, as_text: list[str] | None = None) -> Any:
    """Convert a value that msgspec cannot encode (an ``enc_hook``). Arguments as of :func:`encode`.

    It looks at ``type`` rather than ``isinstance``, because an object may claim any class.
    """
    kind = type(value)
    try:
        made = _json_value(value, kind)
        if made is not value:
            return made
    except BaseException as error:
        _reraise_ctrl_c(error)
    if as_text is not None:
        as_text.append(kind.__name__)
    return _bounded_repr(value)


def _json_value(value: Any, kind: type) -> Any:
    """Convert a value to a JSON value; return it unchanged if it has none."""
    if issubclass(kind, str):
        return str.__str__(value)
    if kind is bool or value is None:  # keys of a dictionary
        return str(value)
    if issubclass(kind, numbers.Real):
        return _integer(int(value)) if issubclass(kind, numbers.Integral) else float(value)
    if issubclass(kind, datetime.date | datetime.time):
        return plain_text(value.isoformat())
    if issubclass(kind, bytes | bytearray):
        return bytes(value)
    if kind.__module__ == "numpy":
        return _numpy_value(value)
    return value.model_dump(mode="json") if callable(getattr(kind, "model_dump", None)) else value


def _numpy_value(value: Any) -> Any:
    """Convert scalars to Python numbers and small arrays to lists; return others unchanged."""
    return value.tolist() if value.size <= _MOST_ELEMENTS else value


def _integer(number: int) -> int | str:
    return number if number.bit_length() <= _MOST_BITS else f"[integer of {number.bit_length():,} bits]"


def _bounded_repr(value: Any) -> str:
    """Return the bounded ``repr`` of an object, or a note why it has none."""
    try:
        return _replace_lone_surrogates(str.__str__(repr(value))[:MOST_CHARS])
    except BaseException as error:
        _reraise_ctrl_c(error)
        return f"[{type(value).__name__} is not recorded: {type(error).__name__}]"


def _replace_lone_surrogates(text: str) -> str:
    """Replace lone surrogates, which UTF-8 cannot encode, by U+FFFD."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _reraise_ctrl_c(error: BaseException) -> None:
    if isinstance(error, KeyboardInterrupt):
        raise error


class _Walk:
    """Copies a value into plain JSON types, even if parts of it raise.

    Args:
        as_text: List to which the type names of values written as text are appended.
    """

    def __init__(self, as_text: list[str]) -> None:
        self._as_text = as_text
        self._above: set[int] = set()
        self._left = _MOST_NODES

    def copied(self, value: Any, depth: int) -> Any:
        """Return the copy of a value."""
        kind = type(value)
        if value is None or kind is bool or kind is float:
            return value
        if kind is str:
            return _replace_lone_surrogates(value)
        if kind is int:
            return _integer(value)
        self._left -= 1
        if depth > _DEEPEST or self._left < 0 or id(value) in self._above:
            why = "it holds itself" if id(value) in self._above else "too deep or too large"
            self._as_text.append(kind.__name__)
            return f"[{kind.__name__} is not recorded: {why}]"
        self._above.add(id(value))
        try:
            return self._parts(value, kind, depth + 1)
        except BaseException as error:
            _reraise_ctrl_c(error)
            self._as_text.append(kind.__name__)
            return _bounded_repr(value)
        finally:
            self._above.discard(id(value))

    def _parts(self, value: Any, kind: type, depth: int) -> Any:
        if issubclass(kind, dict):
            return {
                plain_text(self.copied(key, depth)): self.copied(item, depth)
                for key, item in list(dict.items(value))
            }
        if issubclass(kind, list | tuple | set | frozenset):
            return [self.copied(item, depth) for item in list(value)]
        if issubclass(kind, msgspec.Struct):
            return {name: self.copied(getattr(value, name), depth) for name in kind.__struct_fields__}
        if dataclasses.is_dataclass(kind):
            fields = dataclasses.fields(kind)
            return {field.name: self.copied(getattr(value, field.name), depth) for field in fields}
        try:
            return msgspec.json.decode(msgspec.json.encode(value))  # types with a JSON form: dates, enums
        except (TypeError, ValueError, RecursionError, OverflowError):
            return self.copied(plain(value, self._as_text), depth)


MAX_VALUES = 20_000_000
"""Most values of a JSON text, at worst 2 GB in memory. A trace of 50,000 spans has about 5 million."""

_BEFORE_A_VALUE = b"[{,"
_AT_ONCE = 2**24

TOO_MANY_VALUES = f"holds more than {MAX_VALUES:,} values, the most that are read"


def holds_too_many_values(content: bytes) -> bool:
    """Whether a JSON text has more than ``MAX_VALUES`` brackets and commas, including those inside strings.

    Every value except the first follows one of them, so their number is an upper bound on the values.
    """
    if len(content) <= MAX_VALUES:
        return False
    view = memoryview(content)
    found = 0
    for start in range(0, len(content), _AT_ONCE):
        piece = bytes(view[start : start + _AT_ONCE])
        found += len(piece) - len(piece.translate(None, _BEFORE_A_VALUE))
    return found > MAX_VALUES


def batched(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield lists of ``size`` items; the last may be shorter (itertools.batched needs Python 3.12)."""
    chunk: list[T] = []
    for item in items:
        chunk.append(item)
        if len(chunk) == size:
            yield chunk
            chunk = []
    if chunk:
        yield chunk
