"""Judged scores of a stored run, joined with people's labels (spec: files, items)."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np

from trivium.errors import ItemsError, suggest
from trivium.metrics.evaluation import Evaluation
from trivium.metrics.score import Score
from trivium.runs.items.item import Item
from trivium.runs.items.labels import Labels
from trivium.runs.items.table import ItemTable, Origin, TableBuilder, Unlabelled
from trivium.runs.judging.certificates import stated_or_certified, way_of_judging
from trivium.store.records import RunRecord
from trivium.store.store import Store
from trivium.suites.settings import Settings

SCALE = (0.0, 1.0)
"""Scores and labels lie in [0, 1]."""


def items_of_run(store: Store, run: RunRecord, *, dimension: str, labels: Labels) -> ItemTable:
    """One item for every labelled attempt: what was judged, what people say, how sure the judge is.

    Args:
        store: Where the run is.
        run: The run.
        dimension: The judged dimension, or any other metric.
        labels: What people say.

    Raises:
        ItemsError: If nobody labelled the dimension, the run never scored it, or a label is of an attempt
            that the run does not have.
    """
    labels.check_dimension(dimension)
    builder = TableBuilder(_origin(store, run, dimension), scale=SCALE)
    seen: set[tuple[str, int]] = set()
    known: set[str] = set()
    statuses: Counter[str] = Counter()
    failed: dict[str, int] = {}
    included: set[str] = set()
    rest_groups: list[str] = []
    rest_values: list[float] = []
    models: set[str | None] = set()
    prompts: set[str | None] = set()
    for group, evaluation in _evaluations(store, run):
        seen.add((evaluation.case, evaluation.repeat))
        known.update(evaluation.scores)
        truth = labels.value((evaluation.case, evaluation.repeat, dimension))
        score = evaluation.scores.get(dimension)
        if evaluation.failed is not None:
            failed[group] = failed.get(group, 0) + 1
            continue
        pred = judged(score)
        if truth is None:
            if pred is not None:
                rest_groups.append(group)
                rest_values.append(pred)
            continue
        included.add(group)
        if pred is not None and score is not None and score.tier == "judge":
            models.add(_text(score.detail.get("model")))
            prompts.add(_text(score.detail.get("prompt")))
        if pred is None:
            statuses[score.status if score is not None else "missing"] += 1
        builder.add(_item(group, dimension, pred, truth, score), 0)
    labels.check_attempts(seen)
    if dimension not in known:
        hint = suggest(dimension, known)
        raise ItemsError(
            f"run {run.id}", f'has no score "{dimension}".{hint} It has: {", ".join(sorted(known))}'
        )
    for group in failed.keys() - included:
        builder.add(Item(group=group, success=False), 0)
    rest = Unlabelled(groups=tuple(rest_groups), pred=np.array(rest_values, np.float64))
    spoken: dict[str, Any] = {
        key: run.provenance[key] for key in ("judges", "prompts") if key in run.provenance
    }
    settings = msgspec.convert(run.settings, Settings)
    judged_by = {
        "models": sorted(models, key=str),
        "prompts": sorted(prompts, key=str),
        **way_of_judging(dimension, settings, run.provenance),
    }
    return builder.table(
        notes=tuple(_notes(statuses, failed, included)),
        rest=rest,
        provenance=spoken,
        judged_by=judged_by if models else None,
    )


def labelled_items(store: Store, run: RunRecord, labels: Labels) -> Iterator[Item]:
    """The items of all labelled dimensions, in the order of the suite, as they stand in a file."""
    for group, evaluation in _evaluations(store, run):
        for dimension in labels.of(evaluation.case, evaluation.repeat):
            truth = labels.value((evaluation.case, evaluation.repeat, dimension))
            score = evaluation.scores.get(dimension)
            if truth is not None and score is not None and evaluation.failed is None:
                item = _item(group, dimension, judged(score), truth, score)
                yield msgspec.structs.replace(item, confidence=stated_or_certified(score.detail))


def judged(score: Score | None) -> float | None:
    """The judgement itself: what stood in for one is none."""
    return score.value if score is not None and score.status == "ok" else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _item(group: str, dimension: str, pred: float | None, truth: float, score: Score | None) -> Item:
    detail = {} if score is None else score.detail
    sure, signals = detail.get("confidence"), detail.get("signals")
    return Item(
        group=group,
        item=dimension,
        pred=pred,
        gt=truth,
        confidence=float(sure) if isinstance(sure, int | float) and not isinstance(sure, bool) else None,
        signals=signals if isinstance(signals, dict) else None,
    )


def _evaluations(store: Store, run: RunRecord) -> Iterator[tuple[str, Evaluation]]:
    """The group and evaluation of every attempt, in the order of the suite."""
    settings = msgspec.convert(run.settings, Settings)
    groups = list(store.groups(run.suite, settings.group))
    return ((groups[stored.position], stored.evaluation) for stored in store.evaluations(run))


def _origin(store: Store, run: RunRecord, dimension: str) -> Origin:
    git = run.provenance.get("git")
    return Origin(
        path=store.name,
        run_id=run.id,
        git_commit=git.get("commit") if isinstance(git, dict) else None,
        mode=dimension,
    )


def _notes(statuses: Counter[str], failed: dict[str, int], included: set[str]) -> Iterator[str]:
    if statuses:
        parts = ", ".join(f"{count:,} {status}" for status, count in statuses.items())
        yield f"labelled attempts without a judgement count as abstentions: {parts}"
    partly = sum(count for group, count in failed.items() if group in included)
    if partly:
        yield f"{partly:,} failed attempts of groups that have others are left out"
