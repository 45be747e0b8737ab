"""Writes labels as rows of a file, and reads them from files (docs/definitions/files.md#labels)."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from trivium.errors import ItemsError, Problems
from trivium.labels.people import checked_name, key_of, noted
from trivium.runs.items.files import RunAttempts, read_records
from trivium.runs.items.join import attempts_of
from trivium.runs.items.records import Label
from trivium.safe_text import sanitise
from trivium.store.labels import add_labels, find_queues, stored_labels
from trivium.store.records import RunRecord
from trivium.store.store import Store

LABEL_COLUMNS = Label.__struct_fields__
"""Columns of an export, in order."""


class Imported(msgspec.Struct, frozen=True, kw_only=True):
    """The counts of an import.

    Attributes:
        stored: Labels that are new.
        known: Labels that were imported before.
    """

    stored: int
    known: int


def label_rows(
    store: Store, *, run: str | None = None, dimension: str | None = None, queue: int | None = None
) -> Iterator[dict[str, object]]:
    """Yield the rows of a file of labels; see :func:`trivium.store.labels.stored_labels`."""
    ids = {each.number: each.id for each in find_queues(store)}
    for label in stored_labels(store, run=run, dimension=dimension, queue=queue):
        row = {
            "case": label.case,
            "dimension": label.dimension,
            "value": label.value,
            "repeat": label.repeat,
            "by": label.by,
            "at": datetime.fromtimestamp(label.at, UTC).isoformat(timespec="seconds"),
            "answer": label.answer,
            "run": label.run,
            "how": label.how,
            "probability": label.probability,
            "queue": None if label.queue is None else ids.get(label.queue),
            "note": label.note,
        }
        yield {name: row[name] for name in LABEL_COLUMNS}


def import_labels(store: Store, run: RunRecord, path: Path, *, by: str, now: float) -> Imported:
    """Store the labels of a file as imported ones: all of them, or none.

    How they were asked elsewhere is not known here, so an estimate from them takes them for a random sample.
    Those that the file itself calls volunteered stay so, and enter none. Importing a file again stores
    nothing twice.

    Args:
        store: The store.
        run: The run whose attempts they are of.
        path: The file: .jsonl, .csv or .parquet.
        by: Who imports them; also the person of labels that name none.
        now: Unix time.

    Raises:
        ItemsError: If a label is invalid, or of an attempt that the run does not have; names the lines.
    """
    by = checked_name(by)
    attempts = RunAttempts(attempts_of(store, run))
    problems = Problems(str(path), ItemsError)
    labels: list[Label] = []
    for number, label in read_records(path, Label, problems.at_line):
        case = str(sanitise(label.case)[0])
        if missing := attempts.missing(case, label.repeat, suggests=not problems.full):
            problems.at_line(number, missing)
        elif label.value is None and label.answer != "cannot_tell":
            problems.at_line(number, 'has no value, which only "answer": "cannot_tell" may leave out')
        else:
            labels.append(msgspec.structs.replace(label, case=case))
    problems.check()
    stored = add_labels(store, (_columns(label, run, by, now) for label in labels), actor=by)
    return Imported(stored=stored, known=len(labels) - stored)


def _columns(label: Label, run: RunRecord, by: str, now: float) -> dict[str, object]:
    """What the store holds of an imported label; the person is who imports it, if it names none."""
    person = checked_name(label.by or by)
    parts = (run.id, label.case, str(label.repeat), label.dimension, person, str(label.at))
    return {
        "run": run.id,
        "case": label.case,
        "repeat": label.repeat,
        "dimension": sanitise(label.dimension)[0],
        "answer": "cannot_tell" if label.value is None else "label",
        "value": label.value,
        "by": person,
        "at": now,
        "how": "volunteered" if label.how == "volunteered" else "imported",
        "probability": None,
        "queue": None,
        "place": None,
        "key": key_of("imported", *parts, str(label.value)),
        "note": noted(label.note),
    }
