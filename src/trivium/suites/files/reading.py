"""Reading documents whole: YAML, JSON and TOML, each mistake with its place (spec: files)."""

import json
import math
import tomllib
from collections.abc import Callable
from datetime import date, datetime, time
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from trivium.bounds import TOO_MANY_VALUES, holds_too_many_values
from trivium.errors import InputError, Problem, SuiteError

LARGEST_DOCUMENT = 256 * 1024**2
"""Bytes; a document is held in memory as a whole, a .jsonl file is not."""

_ZIP = b"PK\x03\x04"

InputErrorType = type[InputError]


class Malformed(Exception):
    """A text is not what its format demands."""

    def __init__(self, where: str, what: str) -> None:
        super().__init__(what)
        self.problem = Problem(where, what)


def read_document(path: Path, *, error: InputErrorType = SuiteError) -> Any:
    """The raw value of a .yaml, .yml, .json or .toml file.

    Raises:
        InputError: As ``error``, if there is no such file, it cannot be read, or it is malformed.
    """
    parse = PARSERS.get(path.suffix.lower())
    if parse is None:
        raise error(str(path), f'cannot tell the format from "{path.suffix}": expected {", ".join(PARSERS)}')
    text = read_text(path, error=error)
    try:
        return parse(text)
    except Malformed as malformed:
        raise error(str(path), malformed.problem) from malformed


def read_mapping(path: Path) -> dict[str, Any]:
    """The object of a .json file of a folder of many; what is wrong with it names the file.

    Raises:
        Malformed: To be gathered with those of the other files.
    """
    try:
        check_is_file(path)
        raw = parse_json(decode(path.read_bytes()))
    except SuiteError as failure:
        raise Malformed(str(path), failure.problems[0].what) from failure
    except OSError as failure:
        raise Malformed(str(path), f"cannot be read: {failure.strerror or failure}") from failure
    except Malformed as malformed:
        place = f": {malformed.problem.where}" if malformed.problem.where else ""
        raise Malformed(f"{path}{place}", malformed.problem.what) from malformed
    if not isinstance(raw, dict):
        raise Malformed(str(path), "is no JSON object")
    return raw


def check_is_file(
    path: Path, *, error: InputErrorType = SuiteError, expected: str = "expected a file"
) -> None:
    """Raise a plain ``error`` unless there is such a file; a device or a pipe is none: it may never end."""
    try:
        if path.is_dir():
            raise error(str(path), f"is a folder: {expected}")
        if path.is_file():
            return
        if path.exists():
            what = (
                "is no file but a device or a pipe, which may never end: save what it holds to a file first"
            )
            raise error(str(path), what)
        if path.is_symlink():
            raise error(str(path), f"is a link to {path.readlink()}, which is not there")
        siblings = [entry.name for entry in path.parent.iterdir()] if path.parent.is_dir() else []
    except OSError as failure:
        raise error(str(path), f"cannot be read: {failure.strerror or failure}") from failure
    near = get_close_matches(path.name, siblings, n=1)
    hint = f' Did you mean "{near[0]}"?' if near else ""
    raise error(str(path), f"there is no such file.{hint}")


def read_text(path: Path, *, error: InputErrorType = SuiteError, largest: int = LARGEST_DOCUMENT) -> str:
    """The text of a file, without a byte order mark."""
    check_is_file(path, error=error)
    try:
        size = path.stat().st_size
        if size > largest:
            hint = "use .jsonl, which is read line by line"
            raise error(
                str(path), f"{size:,} bytes are more than the {largest:,} a document may have: {hint}"
            )
        raw = path.read_bytes()
    except OSError as failure:
        raise error(str(path), f"cannot be read: {failure.strerror or failure}") from failure
    if path.suffix.lower() == ".json" and holds_too_many_values(raw):
        raise error(str(path), TOO_MANY_VALUES)
    try:
        return decode(raw)
    except Malformed as malformed:
        raise error(str(path), malformed.problem) from malformed


def decode(raw: bytes, *, start: int = 0) -> str:
    """UTF-8 bytes, which stand at ``start`` in their file, as text; a mistake is named by its byte."""
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise Malformed("", "is UTF-16, expected UTF-8")
    if raw.startswith(_ZIP):
        raise Malformed(
            "", "is a ZIP archive, such as an Excel workbook; expected text: save it as CSV (UTF-8)"
        )
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as wrong:
        # "utf-8-sig" counts from behind the mark
        offset = wrong.start + (3 if raw.startswith(b"\xef\xbb\xbf") else 0)
        line = raw.count(b"\n", 0, offset) + 1
        what = (
            f"byte {raw[offset]:#04x} at offset {start + offset:,} is not valid UTF-8: save the file as UTF-8"
        )
        raise Malformed(f"line {line}", what) from wrong


def parse_json(text: str) -> Any:
    """A JSON text; keys that stand twice, NaN and infinity are mistakes."""
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant, parse_float=_finite)
    except json.JSONDecodeError as wrong:
        end = min(wrong.pos, len(text.rstrip()))  # of a text that is cut short, not of the blanks after it
        line, column = text.count("\n", 0, end) + 1, end - text.rfind("\n", 0, end)
        raise Malformed(f"line {line}, column {column}", f"broken JSON: {wrong.msg}") from wrong
    except RecursionError as wrong:
        raise Malformed("", "is nested too deeply") from wrong
    except ValueError as wrong:
        raise Malformed("", f"broken JSON: {wrong}") from wrong


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f'the key "{twice}" stands twice in one mapping')
    return made


def _no_constant(word: str) -> Any:
    raise ValueError(f"{word} is no JSON number")


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError(f"{digits} is {'too large a' if digits[-1].isdigit() else 'no finite'} number")
    return value


def parse_toml(text: str) -> Any:
    """A TOML text; dates and times become their ISO texts."""
    try:
        return _without_dates(tomllib.loads(text, parse_float=_finite))
    except tomllib.TOMLDecodeError as wrong:
        raise Malformed("", f"broken TOML: {wrong}") from wrong
    except RecursionError as wrong:
        raise Malformed("", "is nested too deeply") from wrong
    except ValueError as wrong:
        raise Malformed("", f"broken TOML: {wrong}") from wrong


def _without_dates(value: Any) -> Any:
    match value:
        case dict():
            return {key: _without_dates(item) for key, item in value.items()}
        case list():
            return [_without_dates(item) for item in value]
        case datetime() | date() | time():
            return value.isoformat()
        case _:
            return value


def parse_yaml(text: str) -> Any:
    """A YAML text; see ``trivium.suites.files.yaml_text``."""
    from trivium.suites.files.yaml_text import load

    return load(text)


PARSERS: dict[str, Callable[[str], Any]] = {
    ".yaml": parse_yaml,
    ".yml": parse_yaml,
    ".json": parse_json,
    ".toml": parse_toml,
}
