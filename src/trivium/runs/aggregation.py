"""Aggregates evaluations in one pass, in one process or several, and explains why an attempt did not pass."""

# ruff: noqa: SLF001 - what is merged is of the same class

from collections import Counter
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from itertools import compress, groupby
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from trivium.agents.attempt import Attempt
from trivium.metrics.evaluation import (
    RECOMMENDATION_WEIGHTS,
    TOLERANCE,
    Evaluation,
    is_missing,
    may_recommend,
    measures_result,
    nearest_threshold,
    pass_rule,
    recommend,
    verdict_is_missing,
)
from trivium.metrics.metric import Score
from trivium.number_buffer import NumberBuffer
from trivium.runs.case_values import REDUCERS, Clusters, Sum, pass_at_k, pass_hat_k
from trivium.runs.columns import Column
from trivium.runs.costs import AgentTally
from trivium.runs.summary import CompositeFigure, Failure, Figure
from trivium.store.records import EvaluationOutline, RunRecord, ScoreOutline, outline_of
from trivium.suites.settings import Settings
from trivium.trust.intervals import probability_of_change
from trivium.values import Largest, record_of

if TYPE_CHECKING:
    from trivium.store.store import Store

FAILURES_SHOWN = 100
_EVALUATIONS_AT_ONCE = 32
"""Evaluations aggregated at once, few enough for the processor's cache. It does not change any result."""

AnyEvaluation = Evaluation | EvaluationOutline

T = TypeVar("T")


