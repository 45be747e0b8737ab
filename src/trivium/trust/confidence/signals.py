"""Reads the signals of many items column by column, and checks their values."""

import reprlib
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import inf, isfinite, nan
from typing import Any, Final, overload

import numpy as np
import numpy.typing as npt

from trivium.errors import Problem, TrustError
from trivium.trust.arrays import Floats

Row = Mapping[str, Any]

FAULTS_LISTED = 10
"""Faults listed in an error; the others are counted."""


class Signals:
    """The signals of many items, as input of a confidence function.

    Definition: docs/definitions/selective.md#confidence.

    Args:
        rows: One mapping of signal names to values per item, n of them.
        requested_by: What reads the signals, for errors, such as ``confidence "token_msp"``.
        groups: The group of each item, for errors.
        items: The name of each item, for errors.
        used: Which items are used, shape (n,), bool; all by default. An abstained item needs no signals.

    Attributes:
        filled: How often a null or absent signal was replaced by its documented default, by name.
    """

    def __init__(
        self,
        rows: Sequence[Row],
        *,
        requested_by: str,
        groups: Sequence[object] | None = None,
        items: Sequence[object] | None = None,
        used: npt.ArrayLike | None = None,
    ) -> None:
        self._size = len(rows)
        for name, given in (("groups", groups), ("items", items)):
            if given is not None and len(given) != self._size:
                raise ValueError(f"{name} must have one entry an item: {self._size}, found {len(given)}")
        mask = np.ones(self._size, dtype=bool) if used is None else np.asarray(used, dtype=bool)
        if mask.shape != (self._size,):
            raise ValueError(f"used must have shape ({self._size},), found {mask.shape}")
        self._at = np.flatnonzero(mask)
        self._rows = rows
        self._requested_by, self._groups, self._items = requested_by, groups, items
        self.filled: dict[str, int] = {}

    def __len__(self) -> int:
        return self._size

    @property
    def used_count(self) -> int:
        """Number of used items."""
        return self._at.size

    def number(
        self,
        name: str,
        *,
        null: float | None = None,
        absent: float | None = None,
        low: float = -inf,
        high: float = inf,
        whole: bool = False,
    ) -> Floats:
        """One signal of every item.

        Args:
            name: Name of the signal.
            null: Replacement of null; None makes null an error.
            absent: Replacement of a missing key; None makes it an error.
            low: Smallest valid value.
            high: Largest valid value.
            whole: Whether only whole numbers are valid.

        Returns:
            Shape (n,), finite; NaN for unused items.

        Raises:
            TrustError: If a value is not such a number. Text and booleans are never numbers here.
        """
        values, kinds = self._column(name)
        for gap, default in ((_NULL, null), (_ABSENT, absent)):
            if default is not None and (count := int(np.count_nonzero(kinds == gap))):
                values[kinds == gap], kinds[kinds == gap] = default, _NUMBER
                self.filled[name] = self.filled.get(name, 0) + count
        valid = (kinds == _NUMBER) & np.isfinite(values) & (values >= low) & (values <= high)
        if whole:
            valid &= values == np.floor(values)

        def fault(at: int) -> str:
            value = self._rows[int(self._at[at])].get(name, ABSENT)
            return f'needs signal "{name}", which {_fault(value, low=low, high=high)}'

        self._raise_for(~valid, fault)
        return self._expand(values)

    def _column(self, name: str) -> "tuple[Floats, npt.NDArray[np.uint8]]":
        """One signal of the used items; see :meth:`_Column.read`."""
        if isinstance(self._rows, SignalColumns):
            return self._rows.column(name, self._at)
        column = _Column()
        for at in self._at.tolist():
            column.append(self._rows[at].get(name, ABSENT))
        return column.read(np.arange(self._at.size))

    def finite(self, values: npt.ArrayLike) -> Floats:
        """Check the result of a confidence function: one finite number per used item.

        Raises:
            TrustError: If a number is not finite, or their count is wrong.
        """
        given = np.asarray(values, dtype=np.float64)
        if given.shape != (self._size,):
            raise TrustError(f"{self._requested_by} gave shape {given.shape}; expected ({self._size},)")
        selected = given[self._at]
        self._raise_for(~np.isfinite(selected), lambda at: f"is {selected[at]}, which cannot be ranked")
        return self._expand(selected)

    def _raise_for(self, wrong: npt.NDArray[np.bool_], fault: Callable[[int], str]) -> None:
        """Raise TrustError if any of the used items is wrong; ``fault`` says how, given its place."""
        places = np.flatnonzero(wrong)
        if places.size:
            problems = [
                Problem(self._where(int(self._at[at])), f"{self._requested_by} {fault(int(at))}")
                for at in places[:FAULTS_LISTED]
            ]
            raise TrustError(problems, left_out=places.size - len(problems))

    def _expand(self, values: Floats) -> Floats:
        if self._at.size == self._size:
            return values
        expanded = np.full(self._size, np.nan)
        expanded[self._at] = values
        return expanded

    def _where(self, at: int) -> str:
        item = f'item "{self._items[at]}"' if self._items is not None else f"items[{at}]"
        return item if self._groups is None else f'group "{self._groups[at]}", {item}'


