"""Returns the rows of a run as Arrow tables, Polars or pandas frames."""

from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, get_args

from trivium.errors import InputError, MissingExtra, suggest
from trivium.runs.items.join import rows_and_columns
from trivium.store.export.tables import (
    ATTEMPT_COLUMNS,
    SCORE_COLUMNS,
    SUMMARY_COLUMNS,
    Row,
    arrow_batches,
    arrow_schema,
    attempt_rows,
    score_rows,
    summary_rows,
)
from trivium.store.records import RunRecord
from trivium.store.store import Store

What = Literal["scores", "attempts", "summary", "judgements", "items", "labels", "review"]
"""Kinds of rows: one per score, attempt, summary metric, judgement, joined item, label, or judgement for
people to check."""

Library = Literal["polars", "pandas"]

RowSource = Callable[..., Iterator[Row]]

_RUN_TABLES: dict[str, tuple[RowSource, tuple[str, ...]]] = {
    "scores": (score_rows, SCORE_COLUMNS),
    "attempts": (attempt_rows, ATTEMPT_COLUMNS),
    "summary": (summary_rows, SUMMARY_COLUMNS),
}


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
        InputError: If there is no such kind, or labels are needed and not given.
    """
    if what not in get_args(What):
        raise InputError(
            "", f'a run has no "{what}": {", ".join(get_args(What))}.{suggest(what, get_args(What))}'
        )
    if confidence is not None and what not in {"judgements", "items"}:
        raise InputError("--confidence", "goes only with --what judgements and items")
    if what in _RUN_TABLES:
        return _RUN_TABLES[what]
    return rows_and_columns(what, labels, certificates, confidence)


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