class Aggregation:
    """Counts and columns of a run's evaluations, which are added case by case in suite order.

    Args:
        settings: Settings of the run.
        part: Whether it is of a part of the run's attempts; see :meth:`merge`.
    """

    def __init__(self, settings: Settings, *, part: bool = False) -> None:
        self.settings = settings
        self._part = part
        self.clusters = Clusters()
        self.columns: dict[str, Column] = {}
        self.absent: dict[int, int] = {}
        """Number of missing attempts, by the index of their case among the cases added."""
        self.composite = self._new_column("composite", "composite")
        self.verdicts = self._new_column("pass_rate", "composite")
        self.recommendations: Counter[str] = Counter()
        self._coverage = Sum()
        self.verdict_counts: NumberBuffer[int] = NumberBuffer("I", self.clusters.file)
        """Number of verdicts and number of passes of every case, alternating."""
        self.case_clusters = Clusters()
        self.cases = 0
        """Cases of the suite, with or without evaluations."""
        self._queue: list[tuple[int, Sequence[AnyEvaluation]]] = []
        self._queued_case_scores: list[tuple[int, dict[str, Score]]] = []
        self._queued_evaluations = 0
        self._worst: Largest[Failure] = Largest(FAILURES_SHOWN)
        self.passed = 0
        self.failed = 0
        self.attempts = 0
        self.failed_attempts = 0
        self.agent = AgentTally()

    @property
    def all_columns(self) -> dict[str, Column]:
        """All columns by name, ``composite`` and ``pass_rate`` among them."""
        return self.columns | {"composite": self.composite, "pass_rate": self.verdicts}

    @property
    def missing(self) -> int:
        """Number of missing attempts."""
        return sum(self.absent.values())

    @property
    def coverage(self) -> float:
        """Share of the composite's weight that was scored, averaged over attempts.

        Definition: docs/definitions/scores.md#composite-coverage.

        A missing attempt counts as 0. Failed attempts are left out: their composite is known without scores.
        """
        counted = self._coverage.count + self.missing
        return self._coverage.value / counted if counted else 1.0

    def add(self, cluster: str, of_case: Sequence[AnyEvaluation], *, missing: int = 0) -> None:
        """Add the evaluations of a case.

        Args:
            cluster: Name of the case's cluster.
            of_case: The evaluations, repeats of one another.
            missing: Number of missing attempts of the case.
        """
        if missing > 0:
            self.absent[len(self.clusters) + len(self._queue)] = missing
        self._queue.append((_cluster_number(cluster), of_case))
        self._queued_evaluations += len(of_case)
        if self._queued_evaluations >= _EVALUATIONS_AT_ONCE:
            self.flush()

    def add_case_scores(self, cluster: str, scores: dict[str, Score]) -> None:
        """Add the scores of a case whose evaluations have been added."""
        self._queued_case_scores.append((_cluster_number(cluster), scores))

    def flush(self) -> None:
        """Move the queued evaluations into the columns; adding many at a time is cheaper."""
        indices: list[int] = []
        included: list[AnyEvaluation] = []
        verdict_counts: list[int] = []
        for index, (_, of_case) in enumerate(self._queue, len(self.clusters)):
            for each in of_case:
                self._count(each)
            if self.settings.failed_attempts == "skip":
                of_case = [each for each in of_case if each.failed is None]  # noqa: PLW2901
            verdicts = [each.passed for each in of_case if each.passed is not None]
            verdict_counts += (len(verdicts), sum(verdicts))
            indices.extend([index] * len(of_case))
            included.extend(of_case)
        self.clusters.extend([cluster for cluster, _ in self._queue])
        self.verdict_counts.extend(verdict_counts)
        self._queue, self._queued_evaluations = [], 0
        failed = [each.failed is not None for each in included]
        some_failed = any(failed)
        for name, (rows, scores) in _by_metric(included).items():
            self._column(name, scores[0].tier).add(
                [indices[row] for row in rows],
                scores,
                failed=[failed[row] for row in rows] if some_failed else None,
            )
        self._add_composites(indices, included)
        self._add_verdicts(indices, included)
        for cluster, case_scores in self._queued_case_scores:
            self._add_case_scores(case_scores, cluster)
        self._queued_case_scores = []

    def _add_composites(self, indices: list[int], included: Sequence[AnyEvaluation]) -> None:
        composites = [each.composite for each in included]
        bounds = [composite.bounds for composite in composites]
        self.composite.add_values(
            indices,
            [composite.value for composite in composites],
            statuses=[composite.status for composite in composites],
            bounds=bounds,
            missing=[
                _missing_part(each) for each, ends in zip(included, bounds, strict=True) if ends is not None
            ],
        )
        for each in included:
            if each.composite.recommendation is not None:
                self.recommendations[each.composite.recommendation] += 1
        self._coverage.add([each.composite.coverage for each in included if each.failed is None])

    def _add_verdicts(self, indices: list[int], included: Sequence[AnyEvaluation]) -> None:
        undecided = [
            verdict_is_missing(each.passed, each.scores, each.composite, self.settings) for each in included
        ]
        self.verdicts.add_values(
            indices,
            [None if each.passed is None else float(each.passed) for each in included],
            bounds=[(0.0, 1.0) if one else None for one in undecided],
            missing=[why_no_verdict(each, self.settings) for each in compress(included, undecided)],
        )

    def _add_case_scores(self, scores: dict[str, Score], cluster: int) -> None:
        """Add the scores of one case to the columns."""
        index = len(self.case_clusters)
        self.case_clusters.extend([cluster])
        for name, score in scores.items():
            if name not in self.columns:
                self.columns[name] = Column(name, score.tier, self.case_clusters)
            self.columns[name].add([index], [score])

    def _column(self, name: str, tier: str) -> Column:
        if name not in self.columns:
            self.columns[name] = self._new_column(name, tier)
        return self.columns[name]

    def _new_column(self, name: str, tier: str) -> Column:
        reduce = REDUCERS[self.settings.reduce]
        return Column(name, tier, self.clusters, self.absent, reduce=reduce, part=self._part)

    def merge(self, part: "Aggregation") -> None:
        """Add the aggregation of further cases, which has no missing attempts and no scores of cases.

        The result is that of adding their evaluations: it does not depend on how a run is divided.
        """
        self.flush()
        part.flush()
        first = len(self.clusters)
        self.clusters.join(part.clusters)
        self.verdict_counts.join(part.verdict_counts)
        for name, column in part.columns.items():
            self._column(name, column.tier).merge(column, first=first)
        self.composite.merge(part.composite, first=first)
        self.verdicts.merge(part.verdicts, first=first)
        self.recommendations.update(part.recommendations)
        self._coverage.merge(part._coverage)
        self._worst.merge(part._worst)
        self.passed += part.passed
        self.failed += part.failed
        self.attempts += part.attempts
        self.failed_attempts += part.failed_attempts
        self.agent.merge(part.agent)

    def _count(self, evaluation: AnyEvaluation) -> None:
        self.attempts += 1
        self.failed_attempts += evaluation.failed is not None
        if evaluation.passed is None:
            return
        if evaluation.passed:
            self.passed += 1
            return
        self.failed += 1
        value = -1.0 if evaluation.failed else (evaluation.composite.value or 0.0)
        self._worst.add(
            -value,
            lambda: Failure(
                case=evaluation.case, repeat=evaluation.repeat, why=why_not_passed(evaluation, self.settings)
            ),
        )

    @property
    def failures(self) -> tuple[Failure, ...]:
        """The attempts that did not pass, worst first; at most ``FAILURES_SHOWN``."""
        return self._worst.items()


