"""Reads suites from Python objects: lists of cases, mappings, data frames and data sets."""

from collections.abc import Iterable, Mapping
from typing import Any

from trivium.errors import SuiteError
from trivium.records.source import rows_of_table
from trivium.records.validation import describe
from trivium.suites.sources.datasets import is_dataset, of_object


def suite_keys(source: Any) -> tuple[dict[str, Any], bool]:
    """Convert an object in memory to the keys of a suite file.

    Args:
        source: A mapping with the keys of a suite file; an iterable of Cases, or of mappings with the keys of
            a case; a data frame, an Arrow table or a data set with one case per row.

    Returns:
        The keys, and whether the cases are rows of a table.

    Raises:
        SuiteError: If the object is none of these.
    """
    if is_dataset(source):
        found = of_object(source)
        return {"name": found.name, **found.settings, "cases": list(found.cases)}, False
    rows = rows_of_table(source)
    if rows is None and isinstance(getattr(source, "column_names", None), list):
        rows = list(source)  # a data set of Hugging Face
    if rows is not None:
        return {"cases": rows}, True
    if isinstance(source, Mapping):
        rows = rows_of_table(source.get("cases"))
        return dict(source) | ({} if rows is None else {"cases": rows}), rows is not None
    if isinstance(source, Iterable) and not isinstance(source, str | bytes | bytearray):
        return {"cases": list(source)}, False
    raise SuiteError(
        "suite",
        f"found {describe(source)}, expected a suite, a file, a list of cases, a mapping or a data frame",
    )
