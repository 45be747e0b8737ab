"""Items, labels and judgements of a run as rows for an export (spec: files)."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from trivium.errors import InputError
from trivium.runs.items.importing import judgement_rows
from trivium.runs.items.item import Item, Judgement, Label
from trivium.runs.items.joining import labelled_items
from trivium.runs.items.labels import Labels
from trivium.store.export.rows import WEATHER
from trivium.store.records import RunRecord
from trivium.store.store import Store

Row = dict[str, Any]


def rows_and_columns(what: str, labels: Path | None) -> tuple[Callable[..., Iterator[Row]], tuple[str, ...]]:
    """Who makes the rows of ``judgements``, ``items`` or ``labels``, and their columns.

    Args:
        what: Which.
        labels: People's labels, for items and labels.

    Raises:
        InputError: If labels are needed and none are given.
    """
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


def _item_row(item: Item) -> Row:
    row = msgspec.structs.asdict(item)
    row.pop("success")
    return row
