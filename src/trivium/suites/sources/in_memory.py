"""Reads suites and outputs from Python objects: lists of cases, mappings, data frames and data sets."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from trivium.errors import SuiteError, raise_problems
from trivium.records.source import rows_of_table
from trivium.records.validation import describe
from trivium.suites.columns import rows_as_cases
from trivium.suites.sources.datasets import is_dataset, of_object


def suite_keys(source: Any) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Convert an object in memory to the keys of a suite file.

    Args:
        source: A mapping with the keys of a suite file; an iterable of Cases, or of mappings with the keys of
            a case; a data frame, an Arrow table or a data set with one case per row.

    Returns:
        The keys, and a note on what was mapped, if anything was.

    Raises:
        SuiteError: If the object is none of these, or its columns do not fit the fields of a case.
    """
    if is_dataset(source):
        found = of_object(source)
        return {"name": found.name, **found.settings, "cases": list(found.cases)}, ()
    rows = rows_of_table(source)
    if rows is None and isinstance(getattr(source, "column_names", None), list):
        rows = list(source)  # a data set of Hugging Face
    if rows is not None:
        cases, notes = _raw_cases(rows, lenient=True)
        return {"cases": cases}, notes
    if isinstance(source, Mapping):
        keys = dict(source)
        if (rows := rows_of_table(keys.get("cases"))) is not None:
            keys["cases"], notes = _raw_cases(rows, lenient=True)
        elif isinstance(keys.get("cases"), list | tuple):
            keys["cases"], notes = _raw_cases(keys["cases"], lenient=False)
        else:
            notes = ()
        return keys, notes
    if isinstance(source, Iterable) and not isinstance(source, str | bytes | bytearray):
        cases, notes = _raw_cases(list(source), lenient=False)
        return {"cases": cases}, notes
    raise SuiteError(
        "suite",
        f"found {describe(source)}, expected a suite, a file, a list of cases, a mapping or a data frame",
    )


def _raw_cases(rows: Sequence[Any], *, lenient: bool) -> tuple[list[Any], tuple[str, ...]]:
    """Return the rows as numbered raw cases, their keys mapped; and a note, if any was."""
    made, columns = rows_as_cases(rows, lenient=lenient, first=0)
    if columns is None:
        return _numbered(made), ()
    raise_problems(columns.problems, "suite")
    return _numbered(made), (columns.note(),) if columns.renamed else ()


def _numbered(rows: list[Any]) -> list[Any]:
    """Give raw cases without an id their number as id, from 0 as Python counts."""
    return [
        {"id": str(number), **row} if isinstance(row, Mapping) and "id" not in row else row
        for number, row in enumerate(rows)
    ]
