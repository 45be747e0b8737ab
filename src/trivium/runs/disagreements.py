"""Finds the judgements on which judges, people or two runs disagree."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from trivium.display import RichRepr
from trivium.errors import InputError
from trivium.metrics.evaluation import Evaluation
from trivium.metrics.metric import Score
from trivium.runs.items.files import Labels
from trivium.store.records import RunRecord
from trivium.store.store import Store
from trivium.values import Largest, is_number, list_, record_of

Kind = Literal["judges", "people", "runs"]
"""Judges of one panel, the judge and people's labels, or the judges of two runs."""

ROUNDING = 1e-9
"""Differences up to this are rounding: means of the same numbers may differ by it."""

MAX_LISTED = 200
"""Default number of disagreements that are listed."""

PEOPLE = "people"


class Opinion(msgspec.Struct, frozen=True, kw_only=True):
    """The score that a judge or people give.

    Attributes:
        by: The judge model, ``people``, or a model of another run.
        value: Score in [0, 1]; None for an abstention.
        reason: The reason given, or None.
    """

    by: str
    value: float | None
    reason: str | None = None


class Disagreement(msgspec.Struct, frozen=True, kw_only=True):
    """A dimension of an attempt on which opinions differ.

    Definition: docs/definitions/judge.md#disagreement.

    Attributes:
        case: Id of the case.
        repeat: Number of the repeat, from 0.
        dimension: The dimension judged.
        kind: Who is compared.
        apart: Spread: highest minus lowest value, in [0, 1]; None with fewer than two values.
        opinions: The opinions that are compared.
    """

    case: str
    repeat: int
    dimension: str
    kind: Kind
    apart: float | None
    opinions: tuple[Opinion, ...]


class Tally(msgspec.Struct, frozen=True, kw_only=True):
    """How often and by how much opinions on a dimension differ.

    Attributes:
        kind: Who is compared.
        dimension: The dimension.
        compared: Attempts with at least two opinions.
        agreed: Attempts on which all opinions are equal.
        abstained: Attempts on which some abstained and some gave a value.
        mean_apart: Mean spread over attempts with at least two values, or None.
        largest: The largest spread, or None.
        leaning: Bias: mean of the run's judge minus the other, in [-1, 1]; None within a panel.
    """

    kind: Kind
    dimension: str
    compared: int
    agreed: int
    abstained: int
    mean_apart: float | None
    largest: float | None
    leaning: float | None


class Disagreements(RichRepr, msgspec.Struct, frozen=True, kw_only=True):
    """Where the judges of a run disagree with each other, with people, or with another run's judges.

    Attributes:
        run: Id of the run.
        suite: Name of its suite.
        against: Id of the other run, or None.
        labels: The file of people's labels, or None.
        tallies: Counts by kind and dimension.
        found: The disagreements, largest spread first, then those in which some abstained.
        left_out: Number of further disagreements that are not in ``found``.
        notes: Reservations that change how to read the result.
    """

    run: str
    suite: str
    against: str | None
    labels: str | None
    tallies: tuple[Tally, ...]
    found: tuple[Disagreement, ...]
    left_out: int
    notes: tuple[str, ...]


def disagreements(
    store: Store,
    record: RunRecord,
    *,
    labels: str | Path | None = None,
    against: tuple[Store, RunRecord] | None = None,
    at_most: int = MAX_LISTED,
) -> Disagreements:
    """Find where a run's judges disagree with each other, with people's labels or with another run's judges.

    Only scores that a judge gave count; fallbacks do not.

    Args:
        store: The store that holds the run.
        record: The record of the run.
        labels: A file of people's labels, .jsonl or .csv.
        against: Store and record of another run of the same cases.
        at_most: Most disagreements to list, largest first; all are counted.

    Raises:
        ItemsError: If the labels cannot be read, or belong to attempts that the run does not have.
        InputError: If the runs have no judgement in common.
    """
    people = None if labels is None else Labels(labels)
    others = None if against is None else _opinions_of_run(*against)
    collector = _Collector(at_most)
    attempts: set[tuple[str, int]] = set()
    judgements = matched = 0
    for evaluation in (stored.evaluation for stored in store.evaluations(record)):
        attempts.add((evaluation.case, evaluation.repeat))
        for name, score in evaluation.scores.items():
            if not _is_judged(score):
                continue
            judgements += 1
            collector.add(evaluation, name, "judges", tuple(_votes(score)))
            key = (evaluation.case, evaluation.repeat, name)
            ours = Opinion(by=_judge(score), value=score.value, reason=score.reason)
            if people is not None and (label := people.value(key)) is not None:
                collector.add(evaluation, name, "people", (ours, Opinion(by=PEOPLE, value=label)))
            if others is not None and key in others:
                matched += 1
                collector.add(evaluation, name, "runs", (ours, others[key]))
    if people is not None:
        people.check_attempts(attempts)
    if against is not None and not matched:
        raise InputError(f"run {against[1].id}", f"has no judgement in common with run {record.id}")
    return collector.result(
        run=record.id,
        suite=record.suite_name,
        against=None if against is None else against[1].id,
        labels=None if people is None else people.source,
        notes=tuple(_notes(judgements, collector)),
    )


