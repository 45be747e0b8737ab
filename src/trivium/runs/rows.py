"""The rows of a run by kind: for exports, and as Arrow tables, Polars or pandas frames."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, get_args

import msgspec

from trivium.errors import InputError, MissingExtra, TrustError, suggest
from trivium.runs.certificates import (
    TO_PEOPLE,
    Certificates,
    certificates_in,
    marks,
    unmarked,
)
from trivium.runs.items.files import Labels
from trivium.runs.items.import_judgements import judgement_rows
from trivium.runs.items.join import attempts_of, judged, labelled_items
from trivium.runs.items.records import Item, Judgement
from trivium.store.export.tables import (
    ATTEMPT_COLUMNS,
    SCORE_COLUMNS,
    SUMMARY_COLUMNS,
    VARYING_DETAILS,
    Row,
    arrow_batches,
    arrow_schema,
    attempt_rows,
    score_rows,
    summary_rows,
)
from trivium.store.records import RunRecord
from trivium.store.store import Store
from trivium.suites.certificate import JudgeCertificate, loaded
from trivium.values import dict_

What = Literal["scores", "attempts", "summary", "judgements", "items", "labels", "review"]
"""Kinds of rows: one per score, attempt, summary metric, judgement, joined item, label, or judgement for
people to check."""

Library = Literal["polars", "pandas"]


RowSource = Callable[..., Iterator[Row]]


LABEL_COLUMNS = ("case", "dimension", "value", "repeat", "by", "at")
"""Columns of ``labels``."""

REVIEW_COLUMNS = ("case", "repeat", "dimension", "verdict", "confidence", "why", "reason")
"""Columns of ``review``. The judge's score is called ``verdict``, so that it is never read as a label."""


def rows_of_kind(
    what: str, labels: Path | None, certificates: Sequence[str | Path] = (), confidence: str | None = None
) -> tuple[RowSource, tuple[str, ...]]:
    """Return the function that yields the rows of a kind, and their columns.

    Args:
        what: One of ``What``.
        labels: People's labels, for items and labels.
        certificates: For review: certificates that replace those of the run.
        confidence: For judgements and items: name of the confidence that replaces the stated one.

    Raises:
        InputError: If there is no such kind, labels are needed and not given, or the confidence is
            unknown.
    """
    if what not in get_args(What):
        raise InputError(
            "", f'a run has no "{what}": {", ".join(get_args(What))}.{suggest(what, get_args(What))}'
        )
    if confidence is not None:
        if what not in {"judgements", "items"}:
            raise InputError("--confidence", "goes only with --what judgements and items")
        make, columns = rows_of_kind(what, labels)
        return _with_confidence(make, confidence), columns
    if what in _RUN_TABLES:
        return _RUN_TABLES[what]
    if what == "review":
        return partial(_review, certificates=loaded(map(str, certificates))), REVIEW_COLUMNS
    if labels is None:
        raise InputError("", f"--what {what} needs people's labels: --labels FILE")
    label_file = Labels(labels)
    columns = tuple(name for name in Item.__struct_fields__ if name != "success")
    columns = columns if what == "items" else LABEL_COLUMNS

    def joined(store: Store, run: RunRecord, **_options: Any) -> Iterator[Row]:
        label_file.check_attempts(attempts_of(store, run))
        found = labelled_items(store, run, label_file) if what == "items" else label_file.records()
        return ({name: getattr(each, name) for name in columns} for each in found)

    return joined, columns


def _judgements(store: Store, run: RunRecord, *, stable: bool = False, **_options: Any) -> Iterator[Row]:
    left_out = VARYING_DETAILS if stable else frozenset()
    for judgement in judgement_rows(store, run):
        row = msgspec.structs.asdict(judgement)
        yield {name: value for name, value in row.items() if name not in left_out}


def _with_confidence(make: RowSource, name: str) -> RowSource:
    """Rows with another confidence: computed from their signals, or None if a row lacks them.

    Raises:
        TrustError: If the confidence is unknown or needs a calibrator.
    """
    from trivium.trust.confidence.functions import confidence

    confidence(name, [])

    def computed(row: Row) -> float | None:
        try:
            return float(confidence(name, [dict_(row["signals"])]).values[0])
        except TrustError:
            return None

    def rows(store: Store, run: RunRecord, **options: Any) -> Iterator[Row]:
        return (row | {"confidence": computed(row)} for row in make(store, run, **options))

    return rows


def _review(
    store: Store, run: RunRecord, *, certificates: Sequence[JudgeCertificate], **_options: Any
) -> Iterator[Row]:
    """Yield the judgements that go to people.

    Raises:
        InputError: If there is no certificate.
    """
    if not certificates and not certificates_in(run.settings):
        raise InputError(
            f"run {run.id}", "applied no certificate: --certificate FILE says which judgements go to people"
        )
    marking = Certificates(run.settings, run.provenance, certificates) if certificates else None
    groups = list(store.groups(run.suite, run.settings.group))
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


_RUN_TABLES: dict[str, tuple[RowSource, tuple[str, ...]]] = {
    "scores": (score_rows, SCORE_COLUMNS),
    "attempts": (attempt_rows, ATTEMPT_COLUMNS),
    "summary": (summary_rows, SUMMARY_COLUMNS),
    "judgements": (_judgements, Judgement.__struct_fields__),
}


def arrow_table(store: Store, run: RunRecord, what: str, labels: str | Path | None) -> Any:
    """Return the rows of a kind as a ``pyarrow.Table``.

    Raises:
        MissingExtra: If PyArrow is not installed.
        InputError: If there is no such kind of rows.
    """
    rows, columns = rows_of_kind(what, None if labels is None else Path(labels))
    schema = arrow_schema(columns)
    import pyarrow as pa

    return pa.Table.from_batches(arrow_batches(rows(store, run), columns), schema=schema)


def frame_of_run(store: Store, run: RunRecord, what: str, labels: str | Path | None, library: Library) -> Any:
    """Return the rows of a kind as a frame: of Polars with the Arrow columns, of pandas with ``Int64``.

    Raises:
        MissingExtra: If the library or PyArrow is not installed.
        InputError: If there is no such kind of rows.
    """
    frames = _imported(library)
    table = arrow_table(store, run, what, labels)
    if library == "polars":
        return frames.from_arrow(table)
    import pyarrow as pa

    return table.to_pandas(types_mapper={pa.int64(): frames.Int64Dtype()}.get)


def frame_of_rows(rows: Sequence[Row], library: Library) -> Any:
    """Return flat rows with the same keys as a frame.

    Raises:
        MissingExtra: If the library is not installed.
    """
    # By column, so that the type of each is inferred from all of its values.
    columns = {name: [row[name] for row in rows] for name in (rows[0] if rows else ())}
    return _imported(library).DataFrame(columns)


def _imported(library: Library) -> Any:
    try:
        return import_module(library)
    except ImportError as error:
        raise MissingExtra(library, f"A frame of {library}") from error
