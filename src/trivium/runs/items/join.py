"""Joins stored scores with people's labels into items."""

from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence

import msgspec
import numpy as np

from trivium.errors import ItemsError, TrustError, suggest
from trivium.metrics.evaluation import Evaluation
from trivium.metrics.metric import Score
from trivium.runs.certificates import (
    judging_conditions,
    stated_or_certified,
)
from trivium.runs.items.files import Labels
from trivium.runs.items.records import Item
from trivium.runs.items.table import ItemTable, Origin, TableBuilder, Unlabelled
from trivium.store.records import Provenance, RunRecord, StoredEvaluation
from trivium.store.store import Store
from trivium.suites.certificate import JudgedBy
from trivium.values import is_number, nonempty_text

SCALE = (0.0, 1.0)
"""Scores and labels lie in [0, 1]."""


def items_of_run(store: Store, run: RunRecord, *, dimension: str, labels: Labels) -> ItemTable:
    """Build an item for every labelled attempt: the score, the label and the judge's confidence.

    Args:
        store: The store that holds the run.
        run: The run.
        dimension: The judged dimension, or any other metric.
        labels: People's labels.

    Raises:
        ItemsError: If the dimension has no label or no score, or a label belongs to an attempt that the run
            does not have.
    """
    return items_of_runs(store, [run], dimension=dimension, labels=labels)


def items_of_runs(
    store: Store,
    runs: Sequence[RunRecord],
    *,
    dimension: str,
    labels: Labels,
    only: Container[tuple[int, int]] | None = None,
) -> ItemTable:
    """Build the items of several runs that were judged alike, such as those of a monitor's days.

    Args:
        store: The store that holds the runs.
        runs: The runs, at least one; no case is in two of them.
        dimension: The judged dimension, or any other metric.
        labels: People's labels.
        only: Only the attempts at these (number of the run, position of the case).

    Raises:
        ItemsError: As :func:`items_of_run`.
        TrustError: If the runs were judged in different ways.
    """
    labels.check_dimension(dimension)
    run = runs[-1]
    judging = [judging_conditions(dimension, each.settings, each.provenance) for each in runs]
    if any(each != judging[-1] for each in judging):
        raise TrustError(
            "these samples were judged in different ways (rubric, scale or number of answers): take only "
            "those since the last change"
        )
    join = _Join(_origin(store, run, dimension), dimension, labels)
    for one in runs:
        for group, stored in _evaluations(store, one):
            join.count(group, stored.evaluation)
            if only is None or (one.number, stored.position) in only:
                join.add(group, stored.evaluation)
    join.check(run)
    return join.table(run.provenance, judging[-1])


