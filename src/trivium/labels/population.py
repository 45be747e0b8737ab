"""Reads the items that a queue may ask about, and what a labeller can answer."""

from collections.abc import Iterable, Mapping, Sequence
from math import nan
from typing import Any

import msgspec
import numpy as np

from trivium.errors import InputError, TrustError, suggest
from trivium.metrics.metric import Score
from trivium.store.labels import Choice
from trivium.store.records import RunRecord
from trivium.store.store import Store
from trivium.suites.rubrics.built_in import built_in_rubrics
from trivium.suites.rubrics.rubric import LIKERT_MOST, Dimension, Rubric
from trivium.trust.arrays import Floats, Ints
from trivium.values import is_number

STATED = "confidence"
"""Name of the confidence that a judge states itself."""

_SIGNALS = {
    "verbalized": "verbalized_confidence",
    "consistency": "consistency_modal_confidence",
}
"""Confidences that serve as a default, and a signal that each needs."""

PLAIN = (
    Choice(key="1", value=0.0, name="wrong"),
    Choice(key="2", value=0.5, name="partly right"),
    Choice(key="3", value=1.0, name="right"),
)
"""Answers where no rubric has the dimension."""

LIKERT = ("very poor", "poor", "fair", "good", "very good")


class Population(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """The n items of a queue, fixed when it was made.

    Attributes:
        runs: Ids of the runs.
        run: Index in ``runs`` of each item, shape (n,).
        position: Position of its case in the suite, shape (n,).
        repeat: Number of its repeat, shape (n,).
        group: Number of its cluster, shape (n,).
        prediction: The judge's score, in [0, 1], shape (n,); the mean of the others where there is none.
        uncertainty: How unsure the judge is, on any scale; NaN where unknown. Shape (n,).
        cases: Ids of the cases.
    """

    runs: tuple[str, ...]
    run: Ints
    position: Ints
    repeat: Ints
    group: Ints
    prediction: Floats
    uncertainty: Floats
    cases: tuple[str, ...]

    def __len__(self) -> int:
        return self.position.size

    def packed(self) -> bytes:
        """The same as bytes."""
        columns = {name: getattr(self, name).astype(kind).tobytes() for name, kind in _COLUMNS.items()}
        return msgspec.msgpack.encode({"runs": self.runs, "cases": self.cases, **columns})


_COLUMNS = {
    "run": "<i4",
    "position": "<i4",
    "repeat": "<i4",
    "group": "<i4",
    "prediction": "<f8",
    "uncertainty": "<f8",
}


def unpacked(body: bytes) -> Population:
    """Return the items that ``Population.packed`` wrote."""
    raw: dict[str, Any] = msgspec.msgpack.decode(body)
    columns: dict[str, Any] = {
        name: np.frombuffer(raw[name], kind).astype(np.int64 if "i" in kind else np.float64)
        for name, kind in _COLUMNS.items()
    }
    return Population(runs=tuple(raw["runs"]), cases=tuple(raw["cases"]), **columns)


def population_of(
    store: Store,
    runs: Sequence[RunRecord],
    dimension: str,
    *,
    uncertainty: str | None = None,
    only: Iterable[tuple[int, int]] | None = None,
) -> tuple[Population, str | None]:
    """Read the attempts of runs that a person can label, with the judge's scores of them.

    Failed attempts have no output to label and are left out.

    Args:
        store: The store.
        runs: The runs.
        dimension: The judged dimension, or any other metric.
        uncertainty: Name of the confidence whose complement is the uncertainty; None chooses the stated
            one, else the first that has its signals.
        only: Only the attempts at these (number of the run, position).

    Returns:
        The items, and the name of the confidence that was used, or None.

    Raises:
        InputError: If no attempt has a score of this name.
        TrustError: If the confidence is unknown.
    """
    wanted = None if only is None else frozenset(only)
    rows: list[tuple[int, int, int, str]] = []
    scores: list[Score | None] = []
    cases: list[str] = []
    known: set[str] = set()
    for index, run in enumerate(runs):
        groups = list(store.groups(run.suite, run.settings.group))
        for stored in store.evaluations(run):
            evaluation = stored.evaluation
            known.update(evaluation.scores)
            if evaluation.failed is not None or (
                wanted is not None and (run.number, stored.position) not in wanted
            ):
                continue
            rows.append((index, stored.position, evaluation.repeat, groups[stored.position]))
            scores.append(evaluation.scores.get(dimension))
            cases.append(evaluation.case)
    if dimension not in known:
        named = f"run {runs[0].id}" if runs else "the queue"
        raise InputError(
            named,
            f'has no score "{dimension}".{suggest(dimension, known)} It has: {", ".join(sorted(known))}',
        )
    if not rows:
        raise InputError("", "every attempt failed: there is nothing to label")
    codes = {name: code for code, name in enumerate(dict.fromkeys(row[3] for row in rows))}
    predictions = np.array([_value(score) for score in scores], np.float64)
    missing = np.isnan(predictions)
    predictions[missing] = predictions[~missing].mean() if not missing.all() else 0.5
    name, unsure = _uncertainties(scores, uncertainty)
    unsure[missing & ~np.isnan(unsure).all()] = np.inf  # an abstention is the least sure of all
    items = Population(
        runs=tuple(run.id for run in runs),
        run=np.array([row[0] for row in rows], np.int64),
        position=np.array([row[1] for row in rows], np.int64),
        repeat=np.array([row[2] for row in rows], np.int64),
        group=np.array([codes[row[3]] for row in rows], np.int64),
        prediction=predictions,
        uncertainty=unsure,
        cases=tuple(cases),
    )
    return items, name


def _value(score: Score | None) -> float:
    return nan if score is None or score.status != "ok" or score.value is None else score.value


def _uncertainties(scores: Sequence[Score | None], name: str | None) -> tuple[str | None, Any]:
    """The complement of each confidence; NaN where a judgement lacks the signals for it."""
    details: list[Mapping[str, Any]] = [{} if score is None else score.detail for score in scores]
    if name is None:
        name = _default(details)
    if name is None:
        return None, np.full(len(scores), nan)
    if name == STATED:
        return name, -np.array([_number(detail.get(STATED)) for detail in details], np.float64)
    from trivium.trust.confidence.functions import confidence

    confidence(name, [])  # an unknown name is an error at once

    def of(detail: Mapping[str, Any]) -> float:
        signals = detail.get("signals")
        if not isinstance(signals, dict):
            return nan
        try:
            return float(confidence(name, [signals]).values[0])
        except TrustError:
            return nan

    return name, -np.array([of(detail) for detail in details], np.float64)


def _default(details: Sequence[Mapping[str, Any]]) -> str | None:
    if any(detail.get(STATED) is not None for detail in details):
        return STATED
    for name, signal in _SIGNALS.items():
        if any(signal in (detail.get("signals") or {}) for detail in details):
            return name
    return None


def _number(value: Any) -> float:
    return float(value) if is_number(value) else nan


def choices_for(run: RunRecord, dimension: str) -> tuple[str, tuple[Choice, ...]]:
    """Return what a labeller assesses and the answers, as the rubric of the run has them.

    Where no rubric has the dimension, the answers are wrong, partly right and right.
    """
    settings = run.settings
    own = [] if settings.judge is None else settings.judge.rubric
    rubrics = [each for each in own if isinstance(each, Rubric)]
    for rubric in (*rubrics, *built_in_rubrics().values()):
        for each in rubric.dimensions:
            if dimension in {each.name, f"{rubric.name}.{each.name}"}:
                judge = settings.judge
                scale = rubric.scale or ("ratio" if judge is None else judge.scale)
                return each.asks, _choices(each, scale)
    return "", PLAIN


def _choices(dimension: Dimension, scale: str) -> tuple[Choice, ...]:
    if dimension.criteria:
        low = 0 if scale == "ratio" else 1
        return tuple(
            Choice(key=str(point), value=(point - low) / (LIKERT_MOST - low), name=LIKERT[point - 1])
            for point in range(1, LIKERT_MOST + 1)
        )
    if dimension.claims or dimension.aspects:
        return PLAIN
    ordered = sorted(dimension.level_values.items(), key=lambda level: level[1])
    return tuple(
        Choice(
            key=str(place),
            value=value,
            name=name,
            means=getattr(dimension.levels[name], "means", ""),
        )
        for place, (name, value) in enumerate(ordered[:9], start=1)
    )
