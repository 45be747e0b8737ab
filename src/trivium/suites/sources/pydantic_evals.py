"""Data sets of pydantic-evals as suites: files (``pydantic-evals:FILE``, YAML or JSON), or objects.

The evaluators that a data set names are not run here: Trivium's metrics score its cases. Only
``EqualsExpected`` says what success is.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from trivium.errors import Problem, SuiteError
from trivium.suites.cases import Cases
from trivium.suites.files.reading import read_document
from trivium.suites.sources.registry import Found
from trivium.suites.sources.rows import cases_from_rows

_COLUMNS = {"id": "id", "input": "inputs", "references": "expected_output"}
_EXACT = "EqualsExpected"


def read(path: Path) -> Found:
    """A file as cases.

    Raises:
        SuiteError: If it is no such file, or a case is wrong.
    """
    raw = read_document(path)
    if not isinstance(raw, dict) or not isinstance(raw.get("cases"), list):
        raise SuiteError(str(path), 'expected a data set of pydantic-evals: a mapping with a list "cases"')
    for index, case in enumerate(raw["cases"]):
        if not isinstance(case, dict) or "inputs" not in case:
            raise SuiteError(str(path), Problem(f"cases[{index}]", 'expected a mapping with "inputs"'))
    name = raw.get("name")
    shown = name if isinstance(name, str) and name else path.stem
    return Found(shown, _cases(raw["cases"], source=str(path)), _settings(raw.get("evaluators")))


def is_dataset(value: Any) -> bool:
    """Whether an object is a ``pydantic_evals.Dataset``; nothing is imported to find out."""
    return any(kind.__module__.startswith("pydantic_evals.") for kind in type(value).__mro__)


def of_object(dataset: Any) -> Found:
    """A ``pydantic_evals.Dataset`` as cases.

    Raises:
        SuiteError: If a case is wrong.
    """
    fields = ("name", "inputs", "expected_output", "metadata")
    cases = [{field: getattr(case, field) for field in fields} for case in dataset.cases]
    evaluators = [type(evaluator).__name__ for evaluator in dataset.evaluators]
    name = dataset.name or "dataset"
    return Found(name, _cases(cases, source=name), _settings(evaluators))


def _cases(raw: Iterable[Mapping[str, Any]], *, source: str) -> Cases:
    rows = []
    for number, case in enumerate(raw):
        metadata = case.get("metadata")
        kept = (
            dict(metadata)
            if isinstance(metadata, Mapping)
            else {}
            if metadata is None
            else {"value": metadata}
        )
        kept.pop("expected_output", None)
        own = {"id": case.get("name") or str(number), "inputs": case["inputs"]}
        rows.append(kept | own | {"expected_output": case.get("expected_output")})
    return cases_from_rows(rows, _COLUMNS, source=source)


def _settings(evaluators: Any) -> dict[str, Any]:
    named = evaluators if isinstance(evaluators, list) else []
    exact = any(each == _EXACT or (isinstance(each, dict) and _EXACT in each) for each in named)
    return {"success": {"exact": True}} if exact else {}