def composite_figure(aggregation: Aggregation, *, level: float) -> CompositeFigure | None:
    """The composite of a run; None if no metric has a weight."""
    settings = aggregation.settings.composite
    parts = [name for name, weight in settings.weights.items() if weight]
    if not parts:
        return None
    figure = aggregation.composite.figure(level=level)
    means = {name: aggregation.columns[name].mean if name in aggregation.columns else None for name in parts}
    result = any(
        mean is not None and measures_result(name, aggregation.columns[name].tier)
        for name, mean in means.items()
    )
    coverage = aggregation.coverage
    all_failed = 0 < aggregation.attempts == aggregation.failed_attempts
    why_none = None
    if figure.mean is None:
        why_none = "no part has a score"
    elif not (all_failed or may_recommend(coverage, settings, result=result)):
        why_none = "nothing that looks at the result has a score" if not result else "too little was measured"
    recommended = figure.mean if why_none is None else None
    threshold = None if recommended is None else nearest_threshold(recommended, settings.thresholds)
    return record_of(
        CompositeFigure,
        figure,
        coverage=coverage,
        recommendation=None if recommended is None else recommend(recommended, settings.thresholds),
        why_none=why_none,
        threshold=threshold,
        distance=None if recommended is None or threshold is None else abs(recommended - threshold),
        p_change=None if recommended is None else _probability_of_change(aggregation),
        recommendations={
            name: aggregation.recommendations[name]
            for name in RECOMMENDATION_WEIGHTS
            if aggregation.recommendations[name]
        },
        parts=means,
        asked=aggregation.settings.asks_for_composite,
    )


def _probability_of_change(aggregation: Aggregation) -> float | None:
    """Probability that other cases would lead to another recommendation.

    Definition: docs/definitions/scores.md#probability-of-change.
    """
    limits = aggregation.settings.composite.thresholds
    edges = (limits.weak_reject, limits.weak_accept, limits.accept)
    return probability_of_change(aggregation.composite.clustered_mean, [edge - TOLERANCE for edge in edges])


