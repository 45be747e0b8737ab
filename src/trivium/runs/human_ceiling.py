"""Compares a run with people's own outputs, scored in the same way.

Definition: docs/definitions/agreement.md#human-ceiling.

Each person's output is scored against the other people's outputs of its case: n - 1 of n references. A run's
output is scored against all n, which favours it, because the best of n references is at least as close as the
best of n - 1. For a fair comparison, the run is therefore scored with each reference left out in turn, and
these values are averaged.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from trivium.metrics.registry import metric_class
from trivium.runs.case_values import Clusters
from trivium.runs.columns import Column
from trivium.runs.summary import Figure, HumanFigure
from trivium.store.records import EvaluationOutline, RunRecord, ScoreOutline
from trivium.store.store import Store
from trivium.suites.settings import Settings
from trivium.values import record_of

SUCCESS = "success"

Values = defaultdict[str, dict[int, list[float]]]
"""By metric and position in the suite, the values."""

Methods = defaultdict[str, set[str]]
"""By metric, the methods that computed it."""


def human_ceiling(
    store: Store, run: RunRecord, columns: Mapping[str, Column]
) -> tuple[dict[str, HumanFigure] | None, tuple[str, ...]]:
    """Compare a run with the newest run of people's own outputs on the same suite.

    Metrics that were computed in different ways (another encoder, other weights, another version of the
    metric, another reduction of several references) are left out.

    Args:
        store: The store that holds the runs.
        run: The run; a run of people's outputs has no ceiling.
        columns: Its columns by metric.

    Returns:
        Figures by metric, or None without a run of people's outputs; and a warning for each metric left out.
    """
    humans = store.human_runs(run.suite) if run.kind != "human" else []
    if not humans:
        return None, ()
    settings = run.settings
    comparable = [each for each in humans if each.settings.references == settings.references]
    if not comparable:
        why = f"run {humans[0].id} scored people with other settings"
        return None, (f"the human ceiling is left out: {why} (references: {settings.references} here)",)
    human = comparable[0]
    theirs, their_methods = _scored(store, human, None)
    ours, our_methods = _scored(store, run, settings)
    clusters = list(store.groups(run.suite, settings.group))
    versions = human.provenance.metrics, run.provenance.metrics
    figures: dict[str, HumanFigure] = {}
    warnings = []
    for name, people in theirs.items():
        measured = name in columns and columns[name].mean is not None
        if not measured:
            figures[name] = _beside(name, people, None, clusters, settings.level)
            continue
        why = _unlike(name, our_methods, their_methods, settings)
        if versions[0].get(name) != versions[1].get(name):
            why = f"by another version of {name}"
        common = people.keys() & ours[name].keys()
        if not why and not common:
            why = "on other cases, or by a rule that cannot leave one reference out"
        if why:
            warnings.append(f"the human ceiling of {name} is left out: run {human.id} scored people {why}")
            continue
        shared = {position: people[position] for position in sorted(common)}
        figures[name] = _beside(name, shared, ours[name], clusters, settings.level)
    return figures, tuple(warnings)


def leave_one_out_values(raw: Any, reduce: str) -> list[float] | None:
    """Return the values of a text score with each reference left out in turn.

    Args:
        raw: Raw value of the score: its value against each reference.
        reduce: ``best`` or ``mean``, the setting ``references``.

    Returns:
        One value per reference in [0, 1], or None if there are fewer than two references.
    """
    numbers = isinstance(raw, list) and all(type(value) in {int, float} for value in raw)
    if not numbers or len(raw) < 2:
        return None
    others = [[*raw[:place], *raw[place + 1 :]] for place in range(len(raw))]
    return [min(1.0, max(each) if reduce == "best" else sum(each) / len(each)) for each in others]


def _scored(store: Store, run: RunRecord, leave_out: Settings | None) -> tuple[Values, Methods]:
    """Collect the values of text metrics, and the methods of all metrics.

    Args:
        store: The store that holds the run.
        run: The run.
        leave_out: Settings of the run, to average over leaving each reference out; None for plain values.
    """
    values: Values = defaultdict(dict)
    methods: Methods = defaultdict(set)
    for position, outline in store.outlines(run):
        if leave_out is not None and outline.failed is not None and leave_out.failed_attempts == "skip":
            continue
        for name, score in outline.scores.items():
            if score.method is not None:
                methods[name].add(score.method)
            if score.tier != "text" or score.value is None:
                continue
            value = score.value if leave_out is None else _left_out(name, score, outline, leave_out)
            if value is not None:
                values[name].setdefault(position, []).append(value)
    return values, methods


def _left_out(name: str, score: ScoreOutline, outline: EvaluationOutline, settings: Settings) -> float | None:
    """Mean of a score over leaving each reference out in turn."""
    if name == SUCCESS and outline.failed is None:
        rule = settings.success_rule
        if rule.metric is None:
            return None
        decides = outline.scores.get(metric_class(rule.metric, settings).name)
        values = leave_one_out_values(decides.raw if decides is not None else None, settings.references)
        threshold = rule.at_least or 0.0
        return None if values is None else sum(value >= threshold for value in values) / len(values)
    if not isinstance(score.raw, list):
        return score.value
    values = leave_one_out_values(score.raw, settings.references)
    return None if values is None else sum(values) / len(values)


def _beside(
    name: str,
    people: Mapping[int, Sequence[float]],
    run: Mapping[int, Sequence[float]] | None,
    clusters: Sequence[str],
    level: float,
) -> HumanFigure:
    """Build the figures of people and of the run on the same cases, with the same weights."""
    figure = _figure(name, people, clusters, level)
    own = None
    if run is not None:
        means = {position: sum(run[position]) / len(run[position]) for position in people}
        weighed = {position: [means[position]] * len(values) for position, values in people.items()}
        own = _figure(name, weighed, clusters, level)
    return record_of(
        HumanFigure,
        figure,
        run_mean=None if own is None else own.mean,
        run_ci95=None if own is None else own.ci95,
    )


def _figure(
    name: str, values: Mapping[int, Sequence[float]], clusters: Sequence[str], level: float
) -> Figure:
    places = Clusters(clusters[position] for position, several in values.items() for _ in several)
    column = Column(name, "text", places)
    column.add_values(range(len(places)), list(chain(*values.values())))
    return column.figure(level=level)


def _unlike(name: str, ours: Methods, theirs: Methods, settings: Settings) -> str:
    """Describe the method of people's scores if it differs from the run's; otherwise empty."""
    needed = [name]
    if name == SUCCESS and (metric := settings.success_rule.metric) is not None:
        needed.append(metric_class(metric, settings).name)
    for each in needed:
        how = sorted(_how(each, theirs))
        if sorted(_how(each, ours)) != how:
            return f"by {', '.join(how)}"
    return ""


def _how(name: str, methods: Mapping[str, set[str]]) -> Iterator[str]:
    """The methods of a metric, with the encoder if it uses one."""
    own = methods.get(name, set())
    yield from own
    if name != "semantic" and any("semantic" in method for method in own):
        yield from methods.get("semantic", set())
