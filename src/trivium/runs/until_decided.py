"""Asks cases in random order and stops when all gates are decided (spec: metrics, B.6).

Whoever looks after each case and stops when the answer pleases needs intervals that hold at every look. Here
each gate has a test (``trust.sequential_mean``) that bets once a group: groups are independent, cases of one
group are not. They are taken in an order that the id of the run determines, so nobody chose it,
and that a resumed run goes on with.

Missing scores count as in a gate of fixed size: a gate passes only if it also passes with all of them at
their worst, and fails only if it also fails with all of them at their best.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from hashlib import blake2b
from threading import Lock
from typing import Literal

import msgspec

from trivium.errors import Problem, SuiteError
from trivium.metrics.registry import ACCEPTED
from trivium.runs.aggregation import Aggregation, AnyEvaluation, evaluated_cases
from trivium.runs.columns import Column
from trivium.runs.summary import GateAnswer
from trivium.store.records import RunRecord
from trivium.store.store import Store
from trivium.suites.case import Case
from trivium.suites.settings import Settings
from trivium.suites.suite import Suite
from trivium.trust.sequential_mean import SequentialMean, sequential_interval

Answer = Literal["pass", "fail", "inconclusive"]

METHOD = "betting, valid at every look"

Values = dict[str, tuple[float, float]]
"""By gate, the lowest and the highest value that a case can have; equal if none of its scores is missing."""


def check_until_decided(settings: Settings, *, source: str) -> None:
    """Refuse settings under which nothing could be decided.

    Raises:
        SuiteError: If there is no gate, or one on a figure that single cases do not have.
    """
    if not settings.until_decided:
        return
    problems = [
        Problem(f"gates.{name}", "until_decided decides means over cases, and this is none")
        for name in settings.gates
        if name == ACCEPTED or name.endswith(f".{ACCEPTED}") or name.startswith(("pass@", "pass^"))
    ]
    if not settings.gates:
        problems = [Problem("gates", "until_decided needs a gate to decide; found none")]
    if problems:
        raise SuiteError(source, problems)


def place_of(run: str, group: str) -> bytes:
    """Sort key of a group in the random order of a run."""
    return blake2b(f"{run}\0{group}".encode("utf-8", "surrogatepass"), digest_size=16).digest()


class Asker:
    """Hands out the attempts of a run in random order until all gates are decided.

    Attempts are handed out on the thread of the event loop, evaluations arrive on that of the scores.

    Args:
        run: The run.
        suite: The suite.
        settings: Its settings.
    """

    def __init__(self, run: RunRecord, suite: Suite, settings: Settings) -> None:
        self._settings = settings
        judged = settings.judge.concurrency if settings.judge is not None else None
        self._ahead = max(settings.limits.attempts_at_once, judged or 0)
        """Most attempts that are handed out and not evaluated yet; more would mostly be asked in vain."""
        groups: defaultdict[str, list[int]] = defaultdict(list)
        for position, case in enumerate(suite):
            groups[suite.group_of(case)].append(position)
        self._order = [groups[name] for name in sorted(groups, key=lambda name: place_of(run.id, name))]
        self._suite = suite
        self._gates = Gates(settings, [len(positions) for positions in self._order])
        self._evaluations: defaultdict[int, list[AnyEvaluation]] = defaultdict(list)
        self._next_group = 0
        self._lock = Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._room: asyncio.Event | None = None
        self._waiting: set[tuple[int, int]] = set()

    @property
    def decided(self) -> bool:
        """Whether all gates are decided."""
        return self._gates.decided

    def remaining(self, stored: Set[tuple[int, int]]) -> Iterator[tuple[int, Case, int]]:
        """Yield position, case and repeat of each attempt to be made; of the last group all of them."""
        for positions in self._order:
            if self.decided:
                return
            for position in positions:
                case = self._suite.cases[position]
                for repeat in range(self._settings.repeats):
                    if (position, repeat) not in stored:
                        with self._lock:
                            self._waiting.add((position, repeat))
                        yield position, case, repeat

    async def room(self) -> None:
        """Wait until another attempt should be handed out, or all gates are decided."""
        self._loop = asyncio.get_running_loop()
        while not self.decided:
            with self._lock:
                if len(self._waiting) < self._ahead:
                    return
                room = self._room = self._room or asyncio.Event()
            await room.wait()

    def take(self, evaluated: Iterable[tuple[int, AnyEvaluation]]) -> None:
        """Take evaluations of attempts, each with the position of its case, in any order."""
        arrived = set()
        for position, evaluation in evaluated:
            self._evaluations[position].append(evaluation)
            arrived.add((position, evaluation.repeat))
        while self._next_group < len(self._order) and all(
            len(self._evaluations[position]) >= self._settings.repeats
            for position in self._order[self._next_group]
        ):
            positions = self._order[self._next_group]
            self._gates.bet(
                [values_of(self._evaluations.pop(position), self._settings) for position in positions]
            )
            self._next_group += 1
        with self._lock:
            self._waiting -= arrived
            room, self._room = self._room, None
        if room is not None and self._loop is not None:
            self._loop.call_soon_threadsafe(room.set)


class Gates:
    """The confidence sequences of a suite's gates.

    A group is staked in proportion to its cases, of the largest group everything, so that the mean is one
    over cases, and every bet is bounded.

    Args:
        settings: Settings of the suite.
        sizes: Number of cases of each group of the suite.

    Attributes:
        due: Cases of the suite.
        cases: Those that were asked.
    """

    def __init__(self, settings: Settings, sizes: Sequence[int]) -> None:
        self._settings, self._largest = settings, max(sizes, default=1)
        self.due, self.cases = sum(sizes), 0
        self._alpha = round(1 - settings.level, 12)
        self._values: dict[str, list[tuple[float, float, float]]] = {name: [] for name in settings.gates}
        self._tests = {
            (name, side): tuple(SequentialMean(limit, alpha=self._alpha) for _ in range(2))
            for name, side, limit in limits_of(settings)
        }

    def bet(self, cases: Sequence[Values]) -> None:
        """Bet on the cases of one group; those without a value of a gate say nothing of it."""
        self.cases += len(cases)
        for name, values in self._values.items():
            known = [case[name] for case in cases if name in case]
            if known:
                low, high = (min(1.0, sum(ends) / len(known)) for ends in zip(*known, strict=True))
                values.append((low, high, len(known) / self._largest))
        for (name, _), (at_lowest, at_highest) in self._tests.items():
            if self._values[name] and len(self._values[name]) > at_lowest.n:
                low, high, weight = self._values[name][-1]
                at_lowest.bet(low, weight)
                at_highest.bet(high, weight)

    def answer(self, name: str, side: str) -> Answer:
        """The answer of a gate's limit on one side."""
        at_lowest, at_highest = self._tests[name, side]
        if not at_lowest.n:
            return "inconclusive"
        above, below = at_lowest.at_least, at_highest.at_most
        good, bad = (above, below) if side == "at_least" else (below, above)
        return "pass" if good else "fail" if bad else "inconclusive"

    def interval(self, name: str) -> tuple[float, float] | None:
        """The interval of a gate's mean that holds at every look; None without a value."""
        if not self._values[name]:
            return None
        lowest, highest, weights = zip(*self._values[name], strict=True)
        low, _ = sequential_interval(lowest, weights, alpha=self._alpha)
        _, high = sequential_interval(highest, weights, alpha=self._alpha)
        return min(low, high), max(low, high)

    @property
    def decided(self) -> bool:
        """Whether every gate has passed or failed."""
        return all(self.answer(*each) != "inconclusive" for each in self._tests)


