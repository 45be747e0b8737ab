"""Decides the gates of a run that asks cases in random order, group after group.

Definition: docs/definitions/comparisons.md#until-decided.

To look after each case and stop at will requires intervals that hold at every look. Here each gate has a test
(``trust.sequential_mean``) that bets once a group: groups are independent, cases of one group are not. They
are taken in an order that the id of the run determines, so nobody chose it, and that a resumed run goes on
with.

Missing scores count as in a gate of fixed size: a gate passes only if it also passes with all of them at
their worst, and fails only if it also fails with all of them at their best.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from trivium.runs.aggregation import Aggregation, AnyEvaluation, evaluated_cases
from trivium.runs.columns import Column
from trivium.runs.gates import limits_of
from trivium.runs.summary import GateAnswer
from trivium.runs.until_decided.order import GroupOrder, tags_of
from trivium.store.records import RunRecord
from trivium.store.store import Store
from trivium.suites.settings import Settings
from trivium.trust.sequential_mean import METHOD, MeanBetweenEnds

Answer = Literal["pass", "fail", "inconclusive"]

Values = dict[str, tuple[float, float]]
"""By gate, the lowest and the highest value that a case can have; equal if none of its scores is missing."""


class Gates:
    """The confidence sequences of a suite's gates.

    The stake on a group is proportional to its cases (the full stake on the largest group), so that the mean
    is over cases, and every bet is bounded.

    Args:
        settings: Settings of the suite.
        sizes: Number of cases of each group of the suite.

    Attributes:
        due: Cases of the suite.
        cases: Cases asked so far.
    """

    def __init__(self, settings: Settings, sizes: Sequence[int]) -> None:
        self._settings, self._largest = settings, max(sizes, default=1)
        self.due, self.cases = sum(sizes), 0
        self._limits = limits_of(settings)
        self._means = {
            name: MeanBetweenEnds(
                {side: limit for of, side, limit in self._limits if of == name}, level=settings.level
            )
            for name in settings.gates
        }

    def take(
        self,
        cases: Sequence[Sequence[AnyEvaluation]],
        *,
        cluster: str,
        handicap: float,
    ) -> None:
        """Bet on the evaluations of the cases of one group."""
        self.bet([values_of(evaluations, self._settings) for evaluations in cases], handicap=handicap)

    def bet(self, cases: Sequence[Values], *, handicap: float = 0.0) -> None:
        """Bet on the cases of one group; those without a value of a gate say nothing of it.

        Args:
            cases: The values of each case.
            handicap: See :class:`~trivium.runs.until_decided.order.GroupOrder`.
        """
        self.cases += len(cases)
        for name, mean in self._means.items():
            known = [case[name] for case in cases if name in case]
            if known:
                low, high = (min(1.0, sum(ends) / len(known)) for ends in zip(*known, strict=True))
                mean.bet(low, high, len(known) / self._largest, handicap=handicap)

    def answer(self, name: str, side: str) -> Answer:
        """The answer of a gate's limit on one side."""
        above, below = self._means[name].at_least(side), self._means[name].at_most(side)
        good, bad = (above, below) if side == "at_least" else (below, above)
        return "pass" if good else "fail" if bad else "inconclusive"

    def interval(self, name: str) -> tuple[float, float] | None:
        """The interval of a gate's mean that holds at every look; None without a value."""
        return self._means[name].interval

    @property
    def given(self) -> bool:
        """Whether there is any gate."""
        return bool(self._limits)

    @property
    def decided(self) -> bool:
        """Whether every gate has passed or failed."""
        return all(self.answer(name, side) != "inconclusive" for name, side, _ in self._limits)


def values_of(evaluations: Sequence[AnyEvaluation], settings: Settings) -> Values:
    """Compute the values of one case for the gates from its evaluations, as the summary does."""
    of_case = Aggregation(settings)
    of_case.add("case", evaluations)
    of_case.flush()
    columns: Mapping[str, Column] = of_case.all_columns
    found = {}
    for name, gate in settings.gates.items():
        if name in columns:
            column = columns[name]
            lowest, highest = (column.values,) * 2 if gate.missing == "ignore" else column.extreme_values()
            if lowest.size:
                found[name] = (float(lowest[0]), float(highest[0]))
    return found


def gates_of_stored(store: Store, run: RunRecord, settings: Settings) -> Gates:
    """The confidence sequences of a stored run, group after group in its random order."""
    groups: defaultdict[str, list[Values]] = defaultdict(list)
    sizes = Counter(store.groups(run.suite, settings.group))
    for case in evaluated_cases(store, run, settings):
        for evaluations in case.evaluations:
            if len(evaluations) >= settings.repeats:
                groups[case.cluster].append(values_of(evaluations, settings))
    gates = Gates(settings, list(sizes.values()))
    names = store.groups(run.suite, settings.group)
    order = GroupOrder(run.id, tags_of(zip(names, store.cases(run.suite), strict=True)))
    for name, handicap in zip(order.names, order.handicaps, strict=True):
        if name in groups:
            gates.bet(groups[name], handicap=handicap)
    return gates


def stopping(gates: Gates, run: RunRecord) -> str:
    """Say what was asked or scored, and which intervals hold although the run stopped where it did."""
    did = "asked" if run.kind == "agent" else "scored"
    how = f"{gates.cases:,} of {gates.due:,} cases were {did}, in random order"
    stopped_for = run.provenance.until_decided
    if stopped_for is None:
        end = "until all gates were decided" if gates.decided else "and not all gates are decided"
    else:
        base = stopped_for.against
        end = (
            f"at most until the comparison with {base} on {stopped_for.metric} was decided: "
            f"trivium compare {base} {run.id}"
        )
    holds = "The gates' intervals hold at every look; all others" if gates.given else "All intervals"
    return f"{how}, {end}. {holds} suppose that the number of cases was set beforehand"


def with_intervals(answers: Sequence[GateAnswer], gates: Gates, settings: Settings) -> tuple[GateAnswer, ...]:
    """The answers of gates by intervals that hold at every look; the order is that of ``gate_results``."""
    return tuple(
        msgspec.structs.replace(
            answer,
            proof=gates.answer(name, side),
            ci95=gates.interval(name),
            needs_cases=0,
            needs_groups=0,
            worst=None,
            best=None,
            method=METHOD,
        ).by(settings.decide)
        for answer, (name, side, _) in zip(answers, limits_of(settings), strict=True)
    )
