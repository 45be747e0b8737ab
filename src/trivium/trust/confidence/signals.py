"""Reads the signals of many items column by column, and checks their values."""

import reprlib
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
        self._rows, self._columns = rows, rows if isinstance(rows, SignalColumns) else SignalColumns(rows)
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
        values = self._columns.column(name)[self._at]
        for gap, default in ((values == _NULL, null), (np.isnan(values), absent)):
            if default is not None and (count := int(np.count_nonzero(gap))):
                values[gap] = default
                self.filled[name] = self.filled.get(name, 0) + count
        valid = np.isfinite(values) & (values >= low) & (values <= high)
        if whole:
            valid &= values == np.floor(values)

        def fault(at: int) -> str:
            value = self._rows[int(self._at[at])].get(name, ABSENT)
            return f'needs signal "{name}", which {_fault(value, low=low, high=high)}'

        self._raise_for(~valid, fault)
        return self._expand(values)

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
    number = _as_float(value)
    if not isfinite(number):
        return f"must be finite; found {number}"
    expected = "a whole number" if low <= number <= high else _range(low, high)
    return f"must be {expected}; found {value}"


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)


def _as_float(value: Any) -> float:
    """The number that a value is; infinite if it is too large or none."""
    try:
        return float(value) if _is_number(value) else inf
    except OverflowError:
        return inf


def _range(low: float, high: float) -> str:
    if high == inf:
        return f"at least {low:g}"
    return f"at most {high:g}" if low == -inf else f"between {low:g} and {high:g}"


ABSENT: Final = object()
"""What an item without a key has in its place."""

_NULL, _OTHER, _ABSENT = -inf, inf, nan
"""Marks in a column: for null, for what is no finite number, and for a key that an item lacks."""


class SignalColumns(Sequence[Row]):
    """The signals of n items, twelve bytes each that an item has; also a sequence of one mapping per item.

    Args:
        rows: The signals of the first items.
    """

    def __init__(self, rows: Iterable[Row] = ()) -> None:
        self._columns: dict[str, tuple[array[int], array[float]]] = {}
        """Of each signal, which items have it, and its value in each."""
        self._others: dict[tuple[str, int], Any] = {}
        self._size = 0
        for row in rows:
            self.append(row)

    def append(self, signals: Row) -> None:
        """Add the signals of the next item; a value that is not a number is stored for the error message."""
        for name, value in signals.items():
            number = value if type(value) is float else _NULL if value is None else _as_float(value)
            if value is not None and not isfinite(number):
                self._others[name, self._size], number = value, _OTHER
            if name not in self._columns:
                self._columns[name] = array("I"), array("d")
            items, numbers = self._columns[name]
            items.append(self._size)
            numbers.append(number)
        self._size += 1

    @property
    def names(self) -> tuple[str, ...]:
        """The signals that any item has."""
        return tuple(self._columns)

    def column(self, name: str) -> Floats:
        """One signal of every item: -inf for null, inf for what is no finite number, NaN for no key."""
        column = np.full(self._size, _ABSENT)
        if name in self._columns:
            items, numbers = self._columns[name]
            column[np.frombuffer(items, np.uintc)] = np.frombuffer(numbers, np.float64)
        return column

    def __len__(self) -> int:
        return self._size

    @overload
    def __getitem__(self, row: int) -> Row: ...
    @overload
    def __getitem__(self, row: slice) -> list[Row]: ...
    def __getitem__(self, row: int | slice) -> Row | list[Row]:
        places = range(self._size)[row]
        if isinstance(places, range):
            return [self[place] for place in places]
        found = {}
        for name, (items, numbers) in self._columns.items():
            at = bisect_left(items, places)
            if at < len(items) and items[at] == places:
                number = None if numbers[at] == _NULL else numbers[at]
                found[name] = self._others[name, places] if number == _OTHER else number
        return found

    def __iter__(self) -> Iterator[Row]:
        return (self[row] for row in range(self._size))
