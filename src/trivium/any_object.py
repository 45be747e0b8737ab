"""Writes any object as JSON.

User code can return any object, even one that claims another class, refers to itself, or raises in its
``repr``. :func:`encode` writes a bounded copy of it.
"""

import dataclasses
import datetime
import numbers
from decimal import Decimal
from typing import Any

import msgspec

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