def limits_of(settings: Settings) -> list[tuple[str, str, float]]:
    """Name, side and limit of each gate, in the order of ``summarize.gate_results``."""
    return [
        (name, side, limit)
        for name, gate in settings.gates.items()
        for side, limit in (("at_least", gate.at_least), ("at_most", gate.at_most))
        if limit is not None
    ]


def values_of(evaluations: Sequence[AnyEvaluation], settings: Settings) -> Values:
    """The values of one case for the gates, from its evaluations, as a column of the summary has them."""
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
    for name in sorted(groups, key=lambda name: place_of(run.id, name)):
        gates.bet(groups[name])
    return gates


def stopping(gates: Gates, *, asked: bool) -> str:
    """Say what was asked or scored, and which intervals hold although the run stopped where it did."""
    did = "asked" if asked else "scored"
    how = f"{gates.cases:,} of {gates.due:,} cases were {did}, in random order"
    end = "until all gates were decided" if gates.decided else "and not all gates are decided"
    return (
        f"{how}, {end}. The gates' intervals hold at every look; all others suppose that the number of cases "
        "was set beforehand"
    )


def with_intervals(answers: Sequence[GateAnswer], gates: Gates, settings: Settings) -> tuple[GateAnswer, ...]:
    """The answers of gates by intervals that hold at every look; the order is that of ``gate_results``."""
    return tuple(
        msgspec.structs.replace(
            answer,
            answer=gates.answer(name, side),
            ci95=gates.interval(name),
            needs_cases=0,
            needs_groups=0,
            worst=None,
            best=None,
            method=METHOD,
        )
        for answer, (name, side, _) in zip(answers, limits_of(settings), strict=True)
    )
