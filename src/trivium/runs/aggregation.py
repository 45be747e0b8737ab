"""Aggregates evaluations in one pass, and says why an attempt did not pass."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import compress
from operator import itemgetter
from typing import Generic, NamedTuple, TypeVar

from trivium.metrics.evaluation import Evaluation, pass_rule, verdict_is_missing
from trivium.metrics.metric import Score, is_missing
from trivium.runs.columns import Clusters, Column, NumberBuffer
from trivium.runs.reducers import REDUCERS, Reducer
from trivium.runs.summary import Failure
from trivium.store.records import EvaluationOutline, RunRecord, ScoreOutline
from trivium.store.store import Store
from trivium.suites.case import Case
from trivium.suites.settings import Settings
from trivium.suites.suite import Suite

FAILURES_SHOWN = 100
_EVALUATIONS_AT_ONCE = 32
"""Evaluations aggregated at once, few enough for the processor's cache. It changes no figure."""

Judged = Evaluation | EvaluationOutline

T = TypeVar("T")


class Aggregation:
    """Counts and columns of a run's evaluations, added case by case in the order of the suite.

    Args:
        settings: Of the run.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.clusters = Clusters()
        self.columns: dict[str, Column] = {}
        self.absent: dict[int, int] = {}
        """Number of missing attempts, by the index of their case among the cases added."""
        self.composite = Column("composite", "composite", self.clusters, self.absent)
        self.verdicts = Column("pass_rate", "composite", self.clusters, self.absent)
        self.recommendations: Counter[str] = Counter()
        self._covered = 0.0
        self.tallies: NumberBuffer[int] = NumberBuffer("I")
        """Numbers of verdicts and passes of every case, one after the other."""
        self.case_clusters = Clusters()
        self.cases = 0
        """Cases of the suite, with or without evaluations."""
        self._waiting: list[tuple[int, Sequence[Judged]]] = []
        self._waiting_figures: list[tuple[int, dict[str, Score]]] = []
        self._waiting_evaluations = 0
        self._worst: list[tuple[float, int, Failure]] = []
        self._worst_cutoff = float("inf")
        self.failures_seen = 0
        self.passed = 0
        self.failed = 0
        self.attempts = 0
        self.failed_attempts = 0

    @property
    def every_column(self) -> dict[str, Column]:
        """All columns by name, ``composite`` and ``pass_rate`` among them."""
        return self.columns | {"composite": self.composite, "pass_rate": self.verdicts}

    @property
    def missing(self) -> int:
        """Number of attempts that were due and are missing."""
        return sum(self.absent.values())

    @property
    def coverage(self) -> float:
        """Share of the composite's weight that was scored, averaged over attempts (spec: metrics, C.2).

        A missing attempt counts as 0. Failed attempts are left out: their composite is known without scores.
        """
        standing = self.attempts - self.failed_attempts + self.missing
        return self._covered / standing if standing else 1.0

    def add(self, cluster: str, together: Sequence[Judged], *, missing: int = 0) -> None:
        """Add the evaluations of a case.

        Args:
            cluster: Name of the case's cluster.
            together: Those that are repeats of one another.
            missing: How many more were due.
        """
        if missing > 0:
            self.absent[len(self.clusters) + len(self._waiting)] = missing
        self._waiting.append((_cluster_number(cluster), together))
        self._waiting_evaluations += len(together)
        if self._waiting_evaluations >= _EVALUATIONS_AT_ONCE:
            self.flush()

    def add_figures(self, cluster: str, scores: dict[str, Score]) -> None:
        """Add the figures of a case whose evaluations were added."""
        self._waiting_figures.append((_cluster_number(cluster), scores))

    def flush(self) -> None:
        """Move everything that waits into the columns, which is cheaper for many evaluations at a time."""
        places: list[int] = []
        counted: list[Judged] = []
        tallies: list[int] = []
        for place, (_, together) in enumerate(self._waiting, len(self.clusters)):
            for each in together:
                self._count(each)
            if self.settings.failed_attempts == "skip":
                together = [each for each in together if each.failed is None]  # noqa: PLW2901
            verdicts = [each.passed for each in together if each.passed is not None]
            tallies += (len(verdicts), sum(verdicts))
            places.extend([place] * len(together))
            counted.extend(together)
        self.clusters.extend([cluster for cluster, _ in self._waiting])
        self.tallies.extend(tallies)
        self._waiting, self._waiting_evaluations = [], 0
        reduce = REDUCERS[self.settings.reduce]
        failed = [each.failed is not None for each in counted]
        some_failed = any(failed)
        for name, rows in _by_metric([each.scores for each in counted]).items():
            self._column(name, rows.scores[0], self.clusters, self.absent).add(
                _at(places, rows.places),
                rows.scores,
                reduce,
                failed=_at(failed, rows.places) if some_failed else None,
            )
        self._add_composites(places, counted, reduce)
        passed = [None if each.passed is None else float(each.passed) for each in counted]
        self._add_verdicts(places, counted, passed, reduce)
        for cluster, figures in self._waiting_figures:
            self._add_figures(figures, cluster)
        self._waiting_figures = []

    def _add_composites(self, places: list[int], counted: Sequence[Judged], reduce: Reducer) -> None:
        folded = [each.composite for each in counted]
        bounds = [composite.bounds for composite in folded]
        self.composite.add_values(
            places,
            [composite.value for composite in folded],
            reduce,
            statuses=[composite.status for composite in folded],
            bounds=bounds,
            missing=[
                _missing_part(each) for each, ends in zip(counted, bounds, strict=True) if ends is not None
            ],
        )
        for each in counted:
            if each.composite.recommendation is not None:
                self.recommendations[each.composite.recommendation] += 1
            if each.failed is None:
                self._covered += each.composite.coverage

    def _add_verdicts(
        self, places: list[int], counted: Sequence[Judged], passed: Sequence[float | None], reduce: Reducer
    ) -> None:
        undecided = [
            verdict is None and verdict_is_missing(each.passed, each.scores, each.composite, self.settings)
            for verdict, each in zip(passed, counted, strict=True)
        ]
        self.verdicts.add_values(
            places,
            passed,
            reduce,
            bounds=[(0.0, 1.0) if one else None for one in undecided],
            missing=[why_no_verdict(each, self.settings) for each in compress(counted, undecided)],
        )

    def _add_figures(self, scores: dict[str, Score], cluster: int) -> None:
        """Add the figures of one case to the columns."""
        place = len(self.case_clusters)
        self.case_clusters.extend([cluster])
        for name, score in scores.items():
            column = self._column(name, score, self.case_clusters, {})
            column.add([place], [score], REDUCERS["mean"])

    def _column(
        self, name: str, score: Score | ScoreOutline, clusters: Clusters, absent: dict[int, int]
    ) -> Column:
        column = self.columns.get(name)
        if column is None:
            column = self.columns[name] = Column(name, score.tier, clusters, absent)
        return column

    def _count(self, evaluation: Judged) -> None:
        self.attempts += 1
        self.failed_attempts += evaluation.failed is not None
        if evaluation.passed is None:
            return
        if evaluation.passed:
            self.passed += 1
            return
        self.failed += 1
        self.failures_seen += 1
        value = -1.0 if evaluation.failed else (evaluation.composite.value or 0.0)
        if value < self._worst_cutoff:
            why = why_not_passed(evaluation, self.settings)
            failure = Failure(case=evaluation.case, repeat=evaluation.repeat, why=why)
            self._worst.append((value, self.failures_seen, failure))
            if len(self._worst) > 4 * FAILURES_SHOWN:
                self._worst = sorted(self._worst, key=itemgetter(0, 1))[:FAILURES_SHOWN]
                self._worst_cutoff = self._worst[-1][0]

    @property
    def failures(self) -> tuple[Failure, ...]:
        """The attempts that did not pass, worst first; FAILURES_SHOWN at most."""
        return tuple(failure for *_, failure in sorted(self._worst, key=itemgetter(0, 1))[:FAILURES_SHOWN])


def aggregate_run(store: Store, run: RunRecord, settings: Settings) -> Aggregation:
    """Aggregate the stored evaluations of a run."""
    aggregation = Aggregation(settings)
    figures = _Peekable(store.case_scores(run))
    evaluations = _Peekable(store.outlines(run))
    due = _attempts_due_per_case(store, run, settings)
    for position, cluster in enumerate(store.groups(run.suite, settings.group)):
        aggregation.cases += 1
        current = list(evaluations.at(position))
        missing = max(0, due - len(current))
        # Outputs of different people for one case are not repeats of one another.
        for together in [[one] for one in current] if run.kind == "human" and current else [current]:
            aggregation.add(cluster, together, missing=missing)
        for scores in figures.at(position):
            aggregation.add_figures(cluster, scores)
    aggregation.flush()
    return aggregation


def _attempts_due_per_case(store: Store, run: RunRecord, settings: Settings) -> int:
    """How many attempts of each case a run should have; 0 for people's own outputs."""
    if run.kind == "human":
        return 0
    if run.attempts_from is None or run.due is None:
        return settings.repeats
    return run.due // max(1, sum(1 for _ in store.groups(run.suite, settings.group)))


