"""Reads JSON values of unknown type, writes JSON, and limits the number of values in a JSON text.

Files of other tools may hold any value: :func:`number`, :func:`count`, :func:`dict_` and the like return a
value of their type, or else None or an empty one. They take any JSON value, and its Python equivalents.
"""

from collections.abc import Callable, Iterable, Iterator
from heapq import heappush, heapreplace, nlargest
from operator import itemgetter
from typing import Any, Generic, TypeGuard, TypeVar

import msgspec

JsonObject = dict[str, Any]
"""A JSON object of a foreign format, or with user-defined keys: the types of its values are unknown."""

R = TypeVar("R")
S = TypeVar("S", bound=msgspec.Struct)
T = TypeVar("T")


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
        TypeError: If it holds another type of value; see :mod:`trivium.any_object`.
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


def resolved(record: type[R]) -> type[R]:
    """Make msgspec resolve the field types of a record now, during the import of its module.

    Otherwise msgspec resolves them when it first converts a value to the record, and the process crashes if a
    second thread converts one at the same time (msgspec 0.22).
    """
    msgspec.json.Decoder(record)
    return record


MAX_VALUES = 20_000_000
"""Most values of a JSON text, at worst 2 GB in memory. A trace of 50,000 spans has about 5 million."""

_BEFORE_A_VALUE = b"[{,"
_AT_ONCE = 2**24

TOO_MANY_VALUES = f"holds more than {MAX_VALUES:,} values, the most that are read"


def record_of(kind: type[S], source: object, /, **others: Any) -> S:
    """Return a record of a kind with the attributes of an object.

    Args:
        kind: The kind.
        source: The object.
        **others: The fields that the object does not have, or that are something else there.
    """
    names = [name for name in kind.__struct_fields__ if name not in others]
    return kind(**others, **{name: getattr(source, name) for name in names})


def counted(number: int, singular: str, plural: str | None = None) -> str:
    """``1 trace``, ``1,200 traces``."""
    return f"{number:,} {singular if number == 1 else plural or singular + 's'}"


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


class Largest(Generic[T]):
    """The items with the largest keys among any number; of equal ones the first.

    Args:
        most: How many are kept.

    Attributes:
        seen: How many there were.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: list[tuple[Any, int, T]] = []
        self.seen = 0

    def add(self, key: Any, make: Callable[[], T]) -> None:
        """Add an item, which is made only if it is kept."""
        self.seen += 1
        if len(self._kept) < self._most:
            heappush(self._kept, (key, -self.seen, make()))
        elif self._kept and (key, -self.seen) > self._kept[0][:2]:
            heapreplace(self._kept, (key, -self.seen, make()))

    def merge(self, later: "Largest[T]") -> None:
        """Add the items of another, which come after these."""
        more = ((key, number - self.seen, item) for key, number, item in later._kept)  # noqa: SLF001
        self._kept = nlargest(self._most, [*self._kept, *more], key=itemgetter(0, 1))[::-1]
        self.seen += later.seen

    def items(self) -> tuple[T, ...]:
        """The items kept, the largest first."""
        return tuple(item for *_, item in nlargest(self._most, self._kept, key=itemgetter(0, 1)))
