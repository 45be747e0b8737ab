"""Reads the signals of many items column by column, and checks their values."""

import reprlib
from array import array
from collections.abc import Iterator, Mapping, Sequence
from math import inf, isfinite, nan
from typing import Any, Final, overload

import numpy as np
import numpy.typing as npt

from trivium.errors import Problem, TrustError

Floats = npt.NDArray[np.float64]
Row = Mapping[str, Any]

FAULTS_LISTED = 10
"""Faults that an error lists; the others are counted."""


class Signals:
    """The signals of many items, as a confidence function sees them.

    Args:
        rows: One mapping of signal names to values an item, n of them.
        wanted_by: Who asks, for errors, such as ``confidence "token_msp"``.
        groups: The group of each item, for errors.
        items: The name of each item, for errors.
        used: Which items matter, shape (n,), bool; all by default. An abstained one need not have signals.

    Attributes:
        filled: How often a signal that was null or absent was replaced by its documented default, by name.
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
        self._columns = rows if isinstance(rows, SignalColumns) else None
        by_row = used is None or self._columns is not None
        self._rows = rows if by_row else [rows[int(at)] for at in self._at]
        self._requested_by, self._groups, self._items = requested_by, groups, items
        self.filled: dict[str, int] = {}

    def __len__(self) -> int:
        return self._size

    @property
    def used_count(self) -> int:
        """Items that matter."""
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
        """A signal of every item.

        Args:
            name: Of the signal.
            null: What null counts as; None makes it an error.
            absent: What a missing key counts as; None makes it an error.
            low: Smallest value that makes sense.
            high: Largest value that makes sense.
            whole: Whether only whole numbers make sense.

        Returns:
            Shape (n,), finite; NaN for items that do not matter.

        Raises:
            TrustError: If a value is no such number. Text and booleans are never numbers here.
        """
        if self._columns is None:
            column = [row.get(name, ABSENT) for row in self._rows]
        else:
            column = self._columns.column(name, self._at)
        for gap, default in ((None, null), (ABSENT, absent)):
            if default is not None and (count := sum(value is gap for value in column)):
                column = [default if value is gap else value for value in column]
                self.filled[name] = self.filled.get(name, 0) + count
        values = _numbers_only(column)
        if values is None or not _all_valid(values, low=low, high=high, whole=whole):
            faults = [
                (at, fault)
                for at, value in enumerate(column)
                if (fault := _fault(value, low=low, high=high, whole=whole))
            ]
            self.raise_for([(at, f'needs signal "{name}", which {fault}') for at, fault in faults])
        return self._expand(np.asarray(values, dtype=np.float64))

    def finite(self, values: npt.ArrayLike) -> Floats:
        """Confidences that a function gave, checked: one finite number for each item that matters.

        Raises:
            TrustError: If one is not finite, or their number is wrong.
        """
        given = np.asarray(values, dtype=np.float64)
        if given.shape != (self._size,):
            raise TrustError(f"{self._requested_by} gave shape {given.shape}; expected ({self._size},)")
        selected = given[self._at]
        wrong = np.flatnonzero(~np.isfinite(selected))
        self.raise_for([(int(at), f"is {selected[at]}, which cannot be ranked") for at in wrong])
        return self._expand(selected)

    def raise_for(self, faults: Sequence[tuple[int, str]]) -> None:
        """Raise for the items at fault, if there are any; places count the items that matter."""
        if faults:
            problems = [
                Problem(self._where(int(self._at[at])), f"{self._requested_by} {fault}")
                for at, fault in faults[:FAULTS_LISTED]
            ]
            raise TrustError(problems, left_out=len(faults) - len(problems))

    def _expand(self, values: Floats) -> Floats:
        if self._at.size == self._size:
            return values
        expanded = np.full(self._size, np.nan)
        expanded[self._at] = values
        return expanded

    def _where(self, at: int) -> str:
        item = f'item "{self._items[at]}"' if self._items is not None else f"items[{at}]"
        return item if self._groups is None else f'group "{self._groups[at]}", {item}'


def _numbers_only(column: list[Any]) -> Floats | None:
    """The column as an array; None if there is anything in it but numbers."""
    kinds = set(map(type, column))
    if not all(issubclass(kind, (int, float, np.integer, np.floating)) for kind in kinds) or bool in kinds:
        return None
    try:
        return np.array(column, dtype=np.float64)
    except OverflowError:
        return None


def _all_valid(values: Floats, *, low: float, high: float, whole: bool) -> bool:
    fine = np.isfinite(values) & (values >= low) & (values <= high)
    return bool(fine.all()) and not (whole and (values != np.floor(values)).any())


def _fault(value: Any, *, low: float, high: float, whole: bool) -> str | None:
    """What is wrong with one value, or None."""
    if value is ABSENT:
        return "is missing"
    if value is None:
        return "is null"
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, float, np.integer, np.floating)):
        return f"must be a number; found {reprlib.repr(value)}"
    try:
        number = float(value)
    except OverflowError:
        number = inf
    if not isfinite(number):
        return f"must be finite; found {number}"
    if not low <= number <= high:
        return f"must be {_range(low, high)}; found {value}"
    if whole and number != int(number):
        return f"must be a whole number; found {value}"
    return None


def _range(low: float, high: float) -> str:
    if high == inf:
        return f"at least {low:g}"
    return f"at most {high:g}" if low == -inf else f"between {low:g} and {high:g}"


ABSENT: Final = object()
"""Stands in a column where an item has no such key."""

_NUMBER, _ABSENT, _NULL, _OTHER = range(4)


class _Column:
    """One signal: eight bytes an item, and one byte with their type."""

    def __init__(self) -> None:
        self.numbers = array("d")
        self.kinds = bytearray()
        self.others: dict[int, Any] = {}

    def fill(self, size: int) -> None:
        """Say that the items up to ``size`` have no such key."""
        lacking = size - len(self.kinds)
        if lacking > 0:
            self.numbers.extend([nan] * lacking)
            self.kinds.extend([_ABSENT] * lacking)

    def append(self, value: Any) -> None:
        """Add the value of the next item."""
        kind, number = _NULL if value is None else _OTHER, nan
        if type(value) in {int, float}:
            try:
                kind, number = _NUMBER, float(value)
            except OverflowError:
                kind = _OTHER
        if kind == _OTHER:
            self.others[len(self.kinds)] = value
        self.numbers.append(number)
        self.kinds.append(kind)

    def at(self, row: int) -> Any:
        """The value of one item."""
        if row >= len(self.kinds):
            return ABSENT
        return {_NUMBER: self.numbers[row], _ABSENT: ABSENT, _NULL: None}.get(
            self.kinds[row], self.others.get(row)
        )


class SignalColumns(Sequence[Mapping[str, Any]]):
    """The signals of n items, one column a signal; also a sequence of one mapping an item."""

    def __init__(self) -> None:
        self._columns: dict[str, _Column] = {}
        self._size = 0

    def append(self, signals: Mapping[str, Any]) -> None:
        """Add the signals of the next item; what is no number is stored for the message that refuses it."""
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

    def column(self, name: str, rows: npt.NDArray[np.int64]) -> list[Any]:
        """A signal of some items; ``ABSENT`` where one has no such key."""
        column = self._columns.get(name)
        if column is None:
            return [ABSENT] * rows.size
        column.fill(self._size)
        kinds = np.frombuffer(column.kinds, np.uint8)[rows]
        found: list[Any] = np.frombuffer(column.numbers, np.float64)[rows].tolist()
        for place in np.flatnonzero(kinds != _NUMBER).tolist():
            found[place] = column.at(int(rows[place]))
        return found

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
