"""Items, labels, judgements and what goes to people of a run as rows for an export (spec: files)."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from trivium.errors import InputError, TrustError
from trivium.runs.items.importing import judgement_rows
from trivium.runs.items.item import Item, Judgement, Label
from trivium.runs.items.joining import judged, labelled_items
from trivium.runs.items.labels import Labels
from trivium.runs.judging.certificates import TO_PEOPLE, Certificates, certificates_in, marks, unmarked
from trivium.store.export.rows import WEATHER
from trivium.store.records import RunRecord
from trivium.store.store import Store
from trivium.suites.certificate import JudgeCertificate, loaded
from trivium.suites.settings import Settings

Row = dict[str, Any]


REVIEW_COLUMNS = ("case", "repeat", "dimension", "verdict", "confidence", "why", "reason")
"""Of ``review``: the judge's verdict is called so, and not ``value``, so that it is never read as a label."""


def rows_and_columns(
    what: str, labels: Path | None, certificates: Sequence[str | Path] = (), confidence: str | None = None
) -> tuple[Callable[..., Iterator[Row]], tuple[str, ...]]:
    """Who makes the rows of ``judgements``, ``items``, ``labels`` or ``review``, and their columns.

    Args:
        what: Which.
        labels: People's labels, for items and labels.
        certificates: For review, in place of those that the run applied.
        confidence: For judgements and items, in place of what they state.

    Raises:
        InputError: If labels are needed and none are given, or no confidence is called like that.
    """
    if confidence is not None:
        if what not in {"judgements", "items"}:
            raise InputError("--confidence", "goes with --what judgements and items alone")
        make, columns = rows_and_columns(what, labels)
        return partial(_with_confidence, make, _computing(confidence)), columns
    if what == "review":
        read = loaded(map(str, certificates))
        return partial(_review, certificates=read), REVIEW_COLUMNS
    if what == "judgements":
        return _judgements, Judgement.__struct_fields__
    if labels is None:
        raise InputError("", f"--what {what} needs people's labels: --labels FILE")
    found = Labels(labels)

    def items(store: Store, run: RunRecord, **_options: Any) -> Iterator[Row]:
        found.check_attempts(attempts_of(store, run))
        return (_item_row(item) for item in labelled_items(store, run, found))

    def said(store: Store, run: RunRecord, **_options: Any) -> Iterator[Row]:
        found.check_attempts(attempts_of(store, run))
        return (msgspec.structs.asdict(label) for label in found.records())

    if what == "items":
        return items, tuple(name for name in Item.__struct_fields__ if name != "success")
    return said, Label.__struct_fields__


def attempts_of(store: Store, run: RunRecord) -> set[tuple[str, int]]:
    """(case, repeat) of every attempt that a run scored."""
    return {(stored.evaluation.case, stored.evaluation.repeat) for stored in store.evaluations(run)}


def _judgements(store: Store, run: RunRecord, *, stable: bool = False, **_options: Any) -> Iterator[Row]:
    left_out = WEATHER if stable else frozenset()
    for judgement in judgement_rows(store, run):
        row = msgspec.structs.asdict(judgement)
        yield {name: value for name, value in row.items() if name not in left_out}


def _with_confidence(
    make: Callable[..., Iterator[Row]],
    computed: Callable[[Row], float | None],
    store: Store,
    run: RunRecord,
    **options: Any,
) -> Iterator[Row]:
    return (row | {"confidence": computed(row)} for row in make(store, run, **options))


def _computing(name: str) -> Callable[[Row], float | None]:
    """What computes a confidence of a row; it gives None where the row lacks the signals for it.

    Raises:
        TrustError: If no confidence is called like that, or it takes a calibrator.
    """
    from trivium.trust.confidence.variants import confidence

    confidence(name, [])

    def computed(row: Row) -> float | None:
        try:
            return float(confidence(name, [row["signals"] or {}]).values[0])
        except TrustError:
            return None

    return computed


def _review(
    store: Store, run: RunRecord, *, certificates: Sequence[JudgeCertificate], **_options: Any
) -> Iterator[Row]:
    """The judgements that go to people.

    Raises:
        InputError: If no certificate says which.
    """
    settings = msgspec.convert(run.settings, Settings)
    if not certificates and not certificates_in(settings):
        raise InputError(
            f"run {run.id}", "applied no certificate: --certificate FILE says which judgements go to people"
        )
    marking = Certificates(settings, run.provenance, certificates) if certificates else None
    return _to_people(store, run, settings, marking)


def _to_people(
    store: Store, run: RunRecord, settings: Settings, marking: Certificates | None
) -> Iterator[Row]:
    groups = list(store.groups(run.suite, settings.group))
    for stored in store.evaluations(run):
        evaluation, scores = stored.evaluation, stored.evaluation.scores
        if marking is not None:
            bare = {name: unmarked(score) for name, score in scores.items()}
            scores = dict(marking.marked(bare, groups[stored.position]))
        for name, mark in marks(scores).items():
            if mark["answer"] == TO_PEOPLE:
                yield {
                    "case": evaluation.case,
                    "repeat": evaluation.repeat,
                    "dimension": name,
                    "verdict": judged(scores[name]),
                    "confidence": mark["confidence"],
                    "why": mark["why"],
                    "reason": scores[name].reason,
                }


def _item_row(item: Item) -> Row:
    row = msgspec.structs.asdict(item)
    row.pop("success")
    return row
