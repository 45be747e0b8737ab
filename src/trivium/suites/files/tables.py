"""Opens files of cases, and reads rows of CSV and Parquet, documents, and JSON lines with other tools' keys.

The columns ``expect``, ``turns``, ``user`` and ``metadata`` contain JSON (in Parquet also structs),
``references`` a JSON list or one text, ``tags`` a JSON list or words separated by commas.
``metadata.KEY`` and ``expect.output`` contain one text of the mapping, ``expect.relevant`` and other lists
of ``expect`` a JSON list (or mapping) or one text, and ``FIELD.json`` any field as JSON. An empty cell is a
missing value.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import IO, Any

import msgspec

from trivium.errors import Problem, Problems, SuiteError, raise_problems
from trivium.records.documents import (
    LARGEST_DOCUMENT,
    PARSERS,
    MalformedDocument,
    check_is_file,
    parse_json,
    parse_json_cases,
    parse_line,
    read_document,
)
from trivium.records.lines import JsonLines
from trivium.records.parquet import ParquetFile
from trivium.records.source import (
    FILES,
    TABLES,
    WORKBOOK_REFUSED,
    WORKBOOKS,
    Records,
    open_records,
    present_cells,
)
from trivium.records.validation import convert, describe, unknown_key
from trivium.safe_text import sanitise
from trivium.storage import Stamp, temporary_copy
from trivium.suites.case import Case
from trivium.suites.columns import Columns, case_columns, case_of_row
from trivium.suites.files.jsonl import CaseLines, is_output

COLUMNS = Case.__struct_fields__

_EXPECTED_LISTS = frozenset({"aspects", "facts", "relevant", "sources", "workflow"})
"""Keys of ``expect`` that are lists of texts."""

LARGEST_TABLE = 4 * LARGEST_DOCUMENT
"""Largest Parquet file in bytes of decompressed rows, unless ``MOST_COMPRESSED`` allows more."""

MOST_COMPRESSED = 100
"""How many times its size a larger file of cases may decompress to; 7 kB can decompress to 3 GB."""


def read_rows(path: Path, first: int = 1) -> tuple[Iterator[tuple[str, Any]], tuple[str, ...]]:
    """Return place and raw case of every record of a file, and a note on what was mapped.

    Args:
        path: A .csv or .parquet file, or one of JSON lines with the keys of another tool.
        first: Number of the first row, if none has an id.

    Raises:
        SuiteError: If the file is not such a table, or a column or cell is invalid.
    """
    records = _opened(path)
    names = records.names or _keys(records)
    columns = case_columns(names)
    _check_columns(records.names, path, columns)
    notes = (columns.note(),) if columns is not None and columns.renamed else ()
    given = "id" in (columns.fields if columns else names)
    return _raw_cases(records, columns, first=first, numbered=not given), notes


def _opened(path: Path) -> Records:
    if path.suffix.lower() == ".parquet":
        check_is_file(path)
        largest = max(LARGEST_TABLE, MOST_COMPRESSED * path.stat().st_size)
        return ParquetFile(path, error=SuiteError, largest=largest)
    return open_records(path, error=SuiteError)


def _has_other_keys(path: Path) -> bool:
    """Whether the keys of the first JSON line of a file are those of another tool.

    False also for a line that is no case: reading the file says what is wrong.

    Raises:
        SuiteError: If the file cannot be read.
    """
    raw = parse_line(JsonLines(path, error=SuiteError).first("case"), "")
    if not isinstance(raw, dict) or is_output(raw):
        return False
    columns = case_columns([str(key) for key in raw])
    return columns is not None and bool(columns.renamed or columns.asks)


class TableLines(CaseLines):
    """A file whose lines are not as Trivium has them.

    Cases are read in any order, which such files are slow at: every machine writes the cases to a temporary
    file of JSON lines, and reads that. Arguments and attributes are those of :class:`CaseLines`.

    Raises:
        SuiteError: With the first mistakes in the file, and the number of the others.
    """

    def _rows(self) -> tuple[Iterator[tuple[str, Any]], tuple[str, ...]]:
        """Place and raw case of every record, and a note on what was mapped."""
        return read_rows(self.path, self.first)

    def place(self, index: int, start: int) -> str:
        """Place of a case, for messages."""
        records = _opened(self.path)
        number, _ = next(islice(records.scan(), index, None))
        return records.named(number)

    def _copied(self) -> tuple[Stamp, Path]:
        try:
            copied = temporary_copy(self.path, self._write, f"cases from {self.first}")
        except OSError as failure:
            what = f"cannot be copied to a temporary file: {failure.strerror or failure}"
            raise SuiteError(str(self.path), what) from failure
        if "notes" not in vars(self):  # this process has written the copy before
            _, self.notes = self._rows()
        return copied

    def _write(self, target: IO[bytes]) -> None:
        encode = msgspec.json.Encoder().encode
        problems = Problems(str(self.path))
        rows, self.notes = self._rows()
        for where, raw in rows:
            case, wrong = convert(sanitise(raw)[0], Case, where)
            problems.add(*wrong)
            if case is not None and not problems.found:
                target.write(encode(case) + b"\n")
        problems.check()


class DocumentLines(TableLines):
    """A document with a list of cases, one of many files."""

    def _rows(self) -> tuple[Iterator[tuple[str, Any]], tuple[str, ...]]:
        rows, notes = rows_of_document(self.path, self.first)
        return iter(rows), notes

    def place(self, index: int, start: int) -> str:
        """Place of a case, for messages."""
        return f"[{index}]"


def opened_cases(path: Path, first: int, alone: bool) -> CaseLines:
    """Open a file that holds only cases, by its suffix; see :class:`CaseLines`.

    Raises:
        SuiteError: With the first mistakes in the file, and the number of the others.
    """
    suffix = path.suffix.lower()
    if suffix in TABLES or (suffix in FILES and _has_other_keys(path)):
        return TableLines(path, first, alone)
    if suffix in FILES:
        return CaseLines(path, first, alone)
    if suffix in PARSERS:
        return DocumentLines(path, first, alone)
    if suffix in WORKBOOKS:
        check_is_file(path)
        raise SuiteError(str(path), WORKBOOK_REFUSED)
    expected = ", ".join((*FILES, *PARSERS))
    raise SuiteError(str(path), f'cannot tell the format from "{path.suffix}": expected {expected}')


Rows = tuple[list[tuple[str, Any]], tuple[str, ...]]
"""Place and raw case of each entry of a list, and a note on what was mapped."""


def rows_of_document(path: Path, first: int = 1) -> Rows:
    """Return the raw cases of a document that is a list of cases.

    Args:
        path: The document.
        first: Number of the first case, if none has an id.

    Raises:
        SuiteError: If it is no such list, or keys are ambiguous.
    """
    raw = read_document(path, of_cases=True)
    if isinstance(raw, dict) and set(raw) == {"cases"}:
        raw = raw["cases"]
    if not isinstance(raw, list):
        raise SuiteError(str(path), f"found {describe(raw)}, expected a list of cases")
    rows, problems = rows_of_list(raw, "", first)
    raise_problems(problems, str(path))
    return rows


def rows_of_list(
    raw: Sequence[Any], where: str, first: int = 1, *, lenient: bool = False
) -> tuple[Rows, list[Problem]]:
    """Return the raw cases of a list with their places, and ambiguous keys.

    The keys of other tools are renamed; rows that are all Trivium's own, or no mappings, are left as they
    are.

    Args:
        raw: Raw cases.
        where: Place of the list.
        first: Number of the first case, its id if keys were renamed and none is the id; from 0 on, for a list
            in memory, also if none was renamed.
        lenient: See :func:`case_columns`.
    """
    rows, notes = list(raw), tuple[str, ...]()
    mappings = bool(rows) and all(isinstance(row, Mapping) for row in rows)
    names = list(dict.fromkeys(str(name) for row in rows for name in row)) if mappings else []
    columns = case_columns(names, lenient=lenient)
    if columns is not None and (columns.renamed or lenient or columns.asks):
        if columns.problems:
            return ([], ()), [Problem(where, each.what) for each in columns.problems]
        rows = [case_of_row(row, columns, number) for number, row in enumerate(rows, first)]
        notes = (columns.note(),) if columns.renamed else ()
    if first == 0:
        rows = [
            {"id": str(number), **row} if isinstance(row, Mapping) and "id" not in row else row
            for number, row in enumerate(rows)
        ]
    return ([(f"{where}[{index}]", row) for index, row in enumerate(rows)], notes), []


def _keys(records: Records) -> list[str]:
    """All keys of a file of JSON lines."""
    parsed = (_parsed(records, number, line) for number, line in records.scan())
    return list(dict.fromkeys(str(key) for raw in parsed for key in raw))


def _parsed(records: Records, number: int, content: Any) -> Mapping[str, Any]:
    """The cells of a row, or the object of a line."""
    raw = content
    if isinstance(content, bytes):
        raw = parse_line(content, records.named(number), parse=parse_json_cases)
        if not isinstance(raw, dict | Problem):
            raw = Problem(records.named(number), f"found {describe(raw)}, expected a case")
    if isinstance(raw, Problem):
        raise SuiteError(str(records.path), raw)
    found: Mapping[str, Any] = raw
    return found


def _raw_cases(
    records: Records, columns: Columns | None, *, first: int, numbered: bool
) -> Iterator[tuple[str, Any]]:
    for count, (number, content) in enumerate(records.scan(), first):
        where = records.named(number)
        row = _parsed(records, number, content)
        if columns is not None and not records.names:
            yield f"{where}:", case_of_row(row, columns, count)
            continue
        try:
            cells = present_cells(row)
            raw = _raw_case(cells if columns is None else _renamed(cells, columns))
        except MalformedDocument as malformed:
            raise SuiteError(str(records.path), Problem(where, malformed.problem.what)) from malformed
        yield f"{where}:", {"id": str(count), **raw} if numbered else raw


def _renamed(row: Mapping[str, Any], columns: Columns) -> dict[str, Any]:
    """Give cells the names of fields, or of metadata, and drop columns that are not read."""
    names = columns.renamed | {name: f"metadata.{name}" for name in columns.metadata}
    return {names.get(name, name): cell for name, cell in row.items() if name not in columns.left_out}


def _check_columns(names: Sequence[str], path: Path, columns: Columns | None) -> None:
    problems = []
    for name in names:
        field, dot, _ = name.partition(".")
        if (
            dot
            and field in Case.__struct_fields__
            and (not name.endswith(".json") and field not in {"metadata", "expect"})
        ):
            problems.append(Problem("", unknown_key(name, COLUMNS).replace("key", "column", 1)))
    problems += columns.problems if columns is not None else ()
    if problems:
        raise SuiteError(str(path), problems)


def _raw_case(row: Mapping[str, Any]) -> dict[str, Any]:
    raw: dict[str, Any] = {}
    for name, cell in row.items():
        field, dot, rest = name.partition(".")
        if dot and rest != "json":
            below = raw.setdefault(field, {})
            if isinstance(below, dict):
                listed = field == "expect" and rest in _EXPECTED_LISTS and isinstance(cell, str)
                below[rest] = _texts(rest, cell) if listed else cell
        elif not isinstance(cell, str):
            raw[field] = cell
        elif rest == "json" or field in {"expect", "metadata", "turns", "user"}:
            value = _json(name, cell)
            both = isinstance(value, dict) and isinstance(raw.get(field), dict)
            raw[field] = {**value, **raw[field]} if both else value
        elif field in {"references", "tags"}:
            raw[field] = _texts(field, cell)
        else:
            raw[field] = cell
    return raw


def _texts(field: str, cell: str) -> Any:
    if cell.lstrip().startswith(("[", "{")):
        try:
            value = parse_json(cell)
        except MalformedDocument:
            value = None
        if isinstance(value, list) or (isinstance(value, dict) and field == "relevant"):
            return value
    return [cell] if field != "tags" else [word.strip() for word in cell.split(",") if word.strip()]


def _json(name: str, cell: str) -> Any:
    try:
        return parse_json(cell)
    except MalformedDocument as malformed:
        raise MalformedDocument("", f"{name}: {malformed.problem.what}") from malformed
