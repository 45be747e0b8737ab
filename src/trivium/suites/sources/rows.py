"""Rows of a table as cases: which column is what, said or found out by its name."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from trivium.errors import Problem, SuiteError, suggest
from trivium.suites.case import USUAL
from trivium.suites.cases import Cases
from trivium.suites.checking import cases_of, raise_any

NEVER_GUESSED = frozenset({"group", "tags", "complexity"})
"""What a column is only when it has exactly that name, and holds what belongs there."""

_TEXTS = "text"
"""Where SQuAD and its like keep the texts of several answers."""


def columns_of(known: Sequence[str], said: Mapping[str, str], *, source: str) -> dict[str, str]:
    """Which column is which field of a case.

    Args:
        known: The columns there are.
        said: Columns by field, as the user says.
        source: What messages call the data set.

    Raises:
        SuiteError: If a field or a column is not there, or nothing is the input.
    """
    problems = []
    for field, column in said.items():
        if field not in USUAL:
            fields = ", ".join(USUAL)
            what = f'a case takes no "{field}" from a column.{suggest(field, USUAL)} It takes: {fields}'
            problems.append(Problem(f"columns.{field}", what))
        elif column not in known:
            what = f'there is no column "{column}".{suggest(column, known)} There are: {", ".join(known)}'
            problems.append(Problem(f"columns.{field}", what))
    raise_any(problems, source)
    found = dict(said)
    for field, names in USUAL.items():
        free = (name for name in names if name in known and name not in found.values())
        if field not in found and field not in NEVER_GUESSED and (name := next(free, None)) is not None:
            found[field] = name
    if "input" not in found:
        what = (
            f"no column is called like what is asked; say which: input=COLUMN. There are: {', '.join(known)}"
        )
        raise SuiteError(source, Problem("columns", what))
    return found


def cases_from_rows(rows: Iterable[Mapping[str, Any]], columns: Mapping[str, str], *, source: str) -> Cases:
    """The cases of rows; a column that is no field of a case goes to its ``metadata``, if JSON can hold it.

    A row without an id is called by its number, from 0.

    Raises:
        SuiteError: With every mistake found.
    """
    taken = set(columns.values())
    cases, problems = cases_of(
        (f"row {number}:", _case(number, row, columns, taken)) for number, row in enumerate(rows)
    )
    raise_any(problems, source)
    return cases


def _case(number: int, row: Mapping[str, Any], columns: Mapping[str, str], taken: set[str]) -> dict[str, Any]:
    case: dict[str, Any] = {"id": str(number)}
    for field, column in columns.items():
        value = row.get(column)
        if field == "references":
            value = references_of(value)
        if value is not None:
            case[field] = _plain(value)
    metadata = {str(key): _plain(value) for key, value in row.items() if key not in taken}
    kept = {key: value for key, value in metadata.items() if value is not None}
    return case | ({"metadata": kept} if kept else {}) | ({} if "input" in case else {"input": None})


def references_of(value: Any) -> list[str]:
    """The good answers that a value holds: a text, several, or SQuAD's mapping of them; else its JSON."""
    if value is None or isinstance(value, str):
        return [value] if value else []
    if isinstance(value, Mapping) and isinstance(value.get(_TEXTS), list | tuple):
        value = value[_TEXTS]
    items = value if isinstance(value, list | tuple) else [value]
    texts = [item if isinstance(item, str) else _json(item) for item in items]
    return list(dict.fromkeys(text for text in texts if text))


def _json(value: Any) -> str | None:
    plain = _plain(value)
    return None if plain is None else msgspec.json.encode(plain, order="deterministic").decode()


def _plain(value: Any) -> Any:
    """A value as JSON has it, or None where it cannot: pictures, sounds, bytes, objects."""
    if isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        return None
    dumped = value.model_dump(mode="json") if hasattr(value, "model_dump") else value
    try:
        return msgspec.to_builtins(dumped, str_keys=True)
    except (TypeError, ValueError, RecursionError):
        return None
