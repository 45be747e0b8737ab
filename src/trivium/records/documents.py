"""Parses YAML, JSON and TOML safely, with the place of each mistake, and writes TOML.

Scalars follow YAML 1.2's core schema: ``no``, ``on``, ``12:30`` and ``2024-05-20`` are texts. Numbers with
leading zeros are texts, too, because ids look like that.
"""

import json
import math
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import date, datetime, time
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from trivium.errors import InputError, Problem, SuiteError, suggest
from trivium.records.names import CASE_NAMES
from trivium.values import TOO_MANY_VALUES, holds_too_many_values

if TYPE_CHECKING:  # imported by what reads YAML only
    import yaml

LARGEST_DOCUMENT = 256 * 1024**2
"""Largest document in bytes; unlike a .jsonl file, a document is read into memory as a whole."""

BYTE_ORDER_MARK = b"\xef\xbb\xbf"

_ZIP = b"PK\x03\x04"
_GZIP = b"\x1f\x8b\x08"

SAVE_AS_UTF_8 = "save the file as UTF-8 (from Excel or Latin-1: `iconv -f WINDOWS-1252 -t UTF-8 OLD > NEW`)"

InputErrorType = type[InputError]


class MalformedDocument(Exception):
    """A text violates its format."""

    def __init__(self, where: str, what: str) -> None:
        super().__init__(what)
        self.problem = Problem(where, what)


@contextmanager
def readable(path: Path, error: InputErrorType) -> Iterator[None]:
    """Raise what the system says of a file that cannot be read, or what is malformed in it, as ``error``."""
    try:
        yield
    except OSError as failure:
        raise error(str(path), f"cannot be read: {failure.strerror or failure}") from failure
    except MalformedDocument as malformed:
        raise error(str(path), malformed.problem) from malformed


def read_document(
    path: Path,
    *,
    error: InputErrorType = SuiteError,
    of_cases: bool = False,
    parse: Callable[[str], Any] | None = None,
) -> Any:
    """Read the raw value of a .yaml, .yml, .json or .toml file.

    Args:
        path: The file.
        error: Class of the errors raised.
        of_cases: Whether JSON may hold cases; see :func:`parse_json_cases`.
        parse: The parser; by default that of the suffix.

    Raises:
        InputError: As ``error``, if the file does not exist, cannot be read, or is malformed.
    """
    parse = parse or PARSERS.get(path.suffix.lower())
    if parse is None:
        raise error(str(path), f'cannot tell the format from "{path.suffix}": expected {", ".join(PARSERS)}')
    text = read_text(path, error=error)
    with readable(path, error):
        return parse_json_cases(text) if of_cases and parse is parse_json else parse(text)


def read_mapping(path: Path) -> dict[str, Any]:
    """Read the object of a .json file.

    Raises:
        SuiteError: If the file is not a valid JSON object.
    """
    raw = read_document(path, parse=parse_json)
    if not isinstance(raw, dict):
        raise SuiteError(str(path), "is no JSON object")
    return raw


def check_is_file(
    path: Path, *, error: InputErrorType = SuiteError, expected: str = "expected a file"
) -> None:
    """Raise ``error`` unless the path is a regular file; a device or a pipe may never end."""
    try:
        if path.is_dir():
            raise error(str(path), f"is a folder: {expected}")
        if path.is_file():
            return
        if path.exists():
            what = "is a device or a pipe, not a file: it may never end. Save its content to a file first"
            raise error(str(path), what)
        if path.is_symlink():
            raise error(str(path), f"is a link to {path.readlink()}, which is not there")
        siblings = [entry.name for entry in path.parent.iterdir()] if path.parent.is_dir() else []
    except OSError as failure:
        raise error(str(path), f"cannot be read: {failure.strerror or failure}") from failure
    near = [each for each in get_close_matches(path.name, siblings) if suggest(path.stem, [Path(each).stem])]
    hint = f' Did you mean "{near[0]}"?' if near else ""
    raise error(str(path), f"there is no such file.{hint}")


def read_text(path: Path, *, error: InputErrorType = SuiteError) -> str:
    """Read the text of a file, without a byte order mark."""
    check_is_file(path, error=error)
    with readable(path, error):
        size = path.stat().st_size
        if size > LARGEST_DOCUMENT:
            most = f"{size:,} bytes are more than the {LARGEST_DOCUMENT:,} a document may have"
            raise error(str(path), f"{most}: use .jsonl, which is read line by line")
        raw = path.read_bytes()
        if path.suffix.lower() == ".json" and holds_too_many_values(raw):
            raise error(str(path), TOO_MANY_VALUES)
        return decode(raw)


