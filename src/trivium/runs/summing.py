"""Summing up: a stored run made a Summary, in one pass and flat memory."""

from array import array
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import groupby
from operator import itemgetter

import msgspec
import numpy as np

from trivium.metrics.composite import (
    RECOMMENDATION_WEIGHTS,
    Composite,
    distance_to_threshold,
    recommend,
)
from trivium.metrics.registry import CASE_FIGURES
from trivium.metrics.score import Score
from trivium.runs.columns import Column
from trivium.runs.gates import gate_answers
from trivium.runs.judging.spent import spent_of
from trivium.runs.reducers import REDUCERS, Reducer, pass_at_k, pass_hat_k
from trivium.runs.summary import CompositeFigure, Failure, Figure, Rate, Summary
from trivium.runs.verdicts import why_not_passed
from trivium.runs.warnings import warnings_of
from trivium.store.outline import Outline, ScoreOutline
from trivium.store.records import RunRecord
from trivium.store.store import Store
from trivium.suites.settings import Settings
from trivium.trust.intervals import probability_of_change

_FAILURES_SHOWN = 100
_EVALUATIONS_AT_ONCE = 100


class _Gathering:
    """What one pass over the evaluations of a run leaves."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.clusters = array("q")
        self.columns: dict[str, Column] = {}
        self.composite = Column("composite", "composite", self.clusters)
        self.verdicts = Column("pass_rate", "composite", self.clusters)
        self.recommendations: Counter[str] = Counter()
        self.part_sums: defaultdict[str, float] = defaultdict(float)
        self.part_counts: Counter[str] = Counter()
        self.tallies = array("q")
        """(verdicts, passes) of every case, flat."""
        self.case_clusters = array("q")
        self._worst: list[tuple[float, int, Outline]] = []
        self.failures_seen = 0
        self.passed = 0
        self.failed = 0
        self.attempts = 0
        self.failed_attempts = 0

    @property
    def every_column(self) -> dict[str, Column]:
        return self.columns | {"composite": self.composite, "pass_rate": self.verdicts}

    def take(
        self, met: Sequence[tuple[int, Sequence[Outline]]], figures: Sequence[tuple[int, dict[str, Score]]]
    ) -> None:
        """Take in cases: the cluster and the evaluations of each, and of some the cluster and figures."""
        places: list[int] = []
        outlines: list[Outline] = []
        for cluster, of_case in met:
            for evaluation in of_case:
                self._count(evaluation)
            kept = of_case
            if self.settings.failed_attempts == "skip":
                kept = [evaluation for evaluation in of_case if evaluation.failed is None]
            verdicts = [evaluation.passed for evaluation in kept if evaluation.passed is not None]
            self.tallies.extend((len(verdicts), sum(verdicts)))
            places.extend([len(self.clusters)] * len(kept))
            self.clusters.append(cluster)
            outlines.extend(kept)
        reduce = REDUCERS[self.settings.reduce]
        by_name: dict[str, tuple[list[int], list[ScoreOutline]]] = {}
        for place, outline in zip(places, outlines, strict=True):
            for name, score in outline.scores.items():
                if name not in by_name:
                    by_name[name] = ([], [])
                cases, scores = by_name[name]
                cases.append(place)
                scores.append(score)
        for name, (cases, scores) in by_name.items():
            self._column(name, scores[0], self.clusters).add(cases, scores, reduce)
        self._take_composites(places, [outline.composite for outline in outlines], reduce)
        passed = [None if outline.passed is None else float(outline.passed) for outline in outlines]
        self.verdicts.add_values(places, passed, reduce)
        for cluster, scores_of_case in figures:
            self._take_figures(scores_of_case, cluster)

    def _take_composites(self, places: Sequence[int], folded: Sequence[Composite], reduce: Reducer) -> None:
        self.composite.add_values(
            places,
            [composite.value for composite in folded],
            reduce,
            statuses=[composite.status for composite in folded],
        )
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
        self.case_clusters.append(cluster)
        for name, score in scores.items():
            self._column(name, score, self.case_clusters).add([place], [score], REDUCERS["mean"])

    def _column(self, name: str, score: Score | ScoreOutline, clusters: "array[int]") -> Column:
        column = self.columns.get(name)
        if column is None:
            column = self.columns[name] = Column(name, score.tier, clusters)
        return column

    def _count(self, evaluation: Outline) -> None:
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
        self._worst.append((value, self.failures_seen, evaluation))
        if len(self._worst) > 4 * _FAILURES_SHOWN:
            self._worst = sorted(self._worst)[:_FAILURES_SHOWN]

    @property
    def failures(self) -> tuple[Failure, ...]:
        """The attempts that did not pass, worst first, as many as are shown."""
        return tuple(
            Failure(case=each.case, repeat=each.repeat, why=why_not_passed(each, self.settings))
            for _, _, each in sorted(self._worst)[:_FAILURES_SHOWN]
        )


def summarise(store: Store, run: RunRecord) -> Summary:
    """What a run says.

    A metric that the suite did not name and that applied nowhere is left out, and named in a warning.

    Args:
        store: Where it is.
        run: The run; it need not be finished.
    """
    settings = msgspec.convert(run.settings, Settings)
    gathered, cases = _gathered(store, run, settings)
    due = max(gathered.attempts, run.due or cases * settings.repeats)
    missing = due - gathered.attempts
    level = settings.level
    columns = _shown(gathered.columns, settings.metrics)
    table = {
        name: column.figure(level=level, missing=0 if name in CASE_FIGURES else missing)
        for name, column in columns.items()
    }
    table |= _figures_of_the_run(gathered, level)
    rate = gathered.verdicts.figure(level=level, missing=missing)
    composite = _composite(gathered, level=level, missing=missing)
    ceiling, unlike = _human_ceiling(store, run, gathered.columns)
    summary = Summary(
        run=run.id,
        suite=run.suite_name,
        cases=cases,
        attempts=gathered.attempts,
        total_tests=due,
        passed=gathered.passed,
        failed=gathered.failed,
        missing=missing,
        errors={
            "attempts": gathered.failed_attempts,
            "scores": sum(column.status["error"] for column in gathered.columns.values()),
        },
        pass_rate=Rate(
            value=rate.mean,
            ci95=rate.ci95,
            n=rate.n,
            groups=rate.groups,
            method=rate.method,
            coverage=rate.coverage,
        ),
        metrics=table,
        dimension_averages={
            name: figure.mean
            for name, figure in table.items()
            if figure.tier == "judge" and figure.mean is not None and not name.endswith(".overall")
        },
        composite=composite,
        human_ceiling=ceiling,
        failures=gathered.failures,
        failures_left_out=max(0, gathered.failures_seen - _FAILURES_SHOWN),
        gates=(),
        warnings=(),
        spent=spent_of(store, run, settings),
        metadata={"level": level, "resamples": settings.resamples, "seed": settings.seed},
    )
    return msgspec.structs.replace(
        summary,
        gates=gate_answers(settings, gathered.every_column),
        warnings=(*warnings_of(summary, settings, gathered.columns, shown=set(columns)), *unlike),
    )


def columns_of(store: Store, run: RunRecord) -> dict[str, Column]:
    """Every figure of a run over its cases by name, ``composite`` and ``pass_rate`` among them."""
    gathered, _ = _gathered(store, run, msgspec.convert(run.settings, Settings))
    return gathered.every_column


def _gathered(store: Store, run: RunRecord, settings: Settings) -> tuple[_Gathering, int]:
    """What one pass over a run leaves, and the number of its cases."""
    gathered = _Gathering(settings)
    cases = 0
    figures = _Peekable(store.case_scores(run))
    evaluations = _by_case(store, run)
    position, current = next(evaluations, (-1, []))
    met: list[tuple[int, list[Outline]]] = []
    met_figures: list[tuple[int, dict[str, Score]]] = []
    waiting = 0
    for at, name in enumerate(store.groups(run.suite, settings.group)):
        cases += 1
        cluster = _code(name)
        if at == position:
            # What several people wrote of one case are no repeats of one another.
            apart = [[one] for one in current] if run.kind == "human" else [current]
            met.extend((cluster, together) for together in apart)
            waiting += len(current)
            position, current = next(evaluations, (-1, []))
        met_figures.extend((cluster, scores) for scores in figures.at(at))
        if waiting >= _EVALUATIONS_AT_ONCE:
            gathered.take(met, met_figures)
            met, met_figures, waiting = [], [], 0
    gathered.take(met, met_figures)
    return gathered, cases


def _code(name: str) -> int:
    """A number for the name of a cluster: 63 bits, so that names need not be kept to tell them apart."""
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest()) >> 1


def _by_case(store: Store, run: RunRecord) -> Iterator[tuple[int, list[Outline]]]:
    for position, together in groupby(store.outlines(run), key=itemgetter(0)):
        yield position, [outline for _, outline in together]


class _Peekable:
    """Rows that rise by position, taken as the cases go by."""

    def __init__(self, rows: Iterator[tuple[int, dict[str, Score]]]) -> None:
        self._rows = rows
        self._next = next(rows, None)

    def at(self, position: int) -> Iterator[dict[str, Score]]:
        while self._next is not None and self._next[0] == position:
            yield self._next[1]
            self._next = next(self._rows, None)


def _shown(columns: dict[str, Column], asked_for: Sequence[str] | None) -> dict[str, Column]:
    if asked_for is not None:
        return columns
    return {
        name: column
        for name, column in columns.items()
        if set(column.status) != {"skipped"} or column.tier == "judge"
    }


def _figures_of_the_run(gathered: _Gathering, level: float) -> dict[str, Figure]:
    """pass@k and pass^k, over the cases with at least k attempts (spec: metrics, Repeats)."""
    tallies = np.array(gathered.tallies, dtype=np.int64).reshape(-1, 2)
    most = int(tallies[:, 0].max(initial=0))
    if most < 2:
        return {}
    figures = {}
    for symbol, chance in (("@", pass_at_k), ("^", pass_hat_k)):
        for k in _ks(most):
            column = Column(f"pass{symbol}{k}", "composite", gathered.clusters)
            chances = [
                chance(attempts, successes, k) if attempts >= k else None
                for attempts, successes in tallies.tolist()
            ]
            column.add_values(range(len(chances)), chances, REDUCERS["mean"])
            figures[column.name] = column.figure(level=level, missing=0)
    return figures


def _ks(most: int) -> list[int]:
    """1 to 5, then doubling, and the largest."""
    ks = [k for k in range(1, 6) if k <= most]
    while ks[-1] * 2 <= most:
        ks.append(ks[-1] * 2)
    return ks if ks[-1] == most else [*ks, most]


def _composite(gathered: _Gathering, *, level: float, missing: int) -> CompositeFigure | None:
    settings = gathered.settings.composite
    if not any(settings.weights.values()):
        return None
    column = gathered.composite
    figure = column.figure(level=level, missing=missing)
    bars = settings.thresholds
    change = None
    if figure.mean is not None:
        edges = np.array([bars.weak_reject, bars.weak_accept, bars.accept])
        change = probability_of_change(
            column.values,
            column.groups,
            lambda means: np.digitize(means, edges),
            resamples=gathered.settings.resamples,
            rng=np.random.default_rng(gathered.settings.seed),
        )
    return CompositeFigure(
        mean=figure.mean,
        ci95=figure.ci95,
        n=figure.n,
        coverage=figure.coverage,
        groups=figure.groups,
        status=figure.status,
        method=figure.method,
        recommendation=None if figure.mean is None else recommend(figure.mean, bars),
        distance=None if figure.mean is None else distance_to_threshold(figure.mean, bars),
        p_change=change,
        recommendations={
            name: gathered.recommendations[name]
            for name in RECOMMENDATION_WEIGHTS
            if gathered.recommendations[name]
        },
        parts={
            name: gathered.part_sums[name] / gathered.part_counts[name]
            if gathered.part_counts[name]
            else None
            for name, weight in settings.weights.items()
            if weight
        },
    )


def _human_ceiling(
    store: Store, run: RunRecord, columns: Mapping[str, Column]
) -> tuple[dict[str, Figure] | None, tuple[str, ...]]:
    """Figures of people's own outputs, and warnings of those that are left out.

    Scores made in unlike ways (another encoder, other parts of ``similarity``) are not compared, so a figure
    of people's that was made in another way than the run's is left out (spec: metrics, T1.3).

    Args:
        store: Where the runs are.
        run: The run that is summed up; people's own runs have no ceiling.
        columns: Its figures.
    """
    human = store.human_run(run.suite) if run.kind != "human" else None
    if human is None or human.summary is None:
        return None, ()
    figures = msgspec.convert(human.summary["metrics"], dict[str, Figure])
    theirs = _methods(store, human)
    ours = {name: set(column.methods) for name, column in columns.items()}
    kept, warnings = {}, []
    for name, figure in figures.items():
        if figure.tier != "text" or figure.mean is None:
            continue
        if name in columns and columns[name].mean is not None and _how(name, ours) != _how(name, theirs):
            warnings.append(
                f"the human ceiling of {name} is left out: run {human.id} scored people by "
                f"{', '.join(sorted(_how(name, theirs)))}"
            )
        else:
            kept[name] = figure
    return kept, tuple(warnings)


def _methods(store: Store, run: RunRecord) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for _, outline in store.outlines(run):
        for name, score in outline.scores.items():
            if score.method is not None:
                found.setdefault(name, set()).add(score.method)
    return found


def _how(name: str, methods: dict[str, set[str]]) -> set[str]:
    """How a metric was made, the encoder included where it has a part in it."""
    own = methods.get(name, set())
    leaning = any("semantic" in method for method in own)
    return own | methods.get("semantic", set()) if leaning else own
