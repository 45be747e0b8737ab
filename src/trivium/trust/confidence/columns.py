"""Signals of very many items, kept a column each instead of a mapping each."""

from array import array
from collections.abc import Iterator, Mapping, Sequence
from math import nan
from typing import Any, Final, overload

import numpy as np
import numpy.typing as npt

ABSENT: Final = object()
"""Stands in a column where an item has no such key."""

_NUMBER, _ABSENT, _NULL, _OTHER = range(4)


class _Column:
    """One signal: eight bytes an item and one that says what they mean."""

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
        """Add the signals of the next item; what is no number is kept only to be refused in words."""
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