class _Collector:
    """Collects opinions in one pass: counts, and the largest disagreements."""

    def __init__(self, at_most: int) -> None:
        self._tallies: dict[tuple[Kind, str], _Counts] = {}
        self._at_most = at_most
        self._largest: Largest[Disagreement] = Largest(at_most)

    @property
    def kinds(self) -> set[Kind]:
        """The kinds of comparison that occurred."""
        return {kind for kind, _ in self._tallies}

    def add(self, evaluation: Evaluation, dimension: str, kind: Kind, opinions: tuple[Opinion, ...]) -> None:
        """Add the opinions on one dimension of one attempt."""
        if len(opinions) < 2:
            return
        values = [opinion.value for opinion in opinions if opinion.value is not None]
        spread = max(values) - min(values) if len(values) > 1 else None
        counts = self._tallies.setdefault((kind, dimension), _Counts())
        counts.add(opinions, spread, some_abstained=0 < len(values) < len(opinions))
        if not values or (len(values) == len(opinions) and (spread or 0) <= ROUNDING):
            return
        self._largest.add(
            -1.0 if spread is None else spread,
            lambda: Disagreement(
                case=evaluation.case,
                repeat=evaluation.repeat,
                dimension=dimension,
                kind=kind,
                apart=spread,
                opinions=opinions,
            ),
        )

    def result(self, **fields: Any) -> Disagreements:
        """Return the result, largest disagreements first."""
        order: dict[Kind, int] = {"people": 0, "judges": 1, "runs": 2}
        return Disagreements(
            tallies=tuple(
                counts.tally(kind, dimension)
                for (kind, dimension), counts in sorted(
                    self._tallies.items(), key=lambda item: order[item[0][0]]
                )
            ),
            found=self._largest.items(),
            left_out=max(0, self._largest.seen - self._at_most),
            **fields,
        )


class _Counts:
    def __init__(self) -> None:
        self.compared = self.agreed = self.abstained = self.measured = 0
        self.spread = self.bias = 0.0
        self.largest: float | None = None

    def add(self, opinions: Sequence[Opinion], spread: float | None, *, some_abstained: bool) -> None:
        self.compared += 1
        self.abstained += some_abstained
        self.agreed += not some_abstained and (spread or 0) <= ROUNDING
        if spread is None:
            return
        self.measured += 1
        self.spread += spread
        self.largest = max(spread, self.largest or 0.0)
        self.bias += (opinions[0].value or 0.0) - (opinions[-1].value or 0.0)

    def tally(self, kind: Kind, dimension: str) -> Tally:
        has_values = self.measured > 0
        return record_of(
            Tally,
            self,
            kind=kind,
            dimension=dimension,
            mean_apart=self.spread / self.measured if has_values else None,
            leaning=self.bias / self.measured if has_values and kind != "judges" else None,
        )


def _is_judged(score: Score) -> bool:
    return score.tier == "judge" and score.status in {"ok", "abstained"}


def _judge(score: Score) -> str:
    model = score.detail.get("model")
    return model if isinstance(model, str) else "the judge"


def _votes(score: Score) -> Iterator[Opinion]:
    """Yield the votes of a panel; imported files may contain any JSON here."""
    votes = score.detail.get("votes")
    for vote in list_(votes):
        if isinstance(vote, Mapping):
            value, reason = vote.get("value"), vote.get("reason")
            if value is None or is_number(value):
                yield Opinion(
                    by=str(vote.get("model", "a judge")),
                    value=value,
                    reason=reason if isinstance(reason, str) else None,
                )


def _opinions_of_run(store: Store, record: RunRecord) -> dict[tuple[str, int, str], Opinion]:
    """Return the opinions of a run's judges by case, repeat and dimension."""
    return {
        (evaluation.case, evaluation.repeat, name): Opinion(
            by=f"{_judge(score)} in {record.id}", value=score.value, reason=score.reason
        )
        for evaluation in (stored.evaluation for stored in store.evaluations(record))
        for name, score in evaluation.scores.items()
        if _is_judged(score)
    }


def _notes(judgements: int, collector: _Collector) -> Iterator[str]:
    if not judgements:
        yield "nothing in this run was judged"
    elif not collector.kinds:
        yield "each attempt has one judge; compare it with a panel (judge.panel), labels or another run"
