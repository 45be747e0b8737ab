"""Decides which of two runs wins more pairs, by a test that may stop the judging after any group.

Definition: docs/definitions/comparisons.md#until-decided.

The mean over cases of win = 1, tie = 1/2 and loss = 0 is tested against 1/2, on both sides, with one bet a
group (``trust.sequential_mean``): either answer is wrong with probability at most (1 - level) / 2 at whatever
pair the judge stops, so at most 1 - level of the decisions are wrong. A pair for which a judge gave no answer
counts as a loss on the one side and as a win on the other; one on which it abstained says nothing.

The order depends on the ids of both runs, so that a comparison that is interrupted, or repeated, judges the
same pairs again, whose answers are cached.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from statistics import fmean
from typing import Literal, TypeVar

import msgspec

from trivium.runs.pairwise_result import VALUES, JudgedPair, PairFigure
from trivium.runs.until_decided.order import GroupOrder, tags_of
from trivium.suites.case import Case
from trivium.trust.sequential_mean import METHOD, SequentialMean, sequential_interval

P = TypeVar("P")


class PairsUntilDecided:
    """Whether head surely wins more than half of the pairs, or less.

    Args:
        dimension: The dimension that decides.
        level: 1 minus the probability of a wrong answer, in (0, 1).

    Attributes:
        due: Number of pairs that could be judged.
    """

    def __init__(self, dimension: str, *, level: float) -> None:
        self.dimension, self.due = dimension, 0
        self._alpha = round(1 - level, 12)
        self._wins, self._loses = (SequentialMean(0.5, alpha=self._alpha) for _ in range(2))
        self._values: list[tuple[float, float, float, float]] = []
        self._largest = 1
        self._handicaps: dict[str, float] = {}
        self.decided: Literal["win", "loss"] | None = None

    def waves(
        self, pairs: Iterable[P], case_of: Callable[[P], tuple[str, Case]], *, order_of: str, at_least: int
    ) -> Iterator[list[P]]:
        """Yield whole groups of pairs in random order, until it is decided.

        Args:
            pairs: All pairs.
            case_of: Gives the group of a pair, and its case.
            order_of: What determines the order.
            at_least: Least number of pairs at a time, except for the last.
        """
        groups: defaultdict[str, list[P]] = defaultdict(list)
        for pair in pairs:
            groups[case_of(pair)[0]].append(pair)
            self.due += 1
        self._largest = max(map(len, groups.values()), default=1)
        wave: list[P] = []
        order = GroupOrder(
            order_of, tags_of(case_of(pair) for of_group in groups.values() for pair in of_group)
        )
        self._handicaps = dict(zip(order.names, order.handicaps, strict=True))
        for name in order.names:
            wave += groups[name]
            if len(wave) >= at_least:
                yield wave
                wave = []
                if self.decided:
                    return
        if wave:
            yield wave

    def take(self, pairs: Sequence[JudgedPair]) -> None:
        """Bet on whole groups of judged pairs, in their order."""
        groups: defaultdict[str, list[JudgedPair]] = defaultdict(list)
        for pair in pairs:
            groups[pair.group].append(pair)
        for of_group in groups.values():
            self._bet(of_group)

    def _bet(self, pairs: Sequence[JudgedPair]) -> None:
        cases: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
        for pair in pairs:
            if (ends := self._ends(pair)) is not None:
                cases[pair.case].append(ends)
        if not cases:
            return
        low, high = (
            fmean(fmean(ends[side] for ends in of_case) for of_case in cases.values()) for side in (0, 1)
        )
        weight, handicap = len(cases) / self._largest, self._handicaps[pairs[0].group]
        self._values.append((low, high, weight, handicap))
        self._wins.bet(low, weight, handicap=handicap)
        self._loses.bet(high, weight, handicap=handicap)
        if self.decided is None:
            self.decided = "win" if self._wins.at_least else "loss" if self._loses.at_most else None

    def _ends(self, pair: JudgedPair) -> tuple[float, float] | None:
        """The lowest and the highest value that a pair can have; None if nothing is known and nothing due."""
        combined = pair.verdicts.get(self.dimension)
        if combined is None:
            return None
        if combined.verdict is not None:
            return (VALUES[combined.verdict],) * 2
        return (0.0, 1.0) if any(order.status == "failed" for order in combined.orders) else None

    def on(self, figure: PairFigure) -> PairFigure:
        """The deciding figure, with the interval that holds at every look."""
        if not self._values:
            return figure
        lowest, highest, weights, handicaps = zip(*self._values, strict=True)
        low, _ = sequential_interval(lowest, weights, alpha=self._alpha, handicaps=handicaps)
        _, high = sequential_interval(highest, weights, alpha=self._alpha, handicaps=handicaps)
        ends = min(low, high), max(low, high)
        return msgspec.structs.replace(figure, ci95=ends, method=METHOD, p=None, probability=None)

    def sentence(self, judged: int) -> str:
        """Say how many pairs were judged, and which intervals hold although the judge stopped there.

        Args:
            judged: Number of pairs.
        """
        end = {
            None: "and it is not decided which run wins more",
            "win": "until it was decided that head wins more",
            "loss": "until it was decided that base wins more",
        }[self.decided]
        return (
            f"{judged:,} of {self.due:,} pairs were judged, in random order, {end} ({self.dimension}); "
            f"{self.due - judged:,} were not asked. The interval of {self.dimension} is by {METHOD}; all "
            "others suppose that the number of pairs was set beforehand"
        )