def pass_at_k_figures(aggregation: Aggregation, level: float) -> dict[str, Figure]:
    """Compute pass@k and pass^k over the cases with at least k attempts.

    Definitions: docs/definitions/scores.md#pass-at-k, docs/definitions/scores.md#pass-hat-k.
    """
    verdict_counts = aggregation.verdict_counts
    max_attempts = max((int(block[::2].max()) for block in verdict_counts.blocks()), default=0)
    if max_attempts < 2:
        return {}
    figures = {}
    for symbol, chance in (("@", pass_at_k), ("^", pass_hat_k)):
        for k in _ks(max_attempts):
            column = Column(f"pass{symbol}{k}", "composite", aggregation.clusters)
            first = 0
            for block in verdict_counts.blocks():
                chances = [
                    chance(attempts, successes, k) if attempts >= k else None
                    for attempts, successes in block.reshape(-1, 2).tolist()
                ]
                column.add_values(range(first, first + len(chances)), chances)
                first += len(chances)
            figures[column.name] = column.figure(level=level)
    return figures


def _ks(max_attempts: int) -> list[int]:
    """Return 1 to 5, then doubling, and the largest."""
    ks = [k for k in range(1, 6) if k <= max_attempts]
    while ks[-1] * 2 <= max_attempts:
        ks.append(ks[-1] * 2)
    return ks if ks[-1] == max_attempts else [*ks, max_attempts]


def aggregate_run(store: "Store", run: RunRecord, settings: Settings) -> Aggregation:
    """Aggregate the stored evaluations of a run."""
    aggregation = Aggregation(settings)
    for evaluated in evaluated_cases(store, run, settings):
        evaluated.add_to(aggregation)
    aggregation.flush()
    for usage in store.attempt_usages(run):
        aggregation.agent.add(usage)
    return aggregation


class EvaluatedCase(NamedTuple):
    """The stored evaluations of one case.

    Attributes:
        cluster: Name of the case's cluster.
        evaluations: Sequences of evaluations that are repeats of one another: one sequence per person for
            outputs by people, else one.
        missing: Number of missing attempts.
        case_scores: Scores of the case as a whole.
        asked: Whether the case was asked; others are not missing (``until_decided``, ``confirm``).
    """

    cluster: str
    evaluations: list[list[EvaluationOutline]]
    missing: int
    case_scores: list[dict[str, Score]]
    asked: bool

    def add_to(self, aggregation: Aggregation) -> None:
        """Add the case to an aggregation."""
        aggregation.cases += self.asked
        for of_case in self.evaluations:
            aggregation.add(self.cluster, of_case, missing=self.missing)
        for scores in self.case_scores:
            aggregation.add_case_scores(self.cluster, scores)


def evaluated_cases(store: "Store", run: RunRecord, settings: Settings) -> Iterator[EvaluatedCase]:
    """Yield the stored evaluations of every case of a run, in suite order."""
    due = _attempts_due_per_case(store, run, settings)
    clusters = store.groups(run.suite, settings.group)
    of_cases = zip(
        clusters, _by_position(store.outlines(run)), _by_position(store.case_scores(run)), strict=False
    )
    for cluster, current, case_scores in of_cases:
        asked = bool(current) or not (settings.until_decided or run.kind == "confirm")
        yield EvaluatedCase(
            cluster=cluster,
            # Outputs of different people for one case are not repeats of one another.
            evaluations=[[one] for one in current] if run.kind == "human" and current else [current] * asked,
            missing=max(0, due - len(current)) if asked else 0,
            case_scores=case_scores,
            asked=asked,
        )


def _attempts_due_per_case(store: "Store", run: RunRecord, settings: Settings) -> int:
    """Number of attempts of each case that a run should have; 0 for people's outputs."""
    if run.kind == "human":
        return 0
    if run.attempts_from is None or run.due is None:
        return settings.repeats
    return run.due // max(1, sum(1 for _ in store.groups(run.suite, settings.group)))


def _by_position(rows: Iterator[tuple[int, T]]) -> Iterator[list[T]]:
    """Yield what rows, which ascend, have at each position from 0 on; empty lists after the last."""
    following = 0
    for position, of_case in groupby(rows, itemgetter(0)):
        yield from ([] for _ in range(position - following))
        yield [row for _, row in of_case]
        following = position + 1
    while True:
        yield []