def decode(raw: bytes, *, start: int = 0) -> str:
    """Decode UTF-8 bytes that begin at ``start`` in their file; an error names the byte."""
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise MalformedDocument("", "is UTF-16, expected UTF-8")
    if raw.startswith(_ZIP):
        raise MalformedDocument(
            "", "is a ZIP archive, such as an Excel workbook; expected text: save it as CSV (UTF-8)"
        )
    if raw.startswith(_GZIP):
        raise MalformedDocument("", "is compressed (gzip), expected text: unpack it (gunzip)")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as wrong:
        # "utf-8-sig" counts from after the byte order mark
        offset = wrong.start + (3 if raw.startswith(BYTE_ORDER_MARK) else 0)
        line = raw.count(b"\n", 0, offset) + 1
        raise MalformedDocument(f"line {line}", not_utf_8(raw[offset], start + offset)) from wrong


def not_utf_8(byte: int, offset: int) -> str:
    """What is wrong with a byte of a text, and how to mend it."""
    return f"byte {byte:#04x} at offset {offset:,} is not valid UTF-8: {SAVE_AS_UTF_8}"


def parse_json(text: str) -> Any:
    """Parse JSON; duplicate keys, NaN and infinity are errors."""
    return _parsed(text, object_pairs_hook=_unique, parse_constant=_no_constant, parse_float=_finite)


def parse_lenient_json(text: str) -> Any:
    """Parse JSON, accepting NaN and infinity so that messages can name the record that contains them."""
    return _parsed(text)


def _parsed(text: str, **options: Any) -> Any:
    try:
        return json.loads(text, **options)
    except json.JSONDecodeError as wrong:
        end = min(wrong.pos, len(text.rstrip()))  # for a truncated text: before trailing white space
        line, column = text.count("\n", 0, end) + 1, end - text.rfind("\n", 0, end)
        raise MalformedDocument(f"line {line}, column {column}", f"broken JSON: {wrong.msg}") from wrong
    except RecursionError as wrong:
        raise MalformedDocument("", "is nested too deeply") from wrong
    except ValueError as wrong:
        raise MalformedDocument("", f"broken JSON: {wrong}") from wrong


def parse_line(line: bytes, place: str, *, start: int = 0, parse: Callable[[str], Any] = parse_json) -> Any:
    """Parse a line of JSON; what is wrong with it is returned as a Problem.

    Args:
        line: The line.
        place: Its place in its file, such as ``line 3``.
        start: Its offset in the file in bytes.
        parse: The parser.
    """
    try:
        return parse(decode(line, start=start))
    except MalformedDocument as malformed:
        column = malformed.problem.where.rpartition(", ")[2]
        column = column if column.startswith("column") else ""
        return Problem(", ".join(filter(None, (place, column))), malformed.problem.what)


def parse_json_cases(text: str) -> Any:
    """Parse JSON with cases, or one case, in which answers under other tools' names keep their form.

    A number there is a text as it is written, such as 4.50 and 1e3; under ``references`` it stays a number,
    which is a mistake.
    """
    raw = parse_json(text)
    if any(_floats(case) for case in _cases_in(raw)):
        written = _cases_in(json.loads(text, parse_float=str))
        for case, same in zip(_cases_in(raw), written, strict=True):
            for key, at in _floats(case):
                if at is None:
                    case[key] = same[key]
                else:
                    case[key][at] = same[key][at]
    return raw


def _cases_in(raw: Any) -> list[dict[str, Any]]:
    """The cases of a suite, of a list of cases, or one alone."""
    listed = raw.get("cases", [raw]) if isinstance(raw, dict) else raw
    return [case for case in listed if isinstance(case, dict)] if isinstance(listed, list) else []


def _floats(case: dict[str, Any]) -> list[tuple[str, int | None]]:
    """Keys of answers that hold a number with a point or an exponent, or its places in their lists."""
    answers = [(key, value) for key, value in case.items() if key in _ANSWERS]
    inside = [(key, i) for key, value in answers if isinstance(value, list) for i in range(len(value))]
    alone: list[tuple[str, int | None]] = [(key, None) for key, value in answers if isinstance(value, float)]
    return alone + [(key, i) for key, i in inside if isinstance(case[key][i], float)]


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f'duplicate key "{twice}" in one mapping')
    return made


