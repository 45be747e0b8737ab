"""Sequences of cases that know where each id stands."""

from array import array
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, Protocol, overload, runtime_checkable

from trivium.suites.case import Case


@runtime_checkable
class Cases(Protocol):
    """What a suite needs of its cases: those of a file are read as they are asked for."""

    @property
    def decoded(self) -> bool:
        """Whether all of them are as JSON had them, and nobody's code made one."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Case: ...

    def position(self, id: str) -> int | None:  # noqa: A002 - the word of the spec
        """Index of a case, or None."""


class CaseTuple(tuple[Case, ...]):
    """Cases in memory."""

    decoded = False

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {case.id: index for index, case in enumerate(self)}

    def position(self, id: str) -> int | None:  # noqa: A002
        """Index of a case, or None."""
        return self._positions.get(id)


class CaseView(Sequence[Case]):
    """Some of the cases of another sequence, in its order, without holding them.

    Args:
        base: The cases chosen from.
        positions: Indices into ``base``, rising.
    """

    def __init__(self, base: Any, positions: Iterable[int]) -> None:
        self._base = base
        self._positions = array("Q", positions)

    def __len__(self) -> int:
        return len(self._positions)

    @overload
    def __getitem__(self, index: int) -> Case: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Case]: ...
    def __getitem__(self, index: int | slice) -> Case | Sequence[Case]:
        if isinstance(index, slice):
            return CaseTuple(self._base[position] for position in self._positions[index])
        case: Case = self._base[self._positions[index]]
        return case

    @property
    def decoded(self) -> bool:
        """Whether all of them are as JSON had them."""
        decoded: bool = self._base.decoded
        return decoded

    def position(self, id: str) -> int | None:  # noqa: A002
        """Index of a case, or None."""
        from bisect import bisect_left

        wanted = self._base.position(id)
        if wanted is None:
            return None
        place = bisect_left(self._positions, wanted)
        return place if place < len(self) and self._positions[place] == wanted else None