def _by_metric(
    evaluations: Sequence[AnyEvaluation],
) -> dict[str, tuple[list[int], list[Score | ScoreOutline]]]:
    """By metric, its scores and the indices of their evaluations."""
    found: dict[str, tuple[list[int], list[Score | ScoreOutline]]] = {}
    for index, evaluation in enumerate(evaluations):
        for name, score in evaluation.scores.items():
            rows, scores = found.setdefault(name, ([], []))
            rows.append(index)
            scores.append(score)
    return found


def _missing_part(evaluation: AnyEvaluation) -> str:
    """Explain why a part of the composite is missing."""
    for name in evaluation.composite.parts:
        score = evaluation.scores.get(name)
        if score is not None and is_missing(score):
            return f"{name}: {score.reason or score.status}"
    return "a part is missing"


def _cluster_number(name: str) -> int:
    """Hash the name of a cluster to 63 bits, so that names need not stay in memory."""
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest()) >> 1


def why_not_passed(evaluation: Evaluation | EvaluationOutline, settings: Settings) -> str:
    """Explain in a few words why an evaluation did not pass."""
    if evaluation.failed is not None:
        return evaluation.failed
    rule = pass_rule(evaluation.scores, settings)
    if rule.metric == "success":
        condition = settings.success_rule
        score = evaluation.scores.get(rule.metric)
        if condition.metric in {None, "turn_success"} and score is not None and score.reason:
            return score.reason
        if condition.metric is not None and condition.at_least is not None:
            return _below_threshold(evaluation, condition.metric, condition.at_least)
        if condition.reward is not None:
            return f"reward is under {condition.reward:g}"
    if rule.metric == "completed" and (score := evaluation.scores.get(rule.metric)) and score.reason:
        return score.reason  # the error that the trace recorded
    return _below_threshold(evaluation, rule.metric, rule.at_least)


def why_no_verdict(evaluation: Evaluation | EvaluationOutline, settings: Settings) -> str:
    """Explain in a few words why the metric of the pass rule has no value for an evaluation."""
    rule = pass_rule(evaluation.scores, settings)
    if rule.metric == "composite":
        return "parts of the composite are missing that would decide"
    score = evaluation.scores.get(rule.metric)
    if score is None:
        return f"{rule.metric} was not measured"
    return score.reason or f"{rule.metric} {score.status}"


def _below_threshold(evaluation: Evaluation | EvaluationOutline, name: str, threshold: float) -> str:
    score = evaluation.scores.get(name)
    value = evaluation.composite.value if name == "composite" else score.value if score else None
    if value is None:
        return f"{name} has no value"
    if value >= threshold:
        return f"{name} is {value:.3f}, but most of its judges are under {threshold:g}"
    return f"{name} {value:.3f} is under {threshold:g}"


def case_scores_of(
    store: "Store", run: RunRecord, settings: Settings
) -> Iterator[tuple[int, dict[str, Score]]]:
    """Yield (position, scores by name) of every case with at least two attempts that have a trace."""
    from trivium.metrics.graph.trajectories import path_agreement  # imported by runs with traces only

    ignored = frozenset(settings.tools.ignore)
    for position, stored in groupby(store.attempts(run), key=lambda one: one.position):
        traces = [one.attempt.trace for one in stored if not one.attempt.failed]
        sequences = [
            [call.name for call in trace.tool_calls if call.name not in ignored]
            for trace in traces
            if trace is not None
        ]
        if len(sequences) > 1:
            yield position, {"path_agreement": path_agreement(sequences)}


Place = tuple[int, str]
"""Position in the suite and cluster of a case."""


_Case = tuple[Place, list[AnyEvaluation]]
"""The evaluations of one case, repeats of one another."""


