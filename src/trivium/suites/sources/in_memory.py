"""Reads suites and outputs from Python objects: lists of cases, mappings, data frames and data sets."""

from collections.abc import Iterable, Mapping
from typing import Any

from trivium.errors import SuiteError
from trivium.suites.case import Case, Cases
from trivium.suites.sources.datasets import cases_from_rows, columns_of, is_dataset, of_object
from trivium.suites.validation import describe

_MISSING_CELLS = frozenset({"NAType", "NaTType"})
"""The types of pandas.NA and pandas.NaT."""


def suite_keys(source: Any) -> dict[str, Any]:
    """Convert an object in memory to the keys of a suite file.

    Args:
        source: A mapping with the keys of a suite file; an iterable of Cases, or of mappings with the keys of
            a case; a data frame, an Arrow table or a data set with one case per row.

    Raises:
        SuiteError: If the object is none of these, or its columns do not fit the fields of a case.
    """
    if is_dataset(source):
        found = of_object(source)
        return {"name": found.name, **found.settings, "cases": _listed(found.cases)}
    rows = rows_of_table(source)
    if rows is None and isinstance(getattr(source, "column_names", None), list):
        rows = list(source)  # a data set of Hugging Face
    if rows is not None:
        return {"cases": _cases_of_rows(rows)}
    if isinstance(source, Mapping):
        return dict(source) | _cases_of(source.get("cases"))
    if isinstance(source, Iterable) and not isinstance(source, str | bytes | bytearray):
        return {"cases": _numbered(list(source))}
    raise SuiteError(
        "suite",
        f"found {describe(source)}, expected a suite, a file, a list of cases, a mapping or a data frame",
    )


def rows_of_table(table: Any) -> list[Any] | None:
    """Return the rows of a data frame of pandas or polars, or of an Arrow table; None for any other object.

    Missing cells (None, NaN, NA, NaT) are left out of the rows.
    """
    if isinstance(table, type | Mapping):
        return None
    rows: Any = None
    if callable(getattr(table, "to_pylist", None)):  # Arrow
        rows = table.to_pylist()
    elif callable(getattr(table, "to_dicts", None)):  # polars
        rows = table.to_dicts()
    elif callable(getattr(table, "to_dict", None)) and not isinstance(
        getattr(table, "column_names", None), list
    ):
        try:
            rows = table.to_dict("records")
        except TypeError:  # the method of something else
            return None
    if not isinstance(rows, list):
        return None
    return [_without_missing(row) if isinstance(row, Mapping) else row for row in rows]


def _cases_of(cases: Any) -> dict[str, Any]:
    """Convert the key ``cases`` of a mapping if its cases are in memory; other values are not changed."""
    rows = rows_of_table(cases)
    if rows is not None:
        return {"cases": _cases_of_rows(rows)}
    return {"cases": _numbered(list(cases))} if isinstance(cases, list | tuple) else {}


def _without_missing(row: Mapping[Any, Any]) -> dict[str, Any]:
    return {str(name): _plain(cell) for name, cell in row.items() if not _is_missing(cell)}


def _is_missing(cell: Any) -> bool:
    is_nan = isinstance(cell, float) and cell != cell  # noqa: PLR0124 - only NaN differs from itself
    return cell is None or is_nan or type(cell).__name__ in _MISSING_CELLS


def _plain(cell: Any) -> Any:
    """Convert NumPy's types to Python's."""
    return cell.tolist() if hasattr(cell, "tolist") else cell


def _cases_of_rows(rows: list[Any]) -> list[Any]:
    """Convert rows to cases: unchanged if the columns are fields of a case, else by common column names."""
    if not all(isinstance(row, Mapping) for row in rows):
        return rows  # the conversion to cases reports the mistakes
    columns = list(dict.fromkeys(str(name) for row in rows for name in row))
    if "input" in columns and set(columns) <= set(Case.__struct_fields__):
        return _numbered(rows)
    return _listed(cases_from_rows(rows, columns_of(columns, {}, source="suite"), source="suite"))


def _listed(cases: Cases) -> list[Case]:
    return [cases[index] for index in range(len(cases))]


def _numbered(rows: list[Any]) -> list[Any]:
    """Give raw cases without an id their number as id."""
    return [
        {"id": str(number), **row} if isinstance(row, Mapping) and "id" not in row else row
        for number, row in enumerate(rows)
    ]
