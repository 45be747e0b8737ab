"""Maps recorded outputs with the columns of a spreadsheet or the keys of another tool.

CSV, Parquet and JSON files, JSON lines, lists and data frames go through the same mapping of names
(:mod:`trivium.suites.columns`). An output without the id of its case belongs to the case with the same input.
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from trivium.agents.recorded.record import Output, trace_problems
from trivium.errors import OutputsError, Problem, suggest
from trivium.storage import open_file
from trivium.suites.columns import EXCEL, EXCEL_REFUSED, Columns, input_column, json_value, output_columns
from trivium.suites.files.csv_file import CSV
from trivium.suites.files.documents import (
    MalformedDocument,
    check_is_file,
    decode,
    parse_json,
    read_document,
    read_text,
)
from trivium.suites.sanitize import sanitise
from trivium.suites.suite import Suite
from trivium.suites.validation import at, convert, describe, problem

TABLES = CSV | {".parquet"}

_JSON_COLUMNS = frozenset({"trace", "usage", "metadata", "flags"})
_NUMBERS = frozenset({"repeat", "seconds", "reward"})
_REQUIRED = ("output", "trace", "reward", "error")
"""An output has at least one of these."""

_HEAD = 1 << 24
"""Bytes of the first line that are looked at."""


class Rows(NamedTuple):
    """Raw outputs.

    Attributes:
        rows: Mappings with the keys of a line in a file of outputs; a Problem in place of what is none.
        places: Place of each in its file, such as ``line 3``.
        notes: What was mapped.
    """

    rows: list[Any]
    places: list[str]
    notes: tuple[str, ...] = ()


def rows_of_file(path: Path, suite: Suite) -> Rows | None:
    """Read a list, or a file with the keys of another tool; None for lines with Trivium's own keys.

    Args:
        path: A .json or .jsonl file.
        suite: The suite with the cases.

    Raises:
        OutputsError: If the file is not what its name says, or a name could mean two things.
    """
    suffix = path.suffix.lower()
    if suffix in EXCEL:
        check_is_file(path, error=OutputsError)
        raise OutputsError(str(path), EXCEL_REFUSED)
    if suffix == ".json":
        if not read_text(path, error=OutputsError).lstrip().startswith("["):
            return None  # lines of JSON
        listed = read_document(path, error=OutputsError)
        return mapped(listed, [f"[{index}]" for index in range(len(listed))], suite, source=str(path))
    return _rows_of_lines(path, suite)


def raw_output(cells: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Make an output of the cells of a row: numbers and JSON where a field has them."""
    raw: dict[str, Any] = {}
    for name, cell in cells:
        field, dot, rest = name.partition(".")
        if dot and field in {"usage", "metadata"} and rest != "json":
            below = raw.setdefault(field, {})
            if isinstance(below, dict):
                below[rest] = _number(cell) if field == "usage" else cell
        elif not isinstance(cell, str):
            raw[name] = cell
        elif field in _JSON_COLUMNS or name == "output.json":
            try:
                raw[field] = parse_json(cell)
            except MalformedDocument as malformed:
                raise MalformedDocument("", f"{name}: {malformed.problem.what}") from malformed
        else:
            raw[name] = _number(cell) if name in _NUMBERS else cell
    return raw


def _number(cell: Any) -> Any:
    """A number that a cell holds; other texts are left for the message about them."""
    if not isinstance(cell, str):
        return cell
    try:
        return int(cell) if cell.strip().lstrip("+-").isdecimal() else float(cell)
    except ValueError:
        return cell


def _rows_of_lines(path: Path, suite: Suite) -> Rows | None:
    check_is_file(path, error=OutputsError)
    try:
        with open_file(path) as file:
            head = next((line for line in iter(lambda: file.readline(_HEAD), b"") if line.strip()), b"")
        if head.lstrip().startswith(b"["):
            what = "found a list, expected one output a line; a JSON list goes into a .json file"
            raise OutputsError(str(path), Problem("line 1", what))
        first = parse_json(decode(head))
    except (OSError, MalformedDocument):
        return None  # reading the file describes what is wrong
    if not isinstance(first, dict):
        return None
    columns = output_columns([str(key) for key in first])
    if columns is None or not (columns.renamed or columns.asks):
        return None
    rows, places = [], []
    for number, line in enumerate(read_text(path, error=OutputsError).split("\n"), start=1):
        if line.strip():
            try:
                rows.append(parse_json(line))
            except MalformedDocument as malformed:
                rows.append(Problem(f"line {number}", malformed.problem.what))
            places.append(f"line {number}")
    return mapped(rows, places, suite, source=str(path))


def mapped(rows: Sequence[Any], places: list[str], suite: Suite, *, source: str) -> Rows:
    """Rename the keys of raw outputs; Trivium's own keys, and rows that are no mappings, stay as they are.

    Args:
        rows: Raw outputs; a Problem in place of what cannot be read.
        places: Place of each, for messages.
        suite: The suite with the cases.
        source: The file, for messages.

    Raises:
        OutputsError: If a name could mean two things, or nothing names the case or the output.
    """
    made = list(rows)
    readable = [row for row in made if not isinstance(row, Problem)]
    if not readable or not all(isinstance(row, Mapping) for row in readable):
        return Rows(made, places)
    names = list(dict.fromkeys(str(name) for row in readable for name in row))
    found = output_columns_of(names, suite, source=source)
    return Rows(found.rows(made, places), places, found.notes)


