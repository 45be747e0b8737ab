"""Maps recorded outputs with the columns of a spreadsheet or the keys of another tool.

CSV, Parquet and JSON files, JSON lines, lists and data frames go through the same mapping of names
(:mod:`trivium.suites.columns`). An output without the id of its case belongs to the case with the same input.
"""

import ast
from collections.abc import Mapping, Sequence
from typing import Any

from trivium.agents.recorded.record import ParsedLine, read_line, read_row
from trivium.errors import OutputsError, Problem
from trivium.records.documents import MalformedDocument, parse_json, parse_line
from trivium.records.lines import JsonLines
from trivium.records.names import OUTPUT_NAMES
from trivium.records.source import Records, present_cells
from trivium.records.validation import describe
from trivium.suites.columns import Columns, input_column, json_value, output_columns
from trivium.suites.suite import Suite

_JSON_COLUMNS = frozenset({"trace", "usage", "metadata", "flags", "world"})
_CONTEXTS = frozenset(OUTPUT_NAMES["contexts"])
_NUMBERS = frozenset({"repeat", "seconds", "reward"})
_REQUIRED = ("output", "trace", "reward", "error")
"""An output has at least one of these."""


def _of_cells(cells: Mapping[str, Any]) -> dict[str, Any]:
    """Make a raw output of the cells of a row: numbers and JSON where a field has them."""
    raw: dict[str, Any] = {}
    for name, cell in present_cells(cells).items():
        field, dot, rest = name.partition(".")
        if dot and field in {"usage", "metadata"} and rest != "json":
            below = raw.setdefault(field, {})
            if isinstance(below, dict):
                below[rest] = _number(cell) if field == "usage" else cell
        elif not isinstance(cell, str):
            raw[name] = cell
        elif field in _JSON_COLUMNS or name == "output.json" or (name in _CONTEXTS and cell[:1] == "["):
            try:
                raw[field] = _listed(cell) if name in _CONTEXTS else parse_json(cell)
            except MalformedDocument as malformed:
                raise MalformedDocument("", f"{name}: {malformed.problem.what}") from malformed
        else:
            raw[name] = _number(cell) if name in _NUMBERS else cell
    return raw


def _listed(cell: str) -> Any:
    """The list that a cell holds, as JSON or as Python writes it, which is what Ragas' CSV files have.

    Raises:
        MalformedDocument: If it is neither.
    """
    try:
        return parse_json(cell)
    except MalformedDocument:
        try:
            value = ast.literal_eval(cell)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            value = None
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise
        return value


def _number(cell: Any) -> Any:
    """A number that a cell holds; other texts are left for the message about them."""
    if not isinstance(cell, str):
        return cell
    try:
        return int(cell) if cell.strip().lstrip("+-").isdecimal() else float(cell)
    except ValueError:
        return cell


def names_of(records: Records) -> list[str]:
    """The columns of outputs: those of a table, or the keys of all objects; none of Trivium's own lines.

    Raises:
        OutputsError: If a file with one output a line holds a list.
    """
    if records.names:
        return records.names
    if isinstance(records, JsonLines):
        columns = output_columns(_keys(records.first("output")) or [])
        if columns is None or not (columns.renamed or columns.asks):
            return []
    names: dict[str, None] = {}
    for _, content in records.scan():
        if (keys := _keys(content)) is None:
            return []
        names |= dict.fromkeys(keys)
    return list(names)


def _keys(content: Any) -> list[str] | None:
    """The keys of a raw output; none of one that cannot be read, None if it is no mapping."""
    raw = parse_line(content, "") if isinstance(content, bytes) else content
    if isinstance(raw, Problem):
        return []
    return [str(key) for key in raw] if isinstance(raw, Mapping) else None


class OutputColumns:
    """What the columns of a table of outputs mean.

    Args:
        columns: The fields of columns; None if they are Trivium's own.
        question: The column with the inputs of cases, by which outputs find their cases.
        suite: The suite with the cases.
        table: Whether outputs are rows of cells.

    Attributes:
        notes: What was mapped.
    """

    def __init__(self, columns: Columns | None, question: str | None, suite: Suite, *, table: bool) -> None:
        self._columns = columns
        self._table = table
        self._question = question
        self._ids: dict[str, list[str]] = {}
        note = columns.note() if columns is not None and columns.renamed else ""
        if question is not None:
            note = "; ".join(filter(None, (note, f"cases found by their {question}")))
            for case in suite:
                if isinstance(case.input, str):
                    self._ids.setdefault(case.input.strip(), []).append(case.id)
        self.notes = (f"outputs: {note}",) if note else ()

    def read(self, content: Any, place: str) -> ParsedLine:
        """Read a record as an output, or list its mistakes."""
        if isinstance(content, bytes):
            if self._columns is None:
                return read_line(content, place)
            content = parse_line(content, place)
        elif self._table and not isinstance(content, Problem):
            try:
                content = _of_cells(content)
            except MalformedDocument as malformed:
                content = Problem(place, malformed.problem.what)
        return read_row(self.of(content, place), place)

    def of(self, row: Any, place: str) -> Any:
        """Rename the keys of a raw output, and name its case; a Problem if it is none, or has no case."""
        if self._columns is None or isinstance(row, Problem):
            return row
        renamed = _renamed(row, self._columns)
        why = None if self._question is None else self._join(renamed, row.get(self._question))
        return renamed if why is None else Problem(place, why)

    def _join(self, row: dict[str, Any], given: Any) -> str | None:
        """Give an output the id of the case that has its input; return why it has none."""
        found = self._ids.get(given.strip(), []) if isinstance(given, str) else []
        if len(found) == 1:
            row["case"] = found[0]
            return None
        if found:
            return f"{len(found)} cases have this input ({_and(found)}): add a column case"
        return f"no case has this input: {describe(given)}"


def output_columns_of(records: Records, suite: Suite, *, source: str) -> OutputColumns:
    """What the columns or keys of outputs mean.

    Raises:
        OutputsError: If a name could mean two things, or nothing names the case or the output.
    """
    names = names_of(records)
    table = bool(records.names)
    columns = output_columns(names)
    if columns is None:
        return OutputColumns(None, None, suite, table=table)
    if not (columns.renamed or columns.left_out or columns.asks):
        if table:
            raise OutputsError(source, list(columns.problems))
        return OutputColumns(None, None, suite, table=False)  # the conversion names each wrong key
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
    return OutputColumns(columns, question, suite, table=table)


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
