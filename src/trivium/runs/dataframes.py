"""Returns the rows of a run as Arrow tables, Polars or pandas frames."""

from collections.abc import Callable, Iterator, Sequence
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

Make = Callable[..., Iterator[Row]]

_OWN: dict[str, tuple[Make, tuple[str, ...]]] = {
    "scores": (score_rows, SCORE_COLUMNS),
    "attempts": (attempt_rows, ATTEMPT_COLUMNS),
    "summary": (summary_rows, SUMMARY_COLUMNS),
}


def kind(
    what: str, labels: Path | None, certificates: Sequence[str | Path] = (), confidence: str | None = None
) -> tuple[Make, tuple[str, ...]]:
    """The function that makes the rows, and their columns.

    Args:
        what: One of ``What``.
        labels: People's labels, for items and labels.
        certificates: For review, in place of those that the run applied.
        confidence: For judgements and items, in place of what they state.

    Raises:
        InputError: If there is no such kind, or labels are needed and none are given.
    """
    if what not in get_args(What):
        raise InputError(
            "", f'a run has no "{what}": {", ".join(get_args(What))}.{suggest(what, get_args(What))}'
        )
    if confidence is not None and what in _OWN:
        raise InputError("--confidence", "goes with --what judgements and items alone")
    return _OWN[what] if what in _OWN else rows_and_columns(what, labels, certificates, confidence)


What = Literal["scores", "attempts", "summary", "judgements", "items", "labels", "review"]
"""One row a score, an attempt, a metric of the summary, a judgement, a joined item, a label, a judgement
that goes to people."""


def arrow_table(store: Store, run: RunRecord, what: str, labels: str | Path | None) -> Any:
    """A ``pyarrow.Table``.

    Raises:
        MissingExtra: If PyArrow is not installed.
        InputError: If there is no such kind of rows.
    """
    make, columns = kind(what, None if labels is None else Path(labels))
    schema = arrow_schema(columns)
    import pyarrow as pa

    return pa.Table.from_batches(arrow_batches(make(store, run), columns), schema=schema)


def polars_frame(store: Store, run: RunRecord, what: str, labels: str | Path | None) -> Any:
    """A ``polars.DataFrame``; the columns are those of the Arrow table, not copied.

    Raises:
        MissingExtra: If Polars or PyArrow is not installed.
    """
    try:
        import polars
    except ImportError as error:
        raise MissingExtra("polars", "A Polars frame") from error
    return polars.from_arrow(arrow_table(store, run, what, labels))


def pandas_frame(store: Store, run: RunRecord, what: str, labels: str | Path | None) -> Any:
    """A ``pandas.DataFrame``; whole numbers that may be missing stay whole (``Int64``).

    Raises:
        MissingExtra: If pandas or PyArrow is not installed.
    """
    try:
        import pandas as pd
    except ImportError as error:
        raise MissingExtra("pandas", "A pandas frame") from error
    table = arrow_table(store, run, what, labels)
    import pyarrow as pa

    return table.to_pandas(types_mapper={pa.int64(): pd.Int64Dtype()}.get)
