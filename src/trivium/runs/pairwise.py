"""Compares the outputs of two runs pair by pair with a judge.

A judge that sees two outputs may favour a position. Each pair is therefore judged in both orders: verdicts
that follow the position contradict each other and count as a tie, and their share measures the bias.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice
from statistics import median
from typing import Any

import msgspec

from trivium.agents.attempt import Attempt
from trivium.errors import ComparisonError
from trivium.metrics.judge.budget.budget import run_budget
from trivium.metrics.judge.budget.ledger import MemoryLedger
from trivium.metrics.judge.budget.prices import price_problems
from trivium.metrics.judge.client.executor import JudgeExecutor
from trivium.metrics.judge.judge import Judge, Judgements
from trivium.metrics.judge.judgement import Judgement
from trivium.metrics.judge.pairwise import Pair, comparing
from trivium.metrics.judge.prompts.context import shown
from trivium.runs.judge_costs import sum_costs
from trivium.runs.pairwise_result import (
    DimensionVerdict,
    JudgedPair,
    OrderVerdict,
    PairComparison,
    PairFigure,
    Verdict,
)
from trivium.runs.run import Run
from trivium.store.judge_cache import StoredResponseCache
from trivium.store.store import Store
from trivium.suites.case import Case
from trivium.suites.rubrics.rubric import Dimension, Rubric
from trivium.suites.settings import JudgeSettings, Settings
from trivium.trust.intervals import mean_interval
from trivium.trust.multiple_testing import sign_test

AT_ONCE = 256
"""Pairs whose texts are in memory at once."""

Met = tuple[str, Case, Attempt, Attempt]
"""Group, case, base's attempt and head's."""


def judge_pairs(
    base: Run, head: Run, *, judge: JudgeSettings | Mapping[str, Any] | None = None
) -> PairComparison:
    """Let a judge decide case by case which run has the better output.

    Every pair is judged in both orders by the judge of a suite: its rubrics (the dimensions of an output, and
    the better in all), samples, panel, retries. Orders that contradict each other make a tie. Equal outputs
    tie and nobody is asked. A failed attempt loses, unless the suite's ``failed_attempts`` is ``skip``.

    What it costs is its own: the budget of the settings holds for this comparison, whatever the runs spent,
    and ``spent`` tells what became of it. Answers are kept with head, so that a comparison that was
    interrupted or is made again pays for none twice.

    Args:
        base: The run to compare with.
        head: The run in question.
        judge: Who judges, by what rubric, with the keys of a suite's ``judge``; by default head's suite's.

    Raises:
        ComparisonError: If there is no judge, the runs have no attempt in common, or the rubrics judge no
            output.
    """
    settings = msgspec.convert(head.record.settings, Settings)
    asked = settings.judge if judge is None else _settings(judge)
    models = () if asked is None else (*asked.models, *chain(*asked.models_by_complexity.values()))
    if asked is None or not models:
        raise ComparisonError("judge.models", "there is no judge: the suite of head names no model")
    rubric = comparing([_rubric(each) for each in asked.rubric])
    if rubric is None:
        raise ComparisonError("judge.rubric", "judges the process alone: there is no output to compare by it")
    if problems := price_problems(asked):
        raise ComparisonError("", problems)
    matched = _MatchedAttempts(base, head, settings)
    executor = JudgeExecutor(asked)
    store = Store(head.store.url, create=False) if head.store.read_only else head.store
    answers = StoredResponseCache(store, head.record, shared=asked.cache, max_mb=asked.cache_mb)
    ledger = MemoryLedger()
    executor.configure(cache=answers, budget=run_budget(asked, ledger=ledger))
    try:
        pair_judge = Judge(rubric, rubric.dimensions, asked, encoder=settings.encoder, executor=executor)
        pairs = _judge_all(pair_judge, matched)
        answers.allow_eviction()
    finally:
        executor.close()
        answers.close()
    matched.check(pairs)
    return PairComparison(
        base=base.id,
        head=head.id,
        suite=head.record.suite_name,
        models=tuple(dict.fromkeys(models)),
        panel=asked.panel,
        samples=asked.samples,
        level=settings.level,
        figures={
            dimension.name: figure(pairs, dimension.name, level=settings.level)
            for dimension in rubric.dimensions
        },
        pairs=tuple(pairs),
        identical=sum(pair.how == "identical" for pair in pairs),
        failed=sum(pair.how == "failed" for pair in pairs),
        left_out=matched.left_out,
        errors=sum(map(_failed, pairs)),
        spent=sum_costs(ledger.entries(), asked),
        notes=tuple(_notes(base, head, pairs)),
    )


def _judge_all(judge: Judge, matched: "_MatchedAttempts") -> list[JudgedPair]:
    """Judge every pair, batch by batch."""
    pairs: list[JudgedPair] = []
    met = iter(matched)
    while batch := list(islice(met, AT_ONCE)):
        asked = [pair for one in batch if _outcome(one) is None for pair in _both_orders(one)]
        found = iter(judge.judge(asked))
        for one in batch:
            how = _outcome(one)
            if how is not None:
                pairs.append(_unasked(one, how, judge.dimensions))
            else:
                pairs.append(_judged(one, (next(found), next(found)), judge.dimensions))
    return pairs


def _settings(judge: JudgeSettings | Mapping[str, Any]) -> JudgeSettings:
    if isinstance(judge, JudgeSettings):
        return judge
    try:
        return msgspec.convert(dict(judge), JudgeSettings)
    except msgspec.ValidationError as wrong:
        raise ComparisonError("judge", str(wrong)) from None


class _MatchedAttempts:
    """The attempts that two runs have in common, in the order of head's suite."""

    def __init__(self, base: Run, head: Run, settings: Settings) -> None:
        self._base, self._head, self._settings = base, head, settings
        self.left_out = 0

    def __iter__(self) -> Iterator[Met]:
        groups = list(self._head.store.groups(self._head.record.suite, self._settings.group))
        places = {case.id: place for place, case in enumerate(self._head.cases())}
        waiting = {(attempt.case, attempt.repeat): _bare(attempt) for attempt in self._base.attempts()}
        for case, attempt, _ in self._head.store.views(self._head.record):
            other = waiting.pop((case.id, attempt.repeat), None)
            if other is None or (
                self._settings.failed_attempts == "skip" and (attempt.failed or other.failed)
            ):
                self.left_out += 1
            else:
                yield groups[places[case.id]], case, other, _bare(attempt)
        self.left_out += len(waiting)

    def check(self, pairs: Sequence[JudgedPair]) -> None:
        """Raise if the runs have no attempt in common."""
        if not pairs:
            raise ComparisonError(
                "", f"run {self._base.id} and run {self._head.id} have no case and repeat in common"
            )


