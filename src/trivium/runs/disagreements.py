"""Finds the judgements on which judges, people or two runs disagree."""

import heapq
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

Kind = Literal["judges", "people", "runs"]
"""Judges of one panel, the judge and people's labels, or the judges of two runs."""


class Opinion(msgspec.Struct, frozen=True, kw_only=True):
    """The opinion of one judge, or of people.

    Attributes:
        by: Who: a model, ``people``, or a model of another run.
        value: In [0, 1]; None where it abstained.
        reason: In its words, or None.
    """

    by: str
    value: float | None
    reason: str | None = None


class Disagreement(msgspec.Struct, frozen=True, kw_only=True):
    """One dimension of one attempt on which opinions differ.

    Attributes:
        case: Id of the case.
        repeat: Which attempt of the case.
        dimension: What was judged.
        kind: Who disagrees.
        apart: Distance of the highest and the lowest value, in [0, 1]; None where fewer than two gave one.
        opinions: What each thinks.
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
        kind: Who was compared.
        dimension: On what.
        compared: Attempts on which at least two of them have an opinion.
        agreed: Those where all opinions are the same.
        abstained: Those where some abstained and some gave a score.
        mean_apart: Mean distance where at least two gave a score; None where there is none.
        largest: The largest distance, or None.
        leaning: Mean of the run's judge minus the other, in [-1, 1]; None among judges of one panel.
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
    """Where the judges of a run disagree with each other, with people, or with another run's.

    Attributes:
        run: The run.
        suite: Its suite.
        against: The other run, or None.
        labels: The file of people's labels, or None.
        tallies: By kind and dimension.
        found: The disagreements, the farthest apart first, then those where only some abstained.
        left_out: Further ones that are not in ``found``.
        notes: What a reader must know, such as what could not be compared.
    """

    run: str
    suite: str
    against: str | None
    labels: str | None
    tallies: tuple[Tally, ...]
    found: tuple[Disagreement, ...]
    left_out: int
    notes: tuple[str, ...]


SAME = 1e-9
"""Tolerance: means of the same numbers may differ by rounding."""

MOST = 200

PEOPLE = "people"

Judged = dict[tuple[str, int, str], Opinion]


def disagreements(
    store: Store,
    record: RunRecord,
    *,
    labels: str | Path | None = None,
    against: tuple[Store, RunRecord] | None = None,
    at_most: int = MOST,
) -> Disagreements:
    """Find where a run's judges disagree: with each other, with people's labels, with another run.

    Only scores that a judge gave count, not those that a fallback gave in its place.

    Args:
        store: Where the run is.
        record: Its record there.
        labels: A file of people's labels, .jsonl or .csv.
        against: Store and record of another run of the same cases.
        at_most: Disagreements that are kept; all are counted.

    Raises:
        ItemsError: If the labels cannot be read, or are of attempts that the run does not have.
        InputError: If the other run judged nothing that this one did.
    """
    people = None if labels is None else Labels(labels)
    others = None if against is None else _judged(*against)
    gathering = _Gathering(at_most)
    seen: set[tuple[str, int]] = set()
    judgements = matched = 0
    for evaluation in _evaluations(store, record):
        seen.add((evaluation.case, evaluation.repeat))
        for name, score in evaluation.scores.items():
            if not _is_judged(score):
                continue
            judgements += 1
            gathering.take(evaluation, name, "judges", tuple(_votes(score)))
            key = (evaluation.case, evaluation.repeat, name)
            ours = Opinion(by=_judge(score), value=score.value, reason=score.reason)
            if people is not None and (label := people.value(key)) is not None:
                gathering.take(evaluation, name, "people", (ours, Opinion(by=PEOPLE, value=label)))
            if others is not None and key in others:
                matched += 1
                gathering.take(evaluation, name, "runs", (ours, others[key]))
    if people is not None:
        people.check_attempts(seen)
    if against is not None and not matched:
        raise InputError(
            f"run {against[1].id}", f"judged nothing that run {record.id} judged: nothing can be compared"
        )
    return gathering.told(
        run=record.id,
        suite=record.suite_name,
        against=None if against is None else against[1].id,
        labels=None if people is None else people.source,
        notes=tuple(_notes(judgements, gathering)),
    )


class _Gathering:
    """Collects opinions in one pass: counts, and the largest disagreements."""

    def __init__(self, at_most: int) -> None:
        self._at_most = at_most
        self._tallies: dict[tuple[Kind, str], _Counts] = {}
        # A heap: the smallest disagreement held is on top and is replaced first.
        self._kept: list[tuple[float, int, Disagreement]] = []
        self._seen = 0

    @property
    def kinds(self) -> set[Kind]:
        """The kinds of comparison that occurred."""
        return {kind for kind, _ in self._tallies}

    def take(self, evaluation: Evaluation, dimension: str, kind: Kind, opinions: tuple[Opinion, ...]) -> None:
        """Add the opinions on one dimension of one attempt."""
        if len(opinions) < 2:
            return
        values = [each.value for each in opinions if each.value is not None]
        apart = max(values) - min(values) if len(values) > 1 else None
        counts = self._tallies.setdefault((kind, dimension), _Counts())
        counts.add(opinions, apart, split=0 < len(values) < len(opinions))
        if not values or (len(values) == len(opinions) and (apart or 0) <= SAME):
            return
        self._seen += 1
        found = Disagreement(
            case=evaluation.case,
            repeat=evaluation.repeat,
            dimension=dimension,
            kind=kind,
            apart=apart,
            opinions=opinions,
        )
        entry = (-1.0 if apart is None else apart, -self._seen, found)
        if len(self._kept) < self._at_most:
            heapq.heappush(self._kept, entry)
        elif self._kept and entry > self._kept[0]:
            heapq.heapreplace(self._kept, entry)

    def told(self, **about: Any) -> Disagreements:
        """The result, largest disagreements first."""
        order: dict[Kind, int] = {"people": 0, "judges": 1, "runs": 2}
        return Disagreements(
            tallies=tuple(
                counts.tally(kind, dimension)
                for (kind, dimension), counts in sorted(
                    self._tallies.items(), key=lambda item: order[item[0][0]]
                )
            ),
            found=tuple(found for _, _, found in sorted(self._kept, reverse=True)),
            left_out=self._seen - len(self._kept),
            **about,
        )


class _Counts:
    def __init__(self) -> None:
        self.compared = self.agreed = self.abstained = self.measured = 0
        self.apart = self.leaning = 0.0
        self.largest: float | None = None

    def add(self, opinions: Sequence[Opinion], apart: float | None, *, split: bool) -> None:
        self.compared += 1
        self.abstained += split
        self.agreed += not split and (apart or 0) <= SAME
        if apart is None:
            return
        self.measured += 1
        self.apart += apart
        self.largest = max(apart, self.largest or 0.0)
        self.leaning += (opinions[0].value or 0.0) - (opinions[-1].value or 0.0)

    def tally(self, kind: Kind, dimension: str) -> Tally:
        there = self.measured > 0
        return Tally(
            kind=kind,
            dimension=dimension,
            compared=self.compared,
            agreed=self.agreed,
            abstained=self.abstained,
            mean_apart=self.apart / self.measured if there else None,
            largest=self.largest,
            leaning=self.leaning / self.measured if there and kind != "judges" else None,
        )


def _is_judged(score: Score) -> bool:
    return score.tier == "judge" and score.status in {"ok", "abstained"}


def _judge(score: Score) -> str:
    model = score.detail.get("model")
    return model if isinstance(model, str) else "the judge"


def _votes(score: Score) -> Iterator[Opinion]:
    """The votes of a panel; an imported file may hold any JSON there."""
    votes = score.detail.get("votes")
    for vote in votes if isinstance(votes, list) else ():
        if isinstance(vote, Mapping):
            value, reason = vote.get("value"), vote.get("reason")
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if number or value is None:
                yield Opinion(
                    by=str(vote.get("model", "a judge")),
                    value=value,
                    reason=reason if isinstance(reason, str) else None,
                )


def _evaluations(store: Store, record: RunRecord) -> Iterator[Evaluation]:
    return (stored.evaluation for stored in store.evaluations(record))


def _judged(store: Store, record: RunRecord) -> Judged:
    """The opinions of a run's judges, by attempt and dimension."""
    return {
        (evaluation.case, evaluation.repeat, name): Opinion(
            by=f"{_judge(score)} in {record.id}", value=score.value, reason=score.reason
        )
        for evaluation in _evaluations(store, record)
        for name, score in evaluation.scores.items()
        if _is_judged(score)
    }


def _notes(judgements: int, gathering: _Gathering) -> Iterator[str]:
    if not judgements:
        yield "nothing in this run was judged"
    elif not gathering.kinds:
        yield "each attempt has one judge; a panel (judge.panel), labels or another run would tell more"
