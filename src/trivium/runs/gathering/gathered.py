"""Gathered: what one pass over the evaluations of a run leaves, in flat memory."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from operator import itemgetter
from typing import Generic, TypeVar

from trivium.metrics.composite import Composite
from trivium.metrics.evaluation import Evaluation
from trivium.metrics.score import Score
from trivium.runs.gathering.columns import Column
from trivium.runs.gathering.flat import Clusters, Flat
from trivium.runs.reducers import REDUCERS
from trivium.runs.summary import Failure
from trivium.runs.verdicts import why_not_passed
from trivium.store.outline import Outline, ScoreOutline
from trivium.store.records import RunRecord
from trivium.store.store import Store
from trivium.suites.settings import Settings

FAILURES_SHOWN = 100
_EVALUATIONS_AT_ONCE = 32
"""Few enough to be in the processor's cache still. How many they are changes no figure."""

Judged = Evaluation | Outline

T = TypeVar("T")


class Gathered:
    """Evaluations taken in case by case, in the order of the suite.

    Args:
        settings: Of the run.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.clusters = Clusters()
        self.columns: dict[str, Column] = {}
        self.composite = Column("composite", "composite", self.clusters)
        self.verdicts = Column("pass_rate", "composite", self.clusters)
        self.recommendations: Counter[str] = Counter()
        self.part_sums: defaultdict[str, float] = defaultdict(float)
        self.part_counts: Counter[str] = Counter()
        self.tallies: Flat[int] = Flat("I")
        """(verdicts, passes) of every case, flat."""
        self.case_clusters = Clusters()
        self.cases = 0
        """Of the suite, whether they have evaluations or not."""
        self._waiting: list[tuple[int, Sequence[Judged]]] = []
        self._waiting_figures: list[tuple[int, dict[str, Score]]] = []
        self._waiting_evaluations = 0
        self._worst: list[tuple[float, int, Failure]] = []
        self._bar = float("inf")
        self.failures_seen = 0
        self.passed = 0
        self.failed = 0
        self.attempts = 0
        self.failed_attempts = 0

    @property
    def every_column(self) -> dict[str, Column]:
        """All columns by name, ``composite`` and ``pass_rate`` among them."""
        return self.columns | {"composite": self.composite, "pass_rate": self.verdicts}

    def take(self, cluster: str, together: Sequence[Judged]) -> None:
        """Take in the evaluations of a case.

        Args:
            cluster: Name of the case's cluster.
            together: All that are repeats of one another.
        """
        self._waiting.append((_code(cluster), together))
        self._waiting_evaluations += len(together)
        if self._waiting_evaluations >= _EVALUATIONS_AT_ONCE:
            self.settle()

    def take_figures(self, cluster: str, scores: dict[str, Score]) -> None:
        """Take in the figures of a case, when its evaluations are in."""
        self._waiting_figures.append((_code(cluster), scores))

    def settle(self) -> None:
        """Leave nothing waiting: what is taken in becomes columns many at a time."""
        places: list[int] = []
        kept: list[Judged] = []
        tallies: list[int] = []
        for place, (_, together) in enumerate(self._waiting, len(self.clusters)):
            for each in together:
                self._count(each)
            if self.settings.failed_attempts == "skip":
                together = [each for each in together if each.failed is None]  # noqa: PLW2901
            verdicts = [each.passed for each in together if each.passed is not None]
            tallies += (len(verdicts), sum(verdicts))
            places.extend([place] * len(together))
            kept.extend(together)
        self.clusters.extend([cluster for cluster, _ in self._waiting])
        self.tallies.extend(tallies)
        self._waiting, self._waiting_evaluations = [], 0
        reduce = REDUCERS[self.settings.reduce]
        for name, (cases, scores) in _by_metric(places, [each.scores for each in kept]).items():
            self._column(name, scores[0], self.clusters).add(cases, scores, reduce)
        folded = [each.composite for each in kept]
        values = [composite.value for composite in folded]
        statuses = [composite.status for composite in folded]
        self.composite.add_values(places, values, reduce, statuses=statuses)
        passed = [None if each.passed is None else float(each.passed) for each in kept]
        self.verdicts.add_values(places, passed, reduce)
        self._take_parts(folded)
        for cluster, figures in self._waiting_figures:
            self._take_figures(figures, cluster)
        self._waiting_figures = []

    def _take_parts(self, folded: Sequence[Composite]) -> None:
        for composite in folded:
            if composite.recommendation is not None:
                self.recommendations[composite.recommendation] += 1
            for name, value in composite.parts.items():
                if value is not None:
                    self.part_sums[name] += value
                    self.part_counts[name] += 1

    def _take_figures(self, scores: dict[str, Score], cluster: int) -> None:
        """Take in the figures of one case."""
        place = len(self.case_clusters)
        self.case_clusters.extend([cluster])
        for name, score in scores.items():
            self._column(name, score, self.case_clusters).add([place], [score], REDUCERS["mean"])

    def _column(self, name: str, score: Score | ScoreOutline, clusters: Clusters) -> Column:
        column = self.columns.get(name)
        if column is None:
            column = self.columns[name] = Column(name, score.tier, clusters)
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
        if value < self._bar:
            why = why_not_passed(evaluation, self.settings)
            failure = Failure(case=evaluation.case, repeat=evaluation.repeat, why=why)
            self._worst.append((value, self.failures_seen, failure))
            if len(self._worst) > 4 * FAILURES_SHOWN:
                self._worst = sorted(self._worst, key=itemgetter(0, 1))[:FAILURES_SHOWN]
                self._bar = self._worst[-1][0]

    @property
    def failures(self) -> tuple[Failure, ...]:
        """The attempts that did not pass, worst first, as many as are shown."""
        return tuple(failure for *_, failure in sorted(self._worst, key=itemgetter(0, 1))[:FAILURES_SHOWN])


def read_back(store: Store, run: RunRecord, settings: Settings) -> Gathered:
    """What is stored of a run, gathered."""
    gathered = Gathered(settings)
    figures = _Peekable(store.case_scores(run))
    evaluations = _Peekable(store.outlines(run))
    for position, cluster in enumerate(store.groups(run.suite, settings.group)):
        gathered.cases += 1
        current = list(evaluations.at(position))
        # What several people wrote of one case are no repeats of one another.
        for together in [[one] for one in current] if run.kind == "human" else [current]:
            if together:
                gathered.take(cluster, together)
        for scores in figures.at(position):
            gathered.take_figures(cluster, scores)
    gathered.settle()
    return gathered


class _Peekable(Generic[T]):
    """Rows that rise by position, taken as the cases go by."""

    def __init__(self, rows: Iterator[tuple[int, T]]) -> None:
        self._rows = rows
        self._next = next(rows, None)

    def at(self, position: int) -> Iterator[T]:
        while self._next is not None and self._next[0] == position:
            yield self._next[1]
            self._next = next(self._rows, None)


def _by_metric(
    places: list[int], scored: Sequence[Mapping[str, Score | ScoreOutline]]
) -> dict[str, tuple[list[int], list[Score | ScoreOutline]]]:
    """Places of cases and scores by metric."""
    if not scored:
        return {}
    names = list(scored[0])
    if all(list(scores) == names for scores in scored):  # as nearly always
        return {name: (places, [scores[name] for scores in scored]) for name in names}
    found: dict[str, tuple[list[int], list[Score | ScoreOutline]]] = {}
    for place, scores in zip(places, scored, strict=True):
        for name, score in scores.items():
            cases, of_name = found.setdefault(name, ([], []))
            cases.append(place)
            of_name.append(score)
    return found


def _code(name: str) -> int:
    """A number for the name of a cluster: 63 bits, so that names need not be kept to tell them apart."""
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest()) >> 1
