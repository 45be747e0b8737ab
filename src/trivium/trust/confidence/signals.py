"""Reads the signals of many items column by column, and checks their values."""

import reprlib
from array import array
from collections.abc import Iterator, Mapping, Sequence
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
        self._columns = rows if isinstance(rows, SignalColumns) else None
        by_row = used is None or self._columns is not None
        self._rows = rows if by_row else [rows[int(at)] for at in self._at]
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
        """Check the result of a confidence function: one finite number per used item.

        Raises:
            TrustError: If a number is not finite, or their count is wrong.
        """
        given = np.asarray(values, dtype=np.float64)
        if given.shape != (self._size,):
            raise TrustError(f"{self._requested_by} gave shape {given.shape}; expected ({self._size},)")
        selected = given[self._at]
        wrong = np.flatnonzero(~np.isfinite(selected))
        self.raise_for([(int(at), f"is {selected[at]}, which cannot be ranked") for at in wrong])
        return self._expand(selected)

    def raise_for(self, faults: Sequence[tuple[int, str]]) -> None:
        """Raise TrustError if there are faults, each with an index among the used items."""
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
    """The column as an array; None if it holds anything but numbers."""
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
    """Describe what is wrong with a value, or return None."""
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
"""Placeholder in a column for an item without this key."""

_NUMBER, _ABSENT, _NULL, _OTHER = range(4)


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

    def column(self, name: str, rows: npt.NDArray[np.int64]) -> list[Any]:
        """One signal of some items; ``ABSENT`` for items without the key."""
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