def _no_constant(word: str) -> Any:
    raise ValueError(f"{word} is no JSON number")


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError(f"{digits} is {'too large a' if digits[-1].isdigit() else 'no finite'} number")
    return value


def parse_toml(text: str) -> Any:
    """Parse TOML; dates and times become ISO texts."""
    try:
        return _without_dates(tomllib.loads(text, parse_float=_finite))
    except tomllib.TOMLDecodeError as wrong:
        raise MalformedDocument("", f"broken TOML: {wrong}") from wrong
    except RecursionError as wrong:
        raise MalformedDocument("", "is nested too deeply") from wrong
    except ValueError as wrong:
        raise MalformedDocument("", f"broken TOML: {wrong}") from wrong


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


MOST_NODES = 20_000_000
"""Most nodes of a document with its aliases expanded."""

ALIAS_GROWTH = 1_000_000
"""Most nodes that aliases may add; an alias bomb adds billions."""

DEEPEST = 100
"""Most levels of nesting of a document."""


_SCALARS = (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"[-+]?(?:0|[1-9][0-9]*)", list("-+0123456789")),
    ("float", r"[-+]?(?:\.[0-9]+|(?:0|[1-9][0-9]*)(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", list("-+.0123456789")),
    ("merge", r"<<", ["<"]),
)
"""Tag, pattern and possible first characters of the scalars that are not texts."""


_ANSWERS = frozenset(CASE_NAMES["references"]) - {"references"}
"""Keys of other tools for the references of a case."""

_WRITTEN = {"references", "group", *CASE_NAMES["id"], *CASE_NAMES["references"]}
"""Keys of a case whose numbers are texts."""


@cache
def _loader() -> Any:
    """The safe loader with the core schema's scalars."""
    import yaml

    class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
        yaml_implicit_resolvers: ClassVar[dict[str, Any]] = {}

    def finite(_: Any, node: yaml.ScalarNode) -> float:
        value = float(node.value)
        if not math.isfinite(value):
            raise yaml.constructor.ConstructorError(None, None, "the number is too large", node.start_mark)
        return value

    Loader.add_constructor("tag:yaml.org,2002:float", finite)
    Loader.add_constructor("tag:yaml.org,2002:int", lambda _, node: int(node.value))
    Loader.add_constructor("tag:yaml.org,2002:bool", lambda _, node: node.value.lower() == "true")
    for tag, pattern, first in _SCALARS:
        Loader.add_implicit_resolver(f"tag:yaml.org,2002:{tag}", re.compile(f"^(?:{pattern})$"), first)
    return Loader


def parse_yaml(text: str) -> Any:
    """Parse YAML; see the docstring of this module.

    Raises:
        MalformedDocument: If it is malformed, with line and column.
    """
    import yaml

    try:
        _check_depth(text)
        loader = _loader()(text)
        try:
            node = loader.get_single_node()
            if node is None:
                return None
            _check(node)
            _keep_written(node)
            return loader.construct_document(node)
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as wrong:
        what = ", ".join(part for part in (wrong.context, wrong.problem) if part)
        if _is_tab(text, wrong.problem_mark):
            what = "a tab where YAML expects spaces"
        elif hint := _yaml_hint(text, wrong):
            what = hint
        raise MalformedDocument(
            _place(wrong.problem_mark or wrong.context_mark), f"broken YAML: {what}"
        ) from wrong
    except yaml.YAMLError as wrong:
        raise MalformedDocument("", f"broken YAML: {wrong}") from wrong
    except ValueError as wrong:
        raise MalformedDocument("", f"broken YAML: {wrong}") from wrong


def _is_tab(text: str, mark: Any) -> bool:
    lines = text.splitlines()
    return bool(mark) and mark.line < len(lines) and lines[mark.line][mark.column : mark.column + 1] == "\t"


def _yaml_hint(text: str, wrong: "yaml.MarkedYAMLError") -> str:
    """How to mend the usual mistakes: a line that begins in a column of its own, a colon within a value."""
    mark = wrong.problem_mark
    lines = text.splitlines()
    if not mark or mark.line >= len(lines):
        return ""
    before = lines[mark.line][: mark.column]
    if "mapping values are not allowed" in str(wrong.problem):
        if ": " in before:
            return "a value holds a colon and a space: put it in quotes"
        return "a key where none is expected: begin it in the same column as the keys beside it"
    if "block" in str(wrong.context) and not before.strip() and wrong.context_mark:
        start = wrong.context_mark
        return (
            f"wrong indentation: the entries that begin in line {start.line + 1} stand in column "
            f"{start.column + 1}; let the keys of one entry begin in one column"
        )
    return ""