def _rubric(each: str | Rubric) -> Rubric:
    return each if isinstance(each, Rubric) else Rubric.load(each)


def _bare(attempt: Attempt) -> Attempt:
    """An attempt without its trace, which the judge does not see."""
    return msgspec.structs.replace(attempt, trace=None)


def _outcome(met: Met) -> str | None:
    """The outcome of a pair that needs no judge, else None."""
    _, _, base, head = met
    if base.failed or head.failed:
        return "failed"
    return "identical" if base.text == head.text else None


def _both_orders(met: Met) -> tuple[Pair, Pair]:
    _, case, base, head = met
    return Pair(case, base, second=head), Pair(case, head, second=base)


_NOT_JUDGED = DimensionVerdict(verdict=None, consistent=None)


def _unasked(met: Met, how: Any, dimensions: Sequence[Dimension]) -> JudgedPair:
    group, case, base, head = met
    verdict: Verdict = "tie"
    if base.failed != head.failed:
        verdict = "win" if base.failed else "loss"
    same = DimensionVerdict(verdict=verdict, consistent=True)
    # A dimension that requires something the case lacks is never judged.
    there = shown(Pair(case, base, second=head), excerpt_chars=1).texts
    verdicts = {
        dimension.name: same if dimension.applies_to(there) else _NOT_JUDGED for dimension in dimensions
    }
    return JudgedPair(case=case.id, repeat=head.repeat, group=group, how=how, verdicts=verdicts)


def _judged(met: Met, orders: tuple[Judgements, Judgements], dimensions: Sequence[Dimension]) -> JudgedPair:
    group, case, _, head = met
    base_first, head_first = orders
    return JudgedPair(
        case=case.id,
        repeat=head.repeat,
        group=group,
        how="judged",
        verdicts={
            dimension.name: of_both_orders(
                _order("base", base_first[dimension.name]), _order("head", head_first[dimension.name])
            )
            for dimension in dimensions
        },
    )


