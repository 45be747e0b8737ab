"""Finds loops of tool calls and of hand-offs, and calls that repeat an earlier one.

A loop is a tandem repeat in a sequence; :func:`repetitions` finds them.
"""

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from itertools import groupby
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from trivium.traces.trace import Span, canonical


class Loop(msgspec.Struct, frozen=True, kw_only=True):
    """A loop of tool calls.

    Attributes:
        agent: Who went round in it.
        tools: Of one round, in order.
        rounds: Complete ones, at least 3.
        calls: Places among the calls of all that lie in the loop, the beginning of a further round included.
    """

    agent: str | None
    tools: tuple[str, ...]
    rounds: int
    calls: tuple[int, ...]

    @property
    def again(self) -> tuple[int, ...]:
        """Indices of the calls after the first round."""
        return self.calls[len(self.tools) :]


def call_loops(calls: Sequence[Span]) -> tuple[Loop, ...]:
    """Loops of tool calls: the same calls with the same arguments, in the same order, three times or more.

    Looked for in the calls of each agent by itself, so that agents that work side by side do not hide each
    other's. A loop is as long as can be, its round as short as can be; a loop may lie within a round of
    another. The longest comes first.

    Args:
        calls: In order (``Trace.tool_calls``).
    """
    positions: dict[str | None, list[int]] = {}
    symbols: dict[str | None, list[Hashable]] = {}
    for position, (call, symbol) in enumerate(zip(calls, call_symbols(calls), strict=True)):
        positions.setdefault(call.agent, []).append(position)
        symbols.setdefault(call.agent, []).append(symbol)
    loops = []
    for agent, own_positions in positions.items():
        for repetition in repetitions(symbols[agent]):
            inside = own_positions[repetition.start : repetition.end]
            loops.append(
                Loop(
                    agent=agent,
                    tools=tuple([calls[position].name for position in inside[: repetition.period]]),
                    rounds=repetition.rounds,
                    calls=tuple(inside),
                )
            )
    return tuple(sorted(loops, key=lambda loop: (-len(loop.calls), loop.calls)))


def looped_calls(loops: Sequence[Loop]) -> frozenset[int]:
    """Indices of the repeated calls: those after the first round of any loop."""
    return frozenset(position for loop in loops for position in loop.again)


class HandOffLoop(msgspec.Struct, frozen=True, kw_only=True):
    """A loop of hand-offs: work that went round the same agents.

    Attributes:
        agents: Of one round, in order.
        rounds: Complete ones, at least 3.
    """

    agents: tuple[str, ...]
    rounds: int


def hand_off_loops(chain: Sequence[str]) -> tuple[HandOffLoop, ...]:
    """Loops of the agents along a chain of hand-offs, the longest first.

    Args:
        chain: Such as ``HandOffs.longest``.
    """
    repeats = sorted(repetitions(chain), key=lambda one: (one.start - one.end, one.start))
    return tuple(
        HandOffLoop(agents=tuple(chain[one.start : one.start + one.period]), rounds=one.rounds)
        for one in repeats
    )


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
    maximal = set()
    for offset, piece in _pieces(sequence):
        names = {name: code for code, name in enumerate(dict.fromkeys(piece))}
        codes = [names[name] for name in piece]
        runs = _runs_by_trial(codes) if len(codes) <= SHORT else _runs(np.array(codes, np.int64))
        maximal |= {(offset + start, offset + end, period) for start, end, period in runs}
    return tuple(Repetition(start=start, end=end, period=period) for start, end, period in sorted(maximal))


def _pieces(sequence: Sequence[Hashable]) -> Iterator[tuple[int, list[Hashable]]]:
    """Stretches of elements that occur three times or more: no other element is part of a repetition."""
    count = Counter(sequence)
    for often, members in groupby(enumerate(sequence), lambda pair: count[pair[1]] >= FEWEST_ROUNDS):
        if often:
            stretch = list(members)
            if len(stretch) >= FEWEST_ROUNDS:
                yield stretch[0][0], [element for _, element in stretch]


def _runs_by_trial(codes: list[int]) -> set[tuple[int, int, int]]:
    """Find repetitions by trying every period."""
    periods: dict[tuple[int, int], int] = {}
    for period in range(1, len(codes) // FEWEST_ROUNDS + 1):
        same = 0
        for position in range(period, len(codes) + 1):
            if position < len(codes) and codes[position] == codes[position - period]:
                same += 1
                continue
            if same >= (FEWEST_ROUNDS - 1) * period:
                # What has a smaller period too has the same ends with it, and was found with it.
                periods.setdefault((position - period - same, position), period)
            same = 0
    return {(start, end, period) for (start, end), period in periods.items()}


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
    """Ranks of all substrings of length 1, 2, 4, … (prefix doubling); equal substrings have equal ranks."""

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
    following = [len(listed)] * len(listed)
    pending: list[int] = []
    for position, rank in enumerate(listed):
        while pending and listed[pending[-1]] > rank:
            following[pending.pop()] = position
        pending.append(position)
    return np.array(following, np.int64)


class RepeatedCall(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call that repeats an earlier one by the same agent with the same arguments.

    Attributes:
        call: Place among the calls.
        before: Place of the latest such call before it.
        retry: Whether that one had failed; else it had succeeded, and was made again all the same.
    """

    call: int
    before: int
    retry: bool


def repeated_calls(calls: Sequence[Span]) -> tuple[RepeatedCall, ...]:
    """Calls that were made before, in order.

    What follows a call that never finished is neither a retry nor a repeat. Arguments that were not recorded
    (null), or that are no JSON, are like no others.

    Args:
        calls: In order (``Trace.tool_calls``).
    """
    latest: dict[Hashable, int] = {}
    repeated = []
    for position, symbol in enumerate(call_symbols(calls)):
        before = latest.get(symbol)
        if before is not None and (ok := calls[before].ok) is not None:
            repeated.append(RepeatedCall(call=position, before=before, retry=not ok))
        latest[symbol] = position
    return tuple(repeated)


def call_symbols(calls: Sequence[Span]) -> list[Hashable]:
    """A symbol for each call, equal where agent, tool and arguments are equal."""
    return [(call.agent, call.name, _arguments(call.input, position)) for position, call in enumerate(calls)]


def _arguments(value: Any, position: int) -> bytes | int:
    """Arguments as bytes; the index of the call where they are unknown or no JSON."""
    if value is None:
        return position
    try:
        return canonical(value)
    except (TypeError, RecursionError):
        return position
