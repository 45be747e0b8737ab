"""Records of a .jsonl, .csv or .parquet file, one a line or row, every mistake said at once."""

import csv
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from trivium.agents.recorded.line import lines_of
from trivium.errors import ItemsError, Problem
from trivium.store.export.writing import without_guard
from trivium.suites.files.parquet import parquet_rows
from trivium.suites.files.reading import LARGEST_DOCUMENT, Malformed, check_is_file, decode
from trivium.suites.files.tables import header_of, other_separator
from trivium.suites.validation import convert, unknown_key

T = TypeVar("T", bound=msgspec.Struct)
Refuse = Callable[[int, str], None]
"""Puts down what is wrong with a line or row."""

WORDS = {".jsonl": "line", ".csv": "line", ".parquet": "row"}
"""Formats, by the end of the file's name, and what is counted in each."""

JSON_FIELDS = frozenset({"signals"})
TEXT_FIELDS = frozenset({"group", "item", "case", "dimension", "by", "at", "reason", "model", "prompt"})


def read_records(path: Path, kind: type[T], refuse: Refuse) -> Iterator[tuple[int, T]]:
    """Number and record of every line or row; a wrong one is refused and left out.

    Args:
        path: Where they are.
        kind: What each is.
        refuse: Told what is wrong.

    Raises:
        ItemsError: If the file cannot be read as what its name says.
    """
    check_is_file(path, error=ItemsError)
    readers = {".jsonl": _jsonl, ".csv": _csv, ".parquet": _parquet}
    read = readers.get(path.suffix.lower())
    if read is None:
        raise ItemsError(
            str(path), f'cannot tell the format from "{path.suffix}": expected {", ".join(readers)}'
        )
    try:
        yield from read(path, kind, refuse)
    except OSError as failure:
        raise ItemsError(str(path), f"cannot be read: {failure.strerror or failure}") from failure


def _jsonl(path: Path, kind: type[T], refuse: Refuse) -> Iterator[tuple[int, T]]:
    decoder = msgspec.json.Decoder(kind)
    with path.open("rb") as file:
        for number, _, line in lines_of(file, str(path), error=ItemsError):
            try:
                yield number, decoder.decode(line)
                continue
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                pass  # found again below, in words
            try:
                raw = lenient_json(decode(line))
            except Malformed as malformed:
                refuse(number, malformed.problem.what)
            else:
                yield from _converted(raw, kind, number, refuse)


def lenient_json(text: str) -> Any:
    """A JSON text in which NaN and infinity are numbers, so that whoever holds them can be named.

    Raises:
        Malformed: If it is no JSON.
    """
    try:
        return json.loads(text)
    except json.JSONDecodeError as wrong:
        raise Malformed("", f"column {wrong.colno}: broken JSON: {wrong.msg}") from wrong
    except RecursionError as wrong:
        raise Malformed("", "is nested too deeply") from wrong
    except ValueError as wrong:
        raise Malformed("", f"broken JSON: {wrong}") from wrong


def _converted(raw: Any, kind: type[T], number: int, refuse: Refuse) -> Iterator[tuple[int, T]]:
    record, problems = convert(raw, kind)
    if record is not None:
        yield number, record
    for problem in problems:
        refuse(number, f"{_called(raw)}{problem}")


def _called(raw: Any) -> str:
    """What a record says it is, as far as it does."""
    if not isinstance(raw, dict):
        return ""
    said = [f'{key} "{raw[key]}"' for key in ("group", "item", "case") if isinstance(raw.get(key), str | int)]
    return f"{', '.join(said)}: " if said else ""


def _csv(path: Path, kind: type[T], refuse: Refuse) -> Iterator[tuple[int, T]]:
    csv.field_size_limit(LARGEST_DOCUMENT)
    number = 1
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            lines = csv.reader(file, strict=True)
            header = header_of(lines)
            _check_columns(header, kind, path)
            number = lines.line_num + 1
            for cells in lines:
                if cells and len(cells) != len(header):
                    refuse(number, f"has {len(cells)} cells, expected {len(header)} as in the first line")
                elif cells:
                    raw = {
                        name: value
                        for name, cell in zip(header, cells, strict=True)
                        if (value := _cell(name, cell)) is not None
                    }
                    yield from _converted(_whole(raw, kind, header), kind, number, refuse)
                number = lines.line_num + 1
    except csv.Error as wrong:
        raise ItemsError(str(path), Problem(f"line {number}", f"broken CSV: {wrong}")) from wrong
    except UnicodeDecodeError as wrong:
        raise ItemsError(str(path), f"is not valid UTF-8: byte {wrong.object[wrong.start]:#04x}") from wrong


def _cell(name: str, cell: str) -> Any:
    """What a cell of a table stands for: nothing, a number, a text or JSON."""
    cell = without_guard(cell)
    if cell == "" or name in TEXT_FIELDS:
        return cell or None
    if name in JSON_FIELDS:
        try:
            return lenient_json(cell)
        except Malformed:
            return cell
    if cell.lower() in {"true", "false"}:
        return cell.lower() == "true"
    try:
        number = float(cell)
    except ValueError:
        return cell
    return int(number) if name == "repeat" and number.is_integer() else number


def _whole(raw: dict[str, Any], kind: type[msgspec.Struct], header: list[str]) -> dict[str, Any]:
    """A row as a record: ``signals.NAME`` is one signal, and an empty cell of a column says null."""
    whole = {name: value for name, value in raw.items() if "." not in name}
    signals = {name.partition(".")[2]: raw.get(name) for name in header if name.startswith("signals.")}
    if signals:
        stated = whole.get("signals")
        whole["signals"] = {**stated, **signals} if isinstance(stated, dict) else signals
    for nullable in ("pred", "gt", "value"):
        if nullable in header and nullable in kind.__struct_fields__:
            whole.setdefault(nullable, None)
    return whole


def _check_columns(names: list[str], kind: type[msgspec.Struct], path: Path) -> None:
    if other := other_separator(names):
        raise ItemsError(str(path), other)
    known = kind.__struct_fields__
    problems = [
        Problem("", f'the column "{name}" stands twice')
        for place, name in enumerate(names)
        if name in names[:place]
    ]
    problems += [
        Problem("", unknown_key(name, known).replace("key", "column", 1))
        for name in names
        if name not in known and not ("signals" in known and name.startswith("signals."))
    ]
    if problems:
        raise ItemsError(str(path), problems)


def _parquet(path: Path, kind: type[T], refuse: Refuse) -> Iterator[tuple[int, T]]:
    header: list[str] = []

    def check(names: list[str]) -> None:
        _check_columns(names, kind, path)
        header.extend(names)

    rows = parquet_rows(path, error=ItemsError, check=check, rows_at_once=4096)
    for number, row in enumerate(rows, start=1):
        raw = {
            name: _from_arrow(cell) if name in JSON_FIELDS else cell
            for name, cell in row.items()
            if cell is not None
        }
        yield from _converted(_whole(raw, kind, header), kind, number, refuse)


def _from_arrow(cell: Any) -> Any:
    """Signals: JSON, or a struct or a map, in which null says that one is absent."""
    if isinstance(cell, dict):
        return {name: value for name, value in cell.items() if value is not None}
    return _cell("signals", cell) if isinstance(cell, str) else cell
