"""A run's rows as an Arrow table, a Polars frame or a pandas frame, typed as in a Parquet export."""

from pathlib import Path
from typing import Any

from trivium.errors import MissingExtra
from trivium.runs.frames.kinds import kind
from trivium.store.export.writing import arrow_batches, arrow_schema
from trivium.store.records import RunRecord
from trivium.store.store import Store


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
