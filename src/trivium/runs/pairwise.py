"""Compares the outputs of two runs pair by pair with a judge.

A judge that sees two outputs may favour one position. Each pair is therefore judged in both orders. If the
verdicts follow the position, they contradict each other: the pair counts as a tie, and the share of such
pairs measures the position bias.

Judging may stop once it is decided which run wins more pairs (docs/definitions/comparisons.md#until-decided).
The mean over cases of win = 1, tie = 1/2 and loss = 0 is tested against 1/2, on both sides, with one bet a
group (``trust.sequential_mean``): either answer is wrong with probability at most (1 - level) / 2 at whatever
pair the judge stops, so at most 1 - level of the decisions are wrong. A pair for which a judge gave no answer
counts as a loss on the one side and as a win on the other; one on which it abstained says nothing. The order
depends on the ids of both runs, so that a comparison that is interrupted, or repeated, judges the same pairs
again, whose answers are cached. A pair of which an attempt has no fair outcome, because its world or its
simulated user failed, is like one without an answer.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from operator import itemgetter
from statistics import fmean
from typing import Any, Literal, TypeVar

import msgspec

from trivium.agents.attempt import Attempt
from trivium.errors import ComparisonError
from trivium.metrics.judge.budget.prices import price_problems
from trivium.metrics.judge.pairwise import pairwise_rubric
from trivium.runs.costs import judge_of_pairs, sum_costs
from trivium.runs.judged_pairs import AttemptPair, judge_all
from trivium.runs.pairwise_result import (
    VALUES,
    JudgedPair,
    PairComparison,
    PairFigure,
    figure,
)
from trivium.runs.run import Run
from trivium.runs.until_decided.order import GroupOrder, tags_of
from trivium.store.store import Store
from trivium.suites.case import Case
from trivium.suites.rubrics.loader import OVERALL
from trivium.suites.rubrics.rubric import Rubric
from trivium.suites.settings import JudgeSettings, Settings
from trivium.trust.sequential_mean import METHOD, MeanBetweenEnds

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
        self._mean = MeanBetweenEnds({"half": 0.5}, level=level)
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
        handicap = self._handicaps[pairs[0].group]
        self._mean.bet(low, high, len(cases) / self._largest, handicap=handicap)
        if self.decided is None:
            wins, loses = self._mean.at_least("half"), self._mean.at_most("half")
            self.decided = "win" if wins else "loss" if loses else None

    def _ends(self, pair: JudgedPair) -> tuple[float, float] | None:
        """The lowest and the highest value that a pair can have; None if nothing is known and nothing due."""
        combined = pair.verdicts.get(self.dimension)
        if combined is None:
            return None
        if combined.verdict is not None:
            return (VALUES[combined.verdict],) * 2
        unknown = pair.how == "unfair" or any(order.status == "failed" for order in combined.orders)
        return (0.0, 1.0) if unknown else None

    def on(self, figure: PairFigure) -> PairFigure:
        """The deciding figure, with the interval that holds at every look."""
        ends = self._mean.interval
        if ends is None:
            return figure
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


PAIRS_PER_LOOK = 8
"""Pairs that are judged at once, if they are judged until it is decided and the judge has no limit."""


def judge_pairs(
    base: Run,
    head: Run,
    *,
    judge: JudgeSettings | Mapping[str, Any] | None = None,
    until_decided: bool = False,
) -> PairComparison:
    """Let a judge decide case by case which run has the better output.

    The judge is that of a suite, with its rubrics, samples, panel and retries. It judges every pair in both
    orders, in each dimension that looks at the output, and overall. If the orders contradict each other, the
    pair is a tie. Equal outputs tie without a judge. A failed attempt loses, unless the suite's
    ``failed_attempts`` is ``skip``.

    The budget of the settings applies to this comparison alone, regardless of what the runs spent; ``spent``
    reports the costs. Responses are cached with head, so that a comparison that is interrupted or repeated
    pays for none twice.

    Args:
        base: The run to compare with.
        head: The candidate run.
        judge: Settings of the judge, with the keys of a suite's ``judge``; by default those of head's suite.
        until_decided: Whether to judge the pairs in random order, and only until it is decided which run wins
            more overall.

    Raises:
        ComparisonError: If there is no judge, the runs have no attempt in common, or no dimension of the
            rubrics looks at the output; with ``until_decided`` also if a run stopped early itself.
    """
    settings = head.record.settings
    judge_settings, rubric = _asked(settings.judge if judge is None else _settings(judge))
    matched = _MatchedAttempts(base, head, settings)
    decided = _until_decided(base, head, rubric, settings) if until_decided else None
    store = Store(head.store.url, create=False) if head.store.read_only else head.store
    with judge_of_pairs(store, head.record, judge_settings, rubric, encoder=settings.encoder) as (
        pair_judge,
        ledger,
    ):
        if decided is None:
            pairs = judge_all(pair_judge, matched)
        else:
            # Two requests a pair; more at once would mostly be asked in vain.
            wave = max(1, (judge_settings.concurrency or 2 * PAIRS_PER_LOOK) // 2)
            order = f"{base.id} {head.id}"
            pairs = []
            for batch in decided.waves(matched, itemgetter(0, 1), order_of=order, at_least=wave):
                judged = judge_all(pair_judge, batch)
                decided.take(judged)
                pairs += judged
            pairs = matched.in_order(pairs)
    if not pairs:
        raise ComparisonError("", f"run {base.id} and run {head.id} have no case and repeat in common")
    figures = {
        dimension.name: figure(pairs, dimension.name, level=settings.level) for dimension in rubric.dimensions
    }
    notes = list(_notes(base, head, pairs))
    if decided is not None:
        figures[decided.dimension] = decided.on(figures[decided.dimension])
        notes.insert(0, decided.sentence(len(pairs)))
    return PairComparison(
        base=base.id,
        head=head.id,
        suite=head.record.suite_name,
        models=tuple(dict.fromkeys(_models(judge_settings))),
        panel=judge_settings.panel,
        samples=judge_settings.samples,
        level=settings.level,
        figures=figures,
        pairs=tuple(pairs),
        identical=sum(pair.how == "identical" for pair in pairs),
        failed=sum(pair.how == "failed" for pair in pairs),
        left_out=matched.left_out,
        errors=sum(map(_failed, pairs)),
        spent=sum_costs(ledger.entries(), judge_settings),
        notes=tuple(notes),
        not_asked=0 if decided is None else decided.due - len(pairs),
        decided=None if decided is None else decided.decided,
    )


def _asked(judge: JudgeSettings | None) -> tuple[JudgeSettings, Rubric]:
    """The judge, and the part of its rubrics that looks at outputs.

    Raises:
        ComparisonError: If there is no judge, no such part, or a price is wrong.
    """
    if judge is None or not _models(judge):
        raise ComparisonError("judge.models", "there is no judge: the suite of head names no model")
    rubrics = [each if isinstance(each, Rubric) else Rubric.load(each) for each in judge.rubric]
    rubric = pairwise_rubric(rubrics)
    if rubric is None:
        raise ComparisonError("judge.rubric", "judges only the process: no dimension looks at the output")
    if problems := price_problems(judge):
        raise ComparisonError("", problems)
    return judge, rubric


def _models(judge: JudgeSettings) -> tuple[str, ...]:
    return (*judge.models, *chain(*judge.models_by_complexity.values()))


def _until_decided(base: Run, head: Run, rubric: Rubric, settings: Settings) -> PairsUntilDecided:
    """What decides when enough pairs are judged.

    Raises:
        ComparisonError: If a run stopped early itself.
    """
    for run in (base, head):
        if run.record.settings.until_decided:
            what = f"run {run.id} stopped early itself (until_decided), so that its cases are no fair sample"
            raise ComparisonError("until_decided", f"{what}; judge all its pairs, or those of a whole run")
    names = [dimension.name for dimension in rubric.dimensions]
    return PairsUntilDecided(OVERALL if OVERALL in names else names[0], level=settings.level)


def _settings(judge: JudgeSettings | Mapping[str, Any]) -> JudgeSettings:
    if isinstance(judge, JudgeSettings):
        return judge
    try:
        return msgspec.convert(dict(judge), JudgeSettings)
    except msgspec.ValidationError as wrong:
        raise ComparisonError("judge", str(wrong)) from None


class _MatchedAttempts:
    """Pairs the attempts that two runs have in common, in the order of head's suite."""

    def __init__(self, base: Run, head: Run, settings: Settings) -> None:
        self._base, self._head, self._settings = base, head, settings
        self.left_out = 0
        self._positions = {case.id: position for position, case in enumerate(head.cases())}

    def __iter__(self) -> Iterator[AttemptPair]:
        groups = list(self._head.store.groups(self._head.record.suite, self._settings.group))
        unmatched = {
            (attempt.case, attempt.repeat): _without_trace(attempt) for attempt in self._base.attempts()
        }
        for case, attempt, _ in self._head.store.views(self._head.record):
            other = unmatched.pop((case.id, attempt.repeat), None)
            if other is None or (
                self._settings.failed_attempts == "skip" and (attempt.failed or other.failed)
            ):
                self.left_out += 1
            else:
                yield groups[self._positions[case.id]], case, other, _without_trace(attempt)
        self.left_out += len(unmatched)

    def in_order(self, pairs: Iterable[JudgedPair]) -> list[JudgedPair]:
        """Sort judged pairs in the order of head's suite."""
        return sorted(pairs, key=lambda pair: (self._positions[pair.case], pair.repeat))


