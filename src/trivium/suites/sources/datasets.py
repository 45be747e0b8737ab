"""Data sets in memory as suites, whoever made them."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from trivium.errors import Problem, SuiteError
from trivium.suites.sources.pydantic_evals import is_dataset, of_object
from trivium.suites.sources.registry import Found
from trivium.suites.sources.rows import cases_from_rows, columns_of

if TYPE_CHECKING:
    from trivium.suites.suite import Suite

S = TypeVar("S", bound="Suite")


def from_dataset(
    cls: type[S], dataset: Any, *, columns: Mapping[str, str], name: str | None, settings: Mapping[str, Any]
) -> S:
    """See ``Suite.from_dataset``."""
    if is_dataset(dataset):
        if columns:
            raise SuiteError("dataset", Problem("columns", "a data set of pydantic-evals has no columns"))
        found = of_object(dataset)
    else:
        found = _of_rows(dataset, columns, name)
    if not len(found.cases):
        raise SuiteError(found.name, "holds no case")
    cases: Any = found.cases
    return cls(name=name or found.name, cases=cases).with_settings(**{**found.settings, **settings})


def _of_rows(dataset: Any, columns: Mapping[str, str], name: str | None) -> Found:
    shown = name or getattr(dataset, "builder_name", None) or "dataset"
    if isinstance(dataset, Mapping):
        splits = ", ".join(str(key) for key in dataset)
        raise SuiteError(shown, f"expected rows, found a mapping: choose one of its splits ({splits})")
    known = getattr(dataset, "column_names", None)
    rows = dataset
    if not isinstance(known, list):
        rows = list(dataset)
        wrong = next((index for index, row in enumerate(rows) if not isinstance(row, Mapping)), None)
        if wrong is not None:
            raise SuiteError(
                shown, Problem(f"row {wrong}", f"expected a mapping, found {type(rows[wrong]).__name__}")
            )
        known = list(dict.fromkeys(str(key) for row in rows for key in row))
    found = columns_of(known, columns, source=shown)
    return Found(shown, cases_from_rows(rows, found, source=shown), {})