class _Peekable(Generic[T]):
    """Rows in ascending order of position, read one position at a time."""

    def __init__(self, rows: Iterator[tuple[int, T]]) -> None:
        self._rows = rows
        self._next = next(rows, None)

    def at(self, position: int) -> Iterator[T]:
        while self._next is not None and self._next[0] == position:
            yield self._next[1]
            self._next = next(self._rows, None)


class _Rows(NamedTuple):
    """Scores of one metric, and the indices of their evaluations; None if every evaluation has one."""

    places: list[int] | None
    scores: list[Score | ScoreOutline]


def _by_metric(scored: Sequence[Mapping[str, Score | ScoreOutline]]) -> dict[str, _Rows]:
    """Group the scores of evaluations by metric."""
    if not scored:
        return {}
    names = list(scored[0])
    if all(list(scores) == names for scores in scored):  # nearly always
        return {name: _Rows(None, [scores[name] for scores in scored]) for name in names}
    found: dict[str, tuple[list[int], list[Score | ScoreOutline]]] = {}
    for place, scores in enumerate(scored):
        for name, score in scores.items():
            rows, of_name = found.setdefault(name, ([], []))
            rows.append(place)
            of_name.append(score)
    return {name: _Rows(*rows) for name, rows in found.items()}


def _at(values: list[T], places: list[int] | None) -> list[T]:
    return values if places is None else [values[place] for place in places]