def _place(mark: Any) -> str:
    return f"line {mark.line + 1}, column {mark.column + 1}" if mark else ""


def _check_depth(text: str) -> None:
    """Reject deep nesting before the nodes are built, because building them recurses."""
    import yaml

    depth = 0
    for event in yaml.parse(text, Loader=_loader()):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > DEEPEST:
                raise MalformedDocument(
                    _place(event.start_mark), f"is nested more than {DEEPEST} levels deep"
                )
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _check(root: "yaml.Node") -> None:
    """Reject cycles, duplicate keys, and too many nodes with the aliases expanded."""
    sizes: dict[int, int] = {}
    open_nodes: set[int] = set()
    waiting: list[tuple[yaml.Node, bool]] = [(root, False)]
    while waiting:
        node, done = waiting.pop()
        if done:
            open_nodes.discard(id(node))
            sizes[id(node)] = 1 + sum(sizes[id(child)] for child in _children(node))
            continue
        if id(node) in sizes:
            continue
        if id(node) in open_nodes:
            raise MalformedDocument(_place(node.start_mark), "an alias refers to a value that contains it")
        open_nodes.add(id(node))
        _check_keys(node)
        waiting.append((node, True))
        waiting.extend((child, False) for child in _children(node))
    if sizes[id(root)] > min(len(sizes) + ALIAS_GROWTH, MOST_NODES):
        raise MalformedDocument("", f"its aliases expand to {sizes[id(root)]:,} values: that is too many")


def _keep_written(root: Any) -> None:
    """Let numbers among a case's id, group and references be texts as they are written: 4.50, 1.10, 1e3."""
    if root.id == "mapping":
        cases = [case for key, value in root.value if key.value == "cases" for case in _children(value)]
    else:
        cases = _children(root)
    for case in cases:
        for key, value in case.value if case.id == "mapping" else ():
            if key.value in _WRITTEN:
                for each in (value, *(_children(value) if value.id == "sequence" else ())):
                    if each.tag in {"tag:yaml.org,2002:float", "tag:yaml.org,2002:int"}:
                        each.tag = "tag:yaml.org,2002:str"


def _children(node: Any) -> list[Any]:
    if node.id == "mapping":
        return [child for pair in node.value for child in pair]
    return node.value if node.id == "sequence" else []


def _check_keys(node: Any) -> None:
    if node.id != "mapping":
        return
    seen: set[str] = set()
    for key, _ in node.value:
        if key.id != "scalar":
            raise MalformedDocument(_place(key.start_mark), "a key must be text")
        if key.tag == "tag:yaml.org,2002:merge":
            continue
        key.tag = "tag:yaml.org,2002:str"  # as in JSON, every key is a text
        if key.value in seen:
            raise MalformedDocument(_place(key.start_mark), f'duplicate key "{key.value}" in one mapping')
        seen.add(key.value)


PARSERS: dict[str, Callable[[str], Any]] = {
    ".yaml": parse_yaml,
    ".yml": parse_yaml,
    ".json": parse_json,
    ".toml": parse_toml,
}


def dump_toml(raw: Mapping[str, Any], *, source: str) -> str:
    """Write a mapping as TOML, each key on its own line with its value inline.

    Raises:
        SuiteError: About ``source``, if a value is null, which TOML does not have.
    """
    try:
        return "".join(f"{_text(key)} = {_value(value, key)}\n" for key, value in raw.items())
    except _Null as null:
        found = Problem(str(null), "is null, which TOML does not have: save as .yaml or .json")
        raise SuiteError(source, found) from null


class _Null(Exception):
    """A value is null; the message is its place."""


def _value(value: Any, where: str) -> str:
    match value:
        case str():
            return _text(value)
        case Mapping():
            pairs = [f"{_text(key)} = {_value(item, f'{where}.{key}')}" for key, item in value.items()]
            return f"{{ {', '.join(pairs)} }}" if pairs else "{}"
        case list() | tuple():
            items = [_value(item, f"{where}[{index}]") for index, item in enumerate(value)]
            return f"[{', '.join(items)}]"
        case None:
            raise _Null(where)
        case _:
            return json.dumps(value)


def _text(value: str) -> str:
    # TOML has JSON's escapes, but also requires DEL to be escaped.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