class OutputColumns:
    """What the columns of a table of outputs mean.

    Args:
        columns: The fields of columns; None if they are Trivium's own.
        question: The column with the inputs of cases, by which outputs find their cases.
        suite: The suite with the cases.

    Attributes:
        notes: What was mapped.
    """

    def __init__(self, columns: Columns | None, question: str | None, suite: Suite) -> None:
        self._columns = columns
        self._question = question
        self._ids: dict[str, list[str]] = {}
        note = columns.note() if columns is not None and columns.renamed else ""
        if question is not None:
            note = "; ".join(filter(None, (note, f"cases found by their {question}")))
            for case in suite:
                if isinstance(case.input, str):
                    self._ids.setdefault(case.input.strip(), []).append(case.id)
        self.notes = (f"outputs: {note}",) if note else ()

    def rows(self, rows: Sequence[Any], places: Sequence[str]) -> list[Any]:
        """Rename the keys of raw outputs, and name their cases.

        Args:
            rows: Mappings; a Problem in place of what is none.
            places: Place of each, for messages.

        Returns:
            The raw outputs; a Problem in place of what is none, or has no case.
        """
        columns = self._columns
        if columns is None:
            return list(rows)
        made: list[Any] = []
        for row, place in zip(rows, places, strict=True):
            if not isinstance(row, Problem):
                renamed = _renamed(row, columns)
                why = None if self._question is None else self._join(renamed, row.get(self._question))
                made.append(renamed if why is None else Problem(place, why))
            else:
                made.append(row)
        return made

    def _join(self, row: dict[str, Any], given: Any) -> str | None:
        """Give an output the id of the case that has its input; return why it has none."""
        found = self._ids.get(given.strip(), []) if isinstance(given, str) else []
        if len(found) == 1:
            row["case"] = found[0]
            return None
        if found:
            return f"{len(found)} cases have this input ({_and(found)}): add a column case"
        return f"no case has this input: {describe(given)}"


def output_columns_of(names: Sequence[str], suite: Suite, *, source: str) -> OutputColumns:
    """What columns of these names mean.

    Raises:
        OutputsError: If a name could mean two things, or nothing names the case or the output.
    """
    columns = output_columns(names)
    if columns is None:
        return OutputColumns(None, None, suite)
    if not (columns.renamed or columns.left_out or columns.asks):
        if source.lower().endswith(tuple(TABLES)):
            raise OutputsError(source, list(columns.problems))
        return OutputColumns(None, None, suite)  # the conversion names each wrong key where it is
    problems = list(columns.problems)
    question = input_column(names) if "case" not in columns.fields else None
    if "case" not in columns.fields and question is None:
        problems.append(
            Problem("", f"no column names the case: add one called case. There are: {_and(names)}")
        )
    if not problems and not any(field in columns.fields for field in _REQUIRED):
        hint = (
            "" if input_column(names) is None else ". Are these cases? Then they are the SUITE, not --outputs"
        )
        what = f"no column is the output: rename it to output. There are: {_and(names)}{hint}"
        problems.append(Problem("", what))
    if problems:
        raise OutputsError(source, problems)
    return OutputColumns(columns, question, suite)


def _and(names: Sequence[str]) -> str:
    return ", ".join(names[:12]) + (", …" if len(names) > 12 else "")


def _renamed(row: Mapping[Any, Any], columns: Columns) -> dict[str, Any]:
    made = {
        columns.renamed.get(name, name): value
        for name, value in row.items()
        if name not in columns.left_out and name not in columns.metadata
    }
    extra = {name: json_value(row[name]) for name in columns.metadata if row.get(name) is not None}
    if extra:
        given = made.get("metadata")
        made["metadata"] = extra | dict(given) if isinstance(given, Mapping) else extra
    return made


def read_row(row: Any, place: str) -> tuple[Output | None, list[Problem], tuple[str, ...]]:
    """Convert a mapping to a record, or list its mistakes; also returns flags for what was replaced."""
    if isinstance(row, Problem):
        return None, [row], ()
    try:
        plain = msgspec.to_builtins(dict(row) if isinstance(row, Mapping) else row)
    except (TypeError, ValueError, RecursionError) as wrong:
        return None, [Problem(place, f"is no JSON value: {wrong}")], ()
    value, flags = sanitise(plain)
    where = place if place.startswith("outputs[") else f"{place}:"
    output, problems = convert(value, Output, where)
    if output is not None and (problems := _not_finite(output, where)):
        output = None
    return output, problems, flags


def _not_finite(output: Output, where: str) -> list[Problem]:
    """The numbers of a record that are infinite or NaN, which JSON has no word for but tables have."""
    numbers = [(at(where, "seconds"), output.seconds), (at(where, "reward"), output.reward)]
    if output.usage is not None:
        numbers.append((at(at(where, "usage"), "cost_usd"), output.usage.cost_usd))
    return [
        problem(place, f"found {describe(number)}, expected a finite number")
        for place, number in numbers
        if number is not None and not math.isfinite(number)
    ]


def row_problems(
    output: Output, suite: Suite, *, folder: Path, place: str, look_for_nearest: bool
) -> list[Problem]:
    """The mistakes in the trace of a record, and an unknown case.

    Args:
        output: The record.
        suite: The suite with the cases.
        folder: Base folder of the paths of trace files.
        place: Place of the record in its file.
        look_for_nearest: Suggest a case of a similar id.
    """
    problems = [
        Problem(each.where.replace("line 0", place, 1), each.what)
        for each in trace_problems(output, 0, folder)
    ]
    if suite.position(output.case) is None:
        near = suggest(output.case, [case.id for case in suite]) if look_for_nearest else ""
        problems.append(Problem(place, f'the suite has no case "{output.case}".{near}'))
    return problems