class _Join:
    """Joins evaluations with the labels of a dimension, one after the other."""

    def __init__(self, origin: Origin, dimension: str, labels: Labels) -> None:
        self._builder = TableBuilder(origin, scale=SCALE)
        self._dimension, self._labels = dimension, labels
        self._attempts: set[tuple[str, int]] = set()
        self._known: set[str] = set()
        self._statuses: Counter[str] = Counter()
        self._failed: Counter[str] = Counter()
        self._included: set[str] = set()
        self._rest_groups: list[str] = []
        self._rest_values: list[float] = []
        self._sizes: Counter[str] = Counter()
        self._models: set[str | None] = set()
        self._prompts: set[str | None] = set()

    def count(self, group: str, evaluation: Evaluation) -> None:
        """Count an attempt towards the size of its group, labelled or not, if the dimension applies to it."""
        self._sizes[group] += self._dimension in evaluation.scores

    def add(self, group: str, evaluation: Evaluation) -> None:
        """Add the evaluation of an attempt: an item, a score without a label, or a failure."""
        self._attempts.add((evaluation.case, evaluation.repeat))
        self._known.update(evaluation.scores)
        if evaluation.failed is not None:
            self._failed[group] += 1
            return
        key = (evaluation.case, evaluation.repeat, self._dimension)
        truth, score = self._labels.value(key), evaluation.scores.get(self._dimension)
        pred = judged(score)
        if truth is None:
            if pred is not None:
                self._rest_groups.append(group)
                self._rest_values.append(pred)
            return
        self._included.add(group)
        if pred is not None and score is not None and score.tier == "judge":
            self._models.add(nonempty_text(score.detail.get("model")))
            self._prompts.add(nonempty_text(score.detail.get("prompt")))
        if pred is None:
            self._statuses[score.status if score is not None else "missing"] += 1
        self._builder.add(
            _item(group, self._dimension, pred, truth, score),
            0,
            weight=self._labels.weight(key),
            at_random=self._labels.is_at_random(key),
        )

    def check(self, run: RunRecord) -> None:
        """Check that all labels belong to an attempt, and that some attempt has a score.

        Raises:
            ItemsError: If not.
        """
        self._labels.check_attempts(self._attempts)
        if self._dimension not in self._known:
            hint = suggest(self._dimension, self._known)
            what = f'has no score "{self._dimension}".{hint} It has: {", ".join(sorted(self._known))}'
            raise ItemsError(f"run {run.id}", what)

    def table(self, provenance: Provenance, judging: JudgedBy) -> ItemTable:
        """The items, with the provenance of their run and the conditions under which they were judged."""
        for group in self._failed.keys() - self._included:
            self._builder.add(Item(group=group, success=False), 0)
        models, prompts = (tuple(sorted(found, key=str)) for found in (self._models, self._prompts))
        judged_by = msgspec.structs.replace(judging, models=models, prompts=prompts)
        known = {"judges": provenance.judges, "prompts": provenance.prompts}
        table = self._builder.table(
            notes=(*self._labels.notes, *_notes(self._statuses, self._failed, self._included)),
            rest=Unlabelled(groups=tuple(self._rest_groups), pred=np.array(self._rest_values, np.float64)),
            provenance={key: value for key, value in known.items() if value is not None},
            judged_by=judged_by if self._models else None,
        )
        named = sorted(model for model in self._models if model is not None)
        origin = msgspec.structs.replace(table.origin, judge=", ".join(named) or None)
        return msgspec.structs.replace(
            table, origin=origin, group_size=(max(1, *self._sizes.values()), "run")
        )


def labelled_items(store: Store, run: RunRecord, labels: Labels) -> Iterator[Item]:
    """Yield the items of all labelled dimensions as records of a file, in suite order."""
    for group, stored in _evaluations(store, run):
        evaluation = stored.evaluation
        for dimension in labels.of(evaluation.case, evaluation.repeat):
            truth = labels.value((evaluation.case, evaluation.repeat, dimension))
            score = evaluation.scores.get(dimension)
            if truth is not None and score is not None and evaluation.failed is None:
                item = _item(group, dimension, judged(score), truth, score)
                yield msgspec.structs.replace(item, confidence=stated_or_certified(score.detail))


def judged(score: Score | None) -> float | None:
    """Return the value of a judgement; None for a fallback."""
    return score.value if score is not None and score.status == "ok" else None


def _item(group: str, dimension: str, pred: float | None, truth: float, score: Score | None) -> Item:
    detail = {} if score is None else score.detail
    confidence, signals = detail.get("confidence"), detail.get("signals")
    return Item(
        group=group,
        item=dimension,
        pred=pred,
        gt=truth,
        confidence=float(confidence) if is_number(confidence) else None,
        signals=signals if isinstance(signals, dict) else None,
    )


def _evaluations(store: Store, run: RunRecord) -> Iterator[tuple[str, StoredEvaluation]]:
    """Yield the group and evaluation of every attempt, in suite order."""
    groups = list(store.groups(run.suite, run.settings.group))
    return ((groups[stored.position], stored) for stored in store.evaluations(run))


def _origin(store: Store, run: RunRecord, dimension: str) -> Origin:
    git = run.provenance.git
    return Origin(
        path=store.name,
        run_id=run.id,
        git_commit=git.commit if git else None,
        mode=dimension,
    )


def _notes(statuses: Counter[str], failed: Mapping[str, int], included: set[str]) -> Iterator[str]:
    if statuses:
        parts = ", ".join(f"{count:,} {status}" for status, count in statuses.items())
        yield f"labelled attempts without a judgement count as abstentions: {parts}"
    partly = sum(count for group, count in failed.items() if group in included)
    if partly:
        yield f"{partly:,} failed attempts of groups that have others are left out"


def attempts_of(store: Store, run: RunRecord) -> set[tuple[str, int]]:
    """Return (case, repeat) of every attempt that a run scored."""
    return {(stored.evaluation.case, stored.evaluation.repeat) for stored in store.evaluations(run)}
