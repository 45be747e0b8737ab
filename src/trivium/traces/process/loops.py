"""Finds loops of tool calls and of hand-offs, and calls that repeat an earlier one.

A loop is a tandem repeat in a sequence (:func:`repetitions`).
"""

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from functools import cached_property
from itertools import groupby
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from trivium.traces.trace import Span, canonical


class Loop(msgspec.Struct, frozen=True, kw_only=True):
    """A loop of tool calls.

    Attributes:
        agent: The agent that made the calls.
        tools: Tools of one round, in order.
        rounds: Number of complete rounds, at least 3.
        calls: Indices of its calls among all calls of the trace, including an incomplete last round.
    """

    agent: str | None
    tools: tuple[str, ...]
    rounds: int
    calls: tuple[int, ...]

    @property
    def after_first_round(self) -> tuple[int, ...]:
        """Indices of the calls after the first round."""
        return self.calls[len(self.tools) :]


class HandOffLoop(msgspec.Struct, frozen=True, kw_only=True):
    """Work that was handed round the same agents again and again.

    Attributes:
        agents: Agents of one round, in order.
        rounds: Number of complete rounds, at least 3.
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
"""Up to this many elements, trying every period is faster than NumPy."""

Ints = npt.NDArray[np.int64]


class Repetition(msgspec.Struct, frozen=True, kw_only=True):
    """A maximal repetition: every element equals the one ``period`` before it; no neighbour continues it.

    Attributes:
        start: Index of its first element.
        end: Index after its last element.
        period: The smallest period; ``end - start`` is at least three times as long.
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

    These are the runs of Bannai, I, Inenaga, Nakashima, Takeda and Tsuruta, "The 'runs' theorem", SIAM J.
    Comput. 46 (2017): the root of a run is the longest Lyndon word at its position in one of two orders of
    the elements. That gives two candidates per position, each extended as far as possible. Suffixes are
    sorted by prefix doubling, in O(n log n) NumPy steps. The result is exact: nothing is hashed. In a short
    sequence every period is tried, which is faster.
    """
    maximal = set()
    for offset, piece in _pieces(sequence):
        names = {name: code for code, name in enumerate(dict.fromkeys(piece))}
        codes = [names[name] for name in piece]
        runs = _runs_by_trial(codes) if len(codes) <= SHORT else _runs(np.array(codes, np.int64))
        maximal |= {(offset + start, offset + end, period) for start, end, period in runs}
    return tuple(Repetition(start=start, end=end, period=period) for start, end, period in sorted(maximal))


def _pieces(sequence: Sequence[Hashable]) -> Iterator[tuple[int, list[Hashable]]]:
    """Start and elements of each piece of elements that occur at least three times; others do not repeat."""
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
                # A run with a smaller period as well has the same ends, and was found with that period.
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
            then = np.zeros(size, np.int64)  # past the end sorts before anything
            then[:-width] = rank[width:] + 1
            self._ladder.append(np.unique(rank * (size + 1) + then, return_inverse=True)[1])
            width *= 2

    @property
    def last(self) -> Ints:
        """Rank of every suffix."""
        return self._ladder[-1]

    def common(self, one: Ints, other: Ints) -> Ints:
        """Length of the longest common prefix of the suffixes at the given indices."""
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
    """For each index, the next index with a smaller rank, or the end."""
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
        call: Index of the call.
        before: Index of the latest earlier call that it repeats.
        retry: Whether that earlier call had failed; otherwise it had succeeded.
    """

    call: int
    before: int
    retry: bool


class CallRepeats:
    """Loops of tool calls, and calls that repeat an earlier one, each found once.

    Arguments that were not recorded (null), or that are not JSON, equal no others.

    Args:
        calls: All tool calls, in order (``Trace.tool_calls``).
    """

    def __init__(self, calls: Sequence[Span]) -> None:
        self._calls = calls

    @cached_property
    def _symbols(self) -> list[Hashable]:
        """A symbol for each call; two are equal if agent, tool and arguments are equal."""
        return [
            (call.agent, call.name, _arguments(call.input, position))
            for position, call in enumerate(self._calls)
        ]

    @cached_property
    def repeated(self) -> tuple[RepeatedCall, ...]:
        """Calls that repeat an earlier one, in order; one after an unfinished call is no retry or repeat."""
        latest: dict[Hashable, int] = {}
        repeated = []
        for position, symbol in enumerate(self._symbols):
            before = latest.get(symbol)
            if before is not None and (ok := self._calls[before].ok) is not None:
                repeated.append(RepeatedCall(call=position, before=before, retry=not ok))
            latest[symbol] = position
        return tuple(repeated)

    @cached_property
    def loops(self) -> tuple[Loop, ...]:
        """Runs of at least three rounds of the same calls: same arguments, same order.

        The calls of each agent are searched separately, so that agents that work in parallel do not hide each
        other's loops. A loop is as long as possible and its round as short as possible; a loop may lie within
        a round of another. The longest comes first.
        """
        if max(Counter(self._symbols).values(), default=0) < FEWEST_ROUNDS:
            return ()
        positions: dict[str | None, list[int]] = {}
        for position, call in enumerate(self._calls):
            positions.setdefault(call.agent, []).append(position)
        loops = []
        for agent, own_positions in positions.items():
            for repetition in repetitions([self._symbols[position] for position in own_positions]):
                inside = own_positions[repetition.start : repetition.end]
                tools = tuple([self._calls[position].name for position in inside[: repetition.period]])
                loops.append(Loop(agent=agent, tools=tools, rounds=repetition.rounds, calls=tuple(inside)))
        return tuple(sorted(loops, key=lambda loop: (-len(loop.calls), loop.calls)))

    @cached_property
    def looped(self) -> frozenset[int]:
        """Indices of the repeated calls: those after the first round of any loop."""
        return frozenset(position for loop in self.loops for position in loop.after_first_round)


def _arguments(value: Any, position: int) -> bytes | int:
    """Arguments as bytes; the index of the call if they are unknown or not JSON."""
    if value is None:
        return position
    try:
        return canonical(value)
    except (TypeError, RecursionError):
        return position
