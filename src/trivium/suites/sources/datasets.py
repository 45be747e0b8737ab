"""Reads cases from data sets of rows: Hugging Face, pydantic-evals, any iterable of mappings.

Split, configuration and columns follow a question mark:
``hf:squad?split=validation&input=question&references=answers``. Code of a data set is never run.

Evaluators of a pydantic-evals data set are not run either, because Trivium's metrics score its cases; only
``EqualsExpected`` is translated, to the setting ``success``.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from trivium.errors import MissingExtra, Problem, SuiteError, raise_problems, suggest
from trivium.records.documents import read_document
from trivium.records.names import CASE_NAMES
from trivium.suites.case import Cases
from trivium.suites.columns import Columns, case_of_row
from trivium.suites.selection import cases_of
from trivium.suites.sources import SourceCases

NEVER_GUESSED = frozenset({"group", "tags", "complexity"})
"""Fields whose column must have exactly the field's name."""


def columns_of(known: Sequence[str], given: Mapping[str, str], *, source: str) -> dict[str, str]:
    """Map the fields of a case to columns.

    Args:
        known: All columns.
        given: Columns by field, given by the user.
        source: Name of the data set in messages.

    Raises:
        SuiteError: If a field or a column is unknown, or no column is the input.
    """
    problems = []
    for field, column in given.items():
        if field not in CASE_NAMES:
            fields = ", ".join(CASE_NAMES)
            what = f'a case takes no "{field}" from a column.{suggest(field, CASE_NAMES)} It takes: {fields}'
            problems.append(Problem(f"columns.{field}", what))
        elif column not in known:
            what = f'there is no column "{column}".{suggest(column, known)} There are: {", ".join(known)}'
            problems.append(Problem(f"columns.{field}", what))
    raise_problems(problems, source)
    found = dict(given)
    for field, names in CASE_NAMES.items():
        free = (name for name in names if name in known and name not in found.values())
        if field not in found and field not in NEVER_GUESSED and (name := next(free, None)) is not None:
            found[field] = name
    if "input" not in found:
        what = (
            f"no column has a usual name of the input; name it: input=COLUMN. There are: {', '.join(known)}"
        )
        raise SuiteError(source, Problem("columns", what))
    return found


def cases_from_rows(rows: Iterable[Mapping[str, Any]], columns: Mapping[str, str], *, source: str) -> Cases:
    """Make cases from rows; other columns go to ``metadata`` if their values have a JSON form.

    A row without an id gets its number, from 0.

    Raises:
        SuiteError: With every mistake found.
    """
    fields = dict(columns)
    taken = set(fields.values())

    def case(number: int, row: Mapping[str, Any]) -> dict[str, Any]:
        others = tuple(name for name in row if name not in taken)
        return {"id": str(number), **case_of_row(row, Columns(fields, others, ()), number)}

    cases, problems = cases_of((f"row {number}:", case(number, row)) for number, row in enumerate(rows))
    raise_problems(problems, source)
    return cases


def read_dataset(dataset: Any, *, columns: Mapping[str, str], name: str | None) -> SourceCases:
    """Read the cases of a data set in memory; see ``Suite.from_dataset``."""
    if is_dataset(dataset):
        if columns:
            raise SuiteError("dataset", Problem("columns", "a data set of pydantic-evals has no columns"))
        found = of_object(dataset)
    else:
        found = _of_rows(dataset, columns, name)
    if not len(found.cases):
        raise SuiteError(found.name, "holds no case")
    return found


def _of_rows(dataset: Any, columns: Mapping[str, str], name: str | None) -> SourceCases:
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
    return SourceCases(shown, cases_from_rows(rows, found, source=shown), {})


_OPTIONS = ("split", "config")
_BINARY = frozenset({"Image", "Audio", "Video", "Pdf"})
"""Types of columns that are left out without decoding."""


