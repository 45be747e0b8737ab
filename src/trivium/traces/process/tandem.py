"""Repetitions: the stretches of a sequence that are the same piece over and over."""

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from itertools import groupby

import msgspec
import numpy as np
import numpy.typing as npt

FEWEST_ROUNDS = 3
SHORT = 64
"""Elements up to which trying every period takes less time than starting NumPy."""

Ints = npt.NDArray[np.int64]


class Repetition(msgspec.Struct, frozen=True, kw_only=True):
    """A maximal repetition: every element equals the one ``period`` before it, and none at either side does.

    Attributes:
        start: Place of its first element.
        end: Place after its last.
        period: The smallest; ``end - start`` is at least three times as much.
    """

    start: int
    end: int
    period: int

    @property
    def rounds(self) -> int:
        """Complete rounds."""
        return (self.end - self.start) // self.period


def repetitions(sequence: Sequence[Hashable]) -> tuple[Repetition, ...]:
    """The maximal repetitions of at least three rounds, by start and period; fewer than there are elements.

    The runs of Bannai, I, Inenaga, Nakashima, Takeda and Tsuruta, "The 'runs' theorem", SIAM J. Comput. 46
    (2017): each has a root that is the longest Lyndon word at its place, by one of two orders of the
    elements; there are two candidates a place, each extended as far as it goes. With suffixes sorted by
    prefix doubling that takes O(n log n) steps of NumPy. Exact: nothing is hashed. In a short sequence every
    period is tried, which is faster there.
    """
    found = set()
    for offset, piece in _pieces(sequence):
        names = {name: code for code, name in enumerate(dict.fromkeys(piece))}
        codes = [names[name] for name in piece]
        runs = _tried(codes) if len(codes) <= SHORT else _runs(np.array(codes, np.int64))
        found |= {(offset + start, offset + end, period) for start, end, period in runs}
    return tuple(Repetition(start=start, end=end, period=period) for start, end, period in sorted(found))


def _pieces(sequence: Sequence[Hashable]) -> Iterator[tuple[int, list[Hashable]]]:
    """Stretches of elements that occur three times or more: no other element is part of a repetition."""
    count = Counter(sequence)
    for often, members in groupby(enumerate(sequence), lambda pair: count[pair[1]] >= FEWEST_ROUNDS):
        if often:
            stretch = list(members)
            if len(stretch) >= FEWEST_ROUNDS:
                yield stretch[0][0], [element for _, element in stretch]


def _tried(codes: list[int]) -> set[tuple[int, int, int]]:
    """Every period in turn: where is each element the one before it again, often enough?"""
    found: dict[tuple[int, int], int] = {}
    for period in range(1, len(codes) // FEWEST_ROUNDS + 1):
        same = 0
        for place in range(period, len(codes) + 1):
            if place < len(codes) and codes[place] == codes[place - period]:
                same += 1
                continue
            if same >= (FEWEST_ROUNDS - 1) * period:
                # What has a smaller period too has the same ends with it, and was found with it.
                found.setdefault((place - period - same, place), period)
            same = 0
    return {(start, end, period) for (start, end), period in found.items()}


def _runs(codes: Ints) -> set[tuple[int, int, int]]:
    size = len(codes)
    forward, backward = _Ranks(codes), _Ranks(codes[::-1])
    starts, ends = [], []
    for order in (forward.last, _Ranks(-codes).last):
        smaller = _next_smaller(order)
        starts.append(np.arange(size))
        ends.append(smaller)
    begin, after = np.concatenate(starts), np.concatenate(ends)
    right = after + forward.common(begin, after)
    left = begin - backward.common(size - begin, size - after)
    period = after - begin
    long = right - left >= FEWEST_ROUNDS * period
    return set(zip(left[long].tolist(), right[long].tolist(), period[long].tolist(), strict=True))


class _Ranks:
    """Ranks of all pieces of length 1, 2, 4, … of a sequence; equal pieces have equal ranks."""

    def __init__(self, codes: Ints) -> None:
        self._size = size = len(codes)
        self._ladder = [np.unique(codes, return_inverse=True)[1]]
        width = 1
        while width < size and self._ladder[-1].max() < size - 1:  # all different: longer ones are too
            rank = self._ladder[-1]
            then = np.zeros(size, np.int64)  # what lies past the end is smaller than anything
            then[:-width] = rank[width:] + 1
            self._ladder.append(np.unique(rank * (size + 1) + then, return_inverse=True)[1])
            width *= 2

    @property
    def last(self) -> Ints:
        """Rank of every suffix."""
        return self._ladder[-1]

    def common(self, one: Ints, other: Ints) -> Ints:
        """Length of the longest common beginning of the suffixes at the given places."""
        one, other = one.copy(), other.copy()
        start = one.copy()
        for step in range(len(self._ladder) - 1, -1, -1):
            width, rank = 1 << step, self._ladder[step]
            fits = np.maximum(one, other) + width <= self._size
            same = np.zeros(len(one), np.bool_)
            same[fits] = rank[one[fits]] == rank[other[fits]]
            one[same] += width
            other[same] += width
        return one - start


def _next_smaller(ranks: Ints) -> Ints:
    """For each place the next one whose rank is smaller, or the end."""
    listed: list[int] = ranks.tolist()
    found = [len(listed)] * len(listed)
    open_: list[int] = []
    for place, rank in enumerate(listed):
        while open_ and listed[open_[-1]] > rank:
            found[open_.pop()] = place
        open_.append(place)
    return np.array(found, np.int64)
