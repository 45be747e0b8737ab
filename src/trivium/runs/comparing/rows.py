"""Numbers the cases of compared runs, and finds the rows of their attempts, in a few bytes an attempt."""

from array import array
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from functools import cached_property

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

WHOLE = -1
"""Repeat that stands for a case as a whole."""

ABSENT = -1
"""Row of an attempt that a run lacks."""

_REPEAT_BITS = 32


class CaseNumbers:
    """Numbers the cases of compared runs from 0, in the order in which they are met.

    A case and a repeat together have a code: the number of the case in the upper 32 bits, the repeat plus one
    in the lower.
    """

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self.names: list[str] = []
        """Id of each case, by number."""

    def number(self, case: str) -> int:
        """Return the number of a case, a new one if it has none yet."""
        number = self._numbers.setdefault(case, len(self.names))
        if number == len(self.names):
            self.names.append(case)
        return number

    def known(self, case: str) -> int | None:
        """Return the number of a case; None if it has none."""
        return self._numbers.get(case)

    def code(self, case: str, repeat: int) -> int:
        """Return the code of a case and a repeat."""
        return code_of(self.number(case), repeat)

    def key(self, code: int) -> tuple[str, int]:
        """Return the case and the repeat with this code."""
        return self.names[code >> _REPEAT_BITS], (code & ((1 << _REPEAT_BITS) - 1)) - 1


def code_of(number: int, repeat: int) -> int:
    """The code of the case with a number and a repeat."""
    return number << _REPEAT_BITS | repeat + 1


def numbers_of(codes: Ints) -> Ints:
    """The number of the case of each code, shape (n,)."""
    return codes >> _REPEAT_BITS


def repeats_of(codes: Ints) -> Ints:
    """The repeat of each code, shape (n,)."""
    return (codes & ((1 << _REPEAT_BITS) - 1)) - 1


class Places:
    """Finds the places of distinct numbers in an array.

    Args:
        numbers: The numbers, in any order.
    """

    def __init__(self, numbers: "array[int]") -> None:
        self.numbers: Ints = np.asarray(numbers, np.int64)

    @cached_property
    def _order(self) -> Ints:
        return np.argsort(self.numbers, kind="stable")

    def find(self, wanted: Ints) -> Ints:
        """Return the place of each wanted number, ``ABSENT`` if it is not there; shape (n,)."""
        if not self.numbers.size:
            return np.full(wanted.size, ABSENT, np.int64)
        at = np.searchsorted(self.numbers, wanted, sorter=self._order)
        found = self._order[np.minimum(at, self.numbers.size - 1)]
        found[self.numbers[found] != wanted] = ABSENT
        return found

    def find_one(self, wanted: int) -> int:
        """Return the place of a number, ``ABSENT`` if it is not there."""
        at = bisect_left(self._order, wanted, key=self.numbers.__getitem__)
        place = int(self._order[at]) if at < self.numbers.size else ABSENT
        return place if place != ABSENT and self.numbers[place] == wanted else ABSENT


class Rows(Mapping[tuple[str, int], int]):
    """The row of each attempt of a run, by case and repeat.

    Args:
        cases: Numbers of the cases, shared by the compared runs.
        codes: Code of each row, distinct.
    """

    def __init__(self, cases: CaseNumbers, codes: "array[int]") -> None:
        self._cases, self._places = cases, Places(codes)

    @property
    def codes(self) -> Ints:
        """Code of each row, shape (n,)."""
        return self._places.numbers

    def find(self, codes: Ints) -> Ints:
        """Return the row of each code, ``ABSENT`` where there is none; shape (n,)."""
        return self._places.find(codes)

    def lacking(self, other: "Rows") -> Ints:
        """Return the codes that another run does not have, in the order of the rows."""
        alone: Ints = self.codes[other.find(self.codes) == ABSENT]
        return alone

    def __len__(self) -> int:
        return int(self.codes.size)

    def __iter__(self) -> Iterator[tuple[str, int]]:
        return (self._cases.key(int(code)) for code in self.codes)

    def __getitem__(self, key: tuple[str, int]) -> int:
        known = self._cases.known(key[0]) is not None
        row = self._places.find_one(self._cases.code(*key)) if known else ABSENT
        if row == ABSENT:
            raise KeyError(key)
        return row


class CasePositions:
    """The cases that a run has attempts of, with their positions in its suite.

    Args:
        cases: Numbers of the cases, shared by the compared runs.
    """

    def __init__(self, cases: CaseNumbers) -> None:
        self._cases = cases
        self._positions, self._numbers = array("q"), array("q")

    def add(self, position: int, case: str) -> int:
        """Add the case at a position, and return its number; positions must not fall."""
        number = self._cases.number(case)
        if not self._positions or self._positions[-1] != position:
            self._positions.append(position)
            self._numbers.append(number)
        return number

    @cached_property
    def _places(self) -> Places:
        return Places(self._numbers)

    @property
    def numbers(self) -> Ints:
        """Numbers of the cases, in suite order; shape (n,)."""
        return self._places.numbers

    def at(self, position: int) -> str | None:
        """Return the case at a position; None if there is none with an attempt."""
        place = bisect_left(self._positions, position)
        there = place < len(self._positions) and self._positions[place] == position
        return self._cases.names[self._numbers[place]] if there else None

    def of(self, case: str) -> int:
        """Return the position of a case that has an attempt."""
        return self._positions[self._places.find_one(self._cases.number(case))]

    def lacking(self, other: "CasePositions") -> list[str]:
        """Return the cases that another run has no attempt of, in suite order."""
        alone = self.numbers[other._places.find(self.numbers) == ABSENT]  # noqa: SLF001 - of the same class
        return [self._cases.names[number] for number in alone]

    def __len__(self) -> int:
        return len(self._positions)

    def __iter__(self) -> Iterator[str]:
        return (self._cases.names[number] for number in self._numbers)