def _missing_part(evaluation: Judged) -> str:
    """Why a part of the composite is missing."""
    for name in evaluation.composite.parts:
        score = evaluation.scores.get(name)
        if score is not None and is_missing(score):
            return f"{name}: {score.reason or score.status}"
    return "a part is missing"


def _cluster_number(name: str) -> int:
    """Hash the name of a cluster to 63 bits, so that names need not be held in memory."""
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest()) >> 1


class IncrementalAggregation:
    """Aggregates evaluations while they are scored, if they come in the order of the suite.

    This saves reading them back from the store. Evaluations of recorded outputs mostly come in that order,
    those of an agent that answers many cases at once mostly do not: aggregation then stops.

    Args:
        suite: Whose cases are scored.
        settings: Of the run.
        lost: Whether it cannot be followed from the start.
    """

    def __init__(self, suite: Suite, settings: Settings, *, unordered: bool) -> None:
        self._suite = suite
        self._aggregation = None if unordered else Aggregation(settings)
        self._repeats = settings.repeats
        self._complete_cases = 0
        """Cases that have every attempt that is due."""
        self._latest = (-1, 0)
        self._cluster = ""
        self._together: list[Evaluation] = []
        self.repeats = unordered
        """Whether there may be several attempts of a case."""

    def add(self, cases: Sequence[tuple[int, Case]], evaluations: Sequence[Evaluation]) -> None:
        """Add evaluations.

        Args:
            cases: Position in the suite and case of each.
            evaluations: The evaluations, in the order in which they are stored.
        """
        if self._aggregation is None:
            return
        for (position, case), evaluation in zip(cases, evaluations, strict=True):
            before, self._latest = self._latest, (position, evaluation.repeat)
            if self._latest <= before:
                self._aggregation, self._together, self.repeats = None, [], True
                return
            if position == before[0]:
                self._together.append(evaluation)
                self.repeats = True
            else:
                self._add_case(self._aggregation)
                self._cluster = self._suite.group_of(case)
                self._together = [evaluation]
        self._aggregation.flush()

    def aggregation(self) -> Aggregation | None:
        """The complete aggregation, or None if the evaluations must be read from the store.

        They must be if attempts are missing, because their cases were not seen.
        """
        if self._aggregation is not None:
            self._add_case(self._aggregation)
            self._aggregation.flush()
            self._aggregation.cases = len(self._suite)
        return self._aggregation if self._complete_cases == len(self._suite) else None

    def _add_case(self, aggregation: Aggregation) -> None:
        if self._together:
            aggregation.add(self._cluster, self._together)
            self._complete_cases += len(self._together) >= self._repeats


def why_not_passed(evaluation: Evaluation | EvaluationOutline, settings: Settings) -> str:
    """Why an evaluation did not pass, in a few words."""
    if evaluation.failed is not None:
        return evaluation.failed
    rule = pass_rule(evaluation.scores, settings)
    if rule.metric == "success":
        condition = settings.success_rule
        score = evaluation.scores.get(rule.metric)
        if condition.metric is None and score is not None and score.reason:
            return score.reason
        if condition.metric is not None and condition.at_least is not None:
            return _below_threshold(evaluation, condition.metric, condition.at_least)
        if condition.reward is not None:
            return f"reward is under {condition.reward:g}"
    return _below_threshold(evaluation, rule.metric, rule.at_least)


def why_no_verdict(evaluation: Evaluation | EvaluationOutline, settings: Settings) -> str:
    """Why an evaluation has no verdict, in a few words: the metric of its pass rule has no value."""
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