def _order(first: Any, judgement: Judgement) -> OrderVerdict:
    verdict: Verdict | None = None
    if judgement.value is not None:
        for_first: Verdict = "win" if first == "head" else "loss"
        for_second: Verdict = "loss" if first == "head" else "win"
        verdict = {1.0: for_first, 0.0: for_second}.get(_middle(judgement.value, judgement.detail), "tie")
    return OrderVerdict(
        first=first,
        verdict=verdict,
        status=judgement.status,
        reason=judgement.reason,
        method=judgement.method,
        detail=judgement.detail,
    )


def _middle(value: float, detail: Mapping[str, Any]) -> float:
    """The median of samples that say first (1), tie (0.5) or second (0); between two of these it is a tie.

    The lower middle of an even number, as levels have it, would favour the second.
    """
    samples = [each for each in detail.get("samples", ()) if each is not None]
    return float(median(samples)) if samples else value


def _failed(pair: JudgedPair) -> bool:
    return any(order.status == "failed" for found in pair.verdicts.values() for order in found.orders)


def _notes(base: Run, head: Run, pairs: Sequence[JudgedPair]) -> Iterator[str]:
    if base.record.suite != head.record.suite:
        yield "the suites' cases are not the same: outputs are judged by head's cases"
    failed = [pair for pair in pairs if _failed(pair)]
    if failed:
        of_one = (order for found in failed[0].verdicts.values() for order in found.orders)
        why = next(order.reason for order in of_one if order.status == "failed")
        yield f"{len(failed):,} of {len(pairs):,} pairs got no answer: {why}"
    orders = [order for pair in pairs for found in pair.verdicts.values() for order in found.orders]
    for method, count in Counter(order.method for order in orders if order.method).items():
        yield f"{count:,} of {len(orders):,} verdicts are by {method}"
    unasked = sum(pair.how != "judged" for pair in pairs)
    if unasked:
        yield f"{unasked:,} of {len(pairs):,} pairs needed no judge: equal outputs or failed attempts"


VALUES: dict[Verdict, float] = {"win": 1.0, "tie": 0.5, "loss": 0.0}


def of_both_orders(base_first: OrderVerdict, head_first: OrderVerdict) -> DimensionVerdict:
    """Combine the verdicts of both orders: the common one, else a tie; none if one is missing."""
    said = (base_first.verdict, head_first.verdict)
    if None in said:
        return DimensionVerdict(verdict=None, consistent=None, orders=(base_first, head_first))
    same = said[0] == said[1]
    return DimensionVerdict(
        verdict=said[0] if same else "tie", consistent=same, orders=(base_first, head_first)
    )


def figure(pairs: Sequence[JudgedPair], dimension: str, *, level: float) -> PairFigure:
    """How head does against base in one dimension.

    Args:
        pairs: All pairs; those without the dimension count as unjudged.
        dimension: Which.
        level: Of the interval, in (0, 1).
    """
    codes = {group: code for code, group in enumerate(dict.fromkeys(pair.group for pair in pairs))}
    values: list[float] = []
    groups: list[int] = []
    counts: Counter[str] = Counter()
    nets: Counter[int] = Counter()
    for pair in pairs:
        found = pair.verdicts.get(dimension)
        if found is None or found.verdict is None:
            counts["unjudged"] += 1
            continue
        values.append(VALUES[found.verdict])
        groups.append(codes[pair.group])
        counts[found.verdict] += 1
        nets[codes[pair.group]] += {"win": 1, "tie": 0, "loss": -1}[found.verdict]
        if found.orders:
            counts["both"] += 1
            counts["inconsistent"] += not found.consistent
            counts[_followed(found)] += 1
    interval = mean_interval(values, groups, level=level) if values else None
    return PairFigure(
        win_rate=sum(values) / len(values) if values else None,
        ci95=None if interval is None else (interval.low, interval.high),
        groups=len(set(groups)),
        method=None if interval is None else interval.method,
        wins=counts["win"],
        losses=counts["loss"],
        ties=counts["tie"],
        unjudged=counts["unjudged"],
        inconsistent=counts["inconsistent"],
        for_first=counts["first"],
        for_second=counts["second"],
        position_bias=(counts["first"] + counts["second"]) / counts["both"] if counts["both"] else None,
        p=sign_test(sum(net > 0 for net in nets.values()), sum(net < 0 for net in nets.values())),
    )


def _followed(found: DimensionVerdict) -> str:
    """The position that won in both orders, although it held another output each time."""
    said = [order.verdict for order in found.orders]
    return {"loss win": "first", "win loss": "second"}.get(" ".join(map(str, said)), "neither")
