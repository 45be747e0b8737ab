"""Flat: many numbers in little memory, as they come."""

from array import array
from collections.abc import Iterable
from typing import Any, Generic, Literal, TypeVar

import numpy as np
import numpy.typing as npt

Number = TypeVar("Number", int, float)

_BLOCK = 4096
_KINDS = {"d": np.float64, "q": np.int64, "I": np.uint32}


class Flat(Generic[Number]):
    """Numbers in the order in which they came, in blocks that stay where they are.

    An array that grows is moved time and again, and many that grow beside one another leave holes behind.

    Args:
        kind: As in :mod:`array`: ``d`` (8 bytes), ``q`` (8) or ``I`` (4).
    """

    def __init__(self, kind: Literal["d", "q", "I"]) -> None:
        self._kind = kind
        self._blocks: list[array[Number]] = []
        self._latest: array[Number] = array(kind)
        self._in_blocks = 0

    def __len__(self) -> int:
        return self._in_blocks + len(self._latest)

    def extend(self, numbers: Iterable[Number]) -> None:
        """Add numbers at the end."""
        self._latest.extend(array(self._kind, numbers))
        if len(self._latest) >= _BLOCK:
            self._blocks.append(self._latest[:])  # which has no room to grow in
            self._in_blocks += len(self._latest)
            del self._latest[:]

    def all(self) -> npt.NDArray[Any]:
        """A copy of all of them, shape (n,)."""
        kind = _KINDS[self._kind]
        blocks: list[array[Any]] = [*self._blocks, self._latest]
        return np.concatenate(
            [np.frombuffer(block, kind) if block else np.empty(0, kind) for block in blocks]
        )


class Clusters(Flat[int]):
    """Codes of the clusters of cases."""

    def __init__(self) -> None:
        super().__init__("q")
        self._ranks = np.empty(0, np.int64)

    def ranks(self) -> npt.NDArray[np.int64]:
        """Rank of each code among them, shape (n,), from 0: equal where clusters are, and small."""
        if self._ranks.size != len(self):
            ranks = self.all()
            order = ranks.argsort()
            rising = ranks[order]
            rising[1:] = rising[1:] != rising[:-1]
            rising[0] = 0
            ranks[order] = rising.cumsum(out=rising)
            self._ranks = ranks
        return self._ranks