def read_hugging_face(path: Path) -> SourceCases:
    """Read a data set of Hugging Face.

    Raises:
        SuiteError: If it cannot be loaded, has several splits and none is named, or a row is not a case.
        MissingExtra: If ``datasets`` is not installed.
    """
    name, _, query = str(path).partition("?")
    given = dict(parse_qsl(query))
    options = {key: given.pop(key) for key in _OPTIONS if key in given}
    try:
        import datasets
    except ImportError:
        raise MissingExtra("hf", f'the data set "{name}"') from None
    try:
        loaded = _loaded(datasets, Path(name), options)
    except SuiteError:
        raise
    except Exception as error:  # the library raises many types
        raise SuiteError(name, f"cannot be loaded: {_first_line(error)}") from error
    if isinstance(loaded, dict):
        loaded = _split(loaded, options.get("split"), name)
    known = [column for column, kind in loaded.features.items() if type(kind).__name__ not in _BINARY]
    columns = columns_of(known, given, source=name)
    cases = cases_from_rows(loaded.select_columns(known), columns, source=name)
    return SourceCases(Path(name).stem, cases, {})


def _loaded(datasets: Any, path: Path, options: dict[str, str]) -> Any:
    if path.suffix == ".arrow" and path.is_file():
        return datasets.Dataset.from_file(str(path), in_memory=True)
    if (path / "dataset_info.json").is_file() or (path / "dataset_dict.json").is_file():
        return datasets.load_from_disk(str(path), keep_in_memory=True)
    if path.is_file():
        raise SuiteError(str(path), "expected a folder, an .arrow file, or the name of a data set on the hub")
    return datasets.load_dataset(str(path), name=options.get("config"))


def _split(splits: dict[str, Any], wanted: str | None, source: str) -> Any:
    if wanted is None and len(splits) == 1:
        return next(iter(splits.values()))
    if wanted in splits:
        return splits[wanted]
    found = "has several splits" if wanted is None else f'has no split "{wanted}".{suggest(wanted, splits)}'
    raise SuiteError(
        source, Problem("split", f"{found}: name one of {', '.join(splits)}, as in {source}?split=…")
    )


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), "") or type(error).__name__


_COLUMNS = {"id": "id", "input": "inputs", "references": "expected_output"}
_EXACT = "EqualsExpected"


def read_pydantic_evals(path: Path) -> SourceCases:
    """Read a file of pydantic-evals.

    Raises:
        SuiteError: If the file has another format, or a case is invalid.
    """
    raw = read_document(path)
    if not isinstance(raw, dict) or not isinstance(raw.get("cases"), list):
        raise SuiteError(str(path), 'expected a data set of pydantic-evals: a mapping with a list "cases"')
    for index, case in enumerate(raw["cases"]):
        if not isinstance(case, dict) or "inputs" not in case:
            raise SuiteError(str(path), Problem(f"cases[{index}]", 'expected a mapping with "inputs"'))
    name = raw.get("name")
    shown = name if isinstance(name, str) and name else path.stem
    return SourceCases(shown, _cases(raw["cases"], source=str(path)), _settings(raw.get("evaluators")))


def is_dataset(value: Any) -> bool:
    """Whether an object is a ``pydantic_evals.Dataset``, without importing pydantic-evals."""
    return any(kind.__module__.startswith("pydantic_evals.") for kind in type(value).__mro__)


def of_object(dataset: Any) -> SourceCases:
    """Read a ``pydantic_evals.Dataset``.

    Raises:
        SuiteError: If a case is invalid.
    """
    fields = ("name", "inputs", "expected_output", "metadata")
    cases = [{field: getattr(case, field) for field in fields} for case in dataset.cases]
    evaluators = [type(evaluator).__name__ for evaluator in dataset.evaluators]
    name = dataset.name or "dataset"
    return SourceCases(name, _cases(cases, source=name), _settings(evaluators))


def _cases(raw: Iterable[Mapping[str, Any]], *, source: str) -> Cases:
    rows = []
    for number, case in enumerate(raw):
        metadata = case.get("metadata")
        fields = dict(metadata if isinstance(metadata, Mapping) else {"value": metadata})
        fields.pop("expected_output", None)
        own = {"id": case.get("name") or str(number), "inputs": case["inputs"]}
        rows.append(fields | own | {"expected_output": case.get("expected_output")})
    return cases_from_rows(rows, _COLUMNS, source=source)


def _settings(evaluators: Any) -> dict[str, Any]:
    named = evaluators if isinstance(evaluators, list) else []
    exact = any(each == _EXACT or (isinstance(each, dict) and _EXACT in each) for each in named)
    return {"success": {"exact": True}} if exact else {}