class IncrementalAggregation:
    """Aggregates evaluations while they are scored, as long as they arrive in suite order.

    This saves reading them back from the store. Recorded outputs mostly arrive in suite order. Attempts of an
    agent that answers many cases concurrently mostly do not: then aggregation stops at the first one out of
    order.

    Each process that scores a part of a run's attempts aggregates them likewise, and the main process
    only merges the parts. The first and the last case of a part are left unaggregated, because the parts
    before and after may have more attempts of them.

    Args:
        settings: Settings of the run.
        part: Whether it is of a part of the run's attempts.
        unordered: Whether aggregation is impossible from the start, as in a resumed run.
    """

    def __init__(self, settings: Settings, *, part: bool = False, unordered: bool = False) -> None:
        self._part = part
        self._aggregation = None if unordered else Aggregation(settings, part=part)
        self._repeats = settings.repeats
        self._complete_cases = 0
        """Number of cases that have all their attempts, of those aggregated."""
        self._latest = (-1, 0)
        self._first: _Case | None = None
        """The first case of a part, once there is another."""
        self._last: _Case | None = None
        self.repeats = unordered
        """Whether there may be several attempts of a case."""

    @property
    def active(self) -> bool:
        """Whether evaluations are still aggregated."""
        return self._aggregation is not None

    def add(
        self, places: Sequence[Place], attempts: Sequence[Attempt], evaluations: Sequence[Evaluation]
    ) -> None:
        """Add evaluations.

        Args:
            places: Position in the suite and cluster of the case of each.
            attempts: The attempt of each.
            evaluations: The evaluations, in the order of storing.
        """
        for place, attempt, evaluation in zip(places, attempts, evaluations, strict=True):
            if self._aggregation is None:
                return
            self._aggregation.agent.add(attempt)
            self._add(place, evaluation)
        if self._aggregation is not None:
            self._aggregation.flush()

    def merge(self, part: "IncrementalAggregation") -> None:
        """Add the attempts of a part that follow those added."""
        self.repeats |= part.repeats
        if part._aggregation is None:
            self._stop()
        self._add_all(part._first or part._last)
        if self._aggregation is not None and part._aggregation is not None:
            if len(part._aggregation.clusters):
                self._end_case()
            self._aggregation.merge(part._aggregation)
            self._complete_cases += part._complete_cases
        self._add_all(part._last if part._first else None)

    def finished(self) -> "IncrementalAggregation":
        """Itself, of a part that is complete, as it is sent to the main process."""
        if self._aggregation is not None:
            self._aggregation.flush()
        for case in (self._first, self._last):
            if case is not None:
                case[1][:] = map(outline_of, case[1])
        return self

    def aggregation(self, cases: int) -> Aggregation | None:
        """Return the complete aggregation, or None if the evaluations must be read from the store.

        The latter if any was out of order, or if attempts are missing: their cases were not added.

        Args:
            cases: Number of cases of the suite.
        """
        self._end_case()
        if self._aggregation is not None:
            self._aggregation.flush()
            self._aggregation.cases = cases
        return self._aggregation if self._complete_cases == cases else None

    def _add(self, place: Place, evaluation: AnyEvaluation) -> None:
        if self._aggregation is None:
            return
        before, self._latest = self._latest, (place[0], evaluation.repeat)
        if self._latest <= before:
            self._stop()
            return
        case = self._last
        if case is not None and case[0][0] == place[0]:
            self.repeats = True
        else:
            self._end_case()
            case = self._last = place, []
        case[1].append(evaluation)

    def _add_all(self, case: _Case | None) -> None:
        if case is not None:
            place, evaluations = case
            for evaluation in evaluations:
                self._add(place, evaluation)

    def _end_case(self) -> None:
        """Aggregate the last case, to which no attempt is added any more."""
        case, self._last = self._last, None
        if self._part and self._first is None:
            self._first = case
        elif case is not None and self._aggregation is not None:
            (_, cluster), evaluations = case
            self._aggregation.add(cluster, evaluations)
            self._complete_cases += len(evaluations) >= self._repeats

    def _stop(self) -> None:
        self._aggregation, self._first, self._last, self.repeats = None, None, None, True