def _without_trace(attempt: Attempt) -> Attempt:
    """Remove the trace of an attempt, which the judge does not see."""
    return msgspec.structs.replace(attempt, trace=None)


def _failed(pair: JudgedPair) -> bool:
    return any(order.status == "failed" for combined in pair.verdicts.values() for order in combined.orders)


def _notes(base: Run, head: Run, pairs: Sequence[JudgedPair]) -> Iterator[str]:
    if base.record.suite != head.record.suite:
        yield "the suites' cases are not the same: outputs are judged by head's cases"
    failed = [pair for pair in pairs if _failed(pair)]
    if failed:
        of_one = (order for combined in failed[0].verdicts.values() for order in combined.orders)
        why = next(order.reason for order in of_one if order.status == "failed")
        yield f"{len(failed):,} of {len(pairs):,} pairs got no answer: {why}"
    orders = [order for pair in pairs for combined in pair.verdicts.values() for order in combined.orders]
    for method, count in Counter(order.method for order in orders if order.method).items():
        yield f"{count:,} of {len(orders):,} verdicts are by {method}"
    unfair = [pair for pair in pairs if pair.how == "unfair"]
    if unfair:
        of_one = (order for combined in unfair[0].verdicts.values() for order in combined.orders)
        why = next((order.reason for order in of_one), "")
        what = "have no verdict: the world or the simulated user failed, not the agent"
        yield f"{len(unfair):,} of {len(pairs):,} pairs {what} ({why})"
    unasked = sum(pair.how in ("identical", "failed") for pair in pairs)
    if unasked:
        yield f"{unasked:,} of {len(pairs):,} pairs needed no judge: equal outputs or failed attempts"