def _fault(value: Any, *, low: float, high: float) -> str:
    """Describe what is wrong with a value."""
    if value is ABSENT:
        return "is missing"
    if value is None:
        return "is null"
    if not _is_number(value):
        return f"must be a number; found {reprlib.repr(value)}"
    try:
        number = float(value)
    except OverflowError:
        number = inf
    if not isfinite(number):
        return f"must be finite; found {number}"
    expected = "a whole number" if low <= number <= high else _range(low, high)
    return f"must be {expected}; found {value}"


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)


def _range(low: float, high: float) -> str:
    if high == inf:
        return f"at least {low:g}"
    return f"at most {high:g}" if low == -inf else f"between {low:g} and {high:g}"


ABSENT: Final = object()
"""Placeholder in a column for an item without this key."""

_NUMBER, _ABSENT, _NULL, _OTHER = range(4)


def _kind_and_number(value: Any) -> tuple[int, float]:
    """The kind of a value, and the number that it is; NaN for any other value."""
    if value is None or value is ABSENT:
        return (_NULL if value is None else _ABSENT), nan
    try:
        return (_NUMBER, float(value)) if _is_number(value) else (_OTHER, nan)
    except OverflowError:
        return _OTHER, nan


class _Column:
    """One signal: eight bytes per item for the value, and one for its type."""

    def __init__(self) -> None:
        self.numbers = array("d")
        self.kinds = bytearray()
        self.others: dict[int, Any] = {}

    def fill(self, size: int) -> None:
        """Mark the items up to ``size`` as lacking the key."""
        missing = size - len(self.kinds)
        if missing > 0:
            self.numbers.extend([nan] * missing)
            self.kinds.extend([_ABSENT] * missing)

    def append(self, value: Any) -> None:
        """Add the value of the next item."""
        kind, number = (_NUMBER, value) if type(value) is float else _kind_and_number(value)
        if kind == _OTHER:
            self.others[len(self.kinds)] = value
        self.numbers.append(number)
        self.kinds.append(kind)

    def read(self, rows: npt.NDArray[np.int64]) -> "tuple[Floats, npt.NDArray[np.uint8]]":
        """The numbers of some items, NaN where there is none, and the kinds of their values."""
        return np.frombuffer(self.numbers, np.float64)[rows], np.frombuffer(self.kinds, np.uint8)[rows]

    def at(self, row: int) -> Any:
        """The value of one item."""
        if row >= len(self.kinds):
            return ABSENT
        return {_NUMBER: self.numbers[row], _ABSENT: ABSENT, _NULL: None}.get(
            self.kinds[row], self.others.get(row)
        )


class SignalColumns(Sequence[Mapping[str, Any]]):
    """The signals of n items, one column per signal; also a sequence of one mapping per item."""

    def __init__(self) -> None:
        self._columns: dict[str, _Column] = {}
        self._size = 0

    def append(self, signals: Mapping[str, Any]) -> None:
        """Add the signals of the next item; a value that is not a number is stored for the error message."""
        for name, value in signals.items():
            column = self._columns.get(name)
            if column is None:
                column = self._columns[name] = _Column()
            column.fill(self._size)
            column.append(value)
        self._size += 1

    @property
    def names(self) -> tuple[str, ...]:
        """The signals that any item has."""
        return tuple(self._columns)

    def column(self, name: str, rows: npt.NDArray[np.int64]) -> "tuple[Floats, npt.NDArray[np.uint8]]":
        """One signal of some items; see :meth:`_Column.read`."""
        column = self._columns.get(name) or _Column()
        column.fill(self._size)
        return column.read(rows)

    def __len__(self) -> int:
        return self._size

    @overload
    def __getitem__(self, row: int) -> Mapping[str, Any]: ...
    @overload
    def __getitem__(self, row: slice) -> list[Mapping[str, Any]]: ...
    def __getitem__(self, row: int | slice) -> Mapping[str, Any] | list[Mapping[str, Any]]:
        if isinstance(row, slice):
            return [self[place] for place in range(self._size)[row]]
        values = {name: column.at(row) for name, column in self._columns.items()}
        return {name: value for name, value in values.items() if value is not ABSENT}

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        return (self[row] for row in range(self._size))
