"""The state of a world as JSON, the value at a path of it, and what changed between two states.

Definition: docs/definitions/worlds.md#state.
"""

import dataclasses
import math
import sqlite3
from collections.abc import Iterator, Mapping
from datetime import date, time
from decimal import Decimal
from enum import Enum
from hashlib import blake2b, file_digest
from itertools import islice, zip_longest
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Literal
from uuid import UUID

import msgspec

from trivium.agents.attempt import CUT, StateChange, bounded_text
from trivium.any_object import encode
from trivium.masking import OutputMasker
from trivium.safe_text import sanitise
from trivium.values import JsonObject, json_text

MOST_VALUES = 200_000
"""Most values in a state that is compared."""

DEEPEST = 60
"""Most levels of a state that is compared."""

MOST_CHANGES = 50
"""Most changes that are stored with an attempt."""

LONGEST_VALUE = 300
"""Longest value in a stored change, in characters of its JSON."""

LARGEST_TEXT = 100_000
"""Largest file of a folder that is compared as text, in bytes; others are compared by their hash."""

_masker = OutputMasker()

NOTHING = object()
"""What is at a path where nothing is."""


class StateTooLarge(Exception):
    """The state holds more values than are compared."""


def snapshot(state: Any) -> Any:
    """Copy a state as JSON.

    Mappings, lists, sets, dataclasses, records of msgspec and pydantic, and the public attributes of other
    objects become JSON; so do the tables of a SQLite connection, by primary key, and the files of a folder.
    An object with a method ``snapshot`` says itself what it is.

    Raises:
        StateTooLarge: If it holds more than ``MOST_VALUES`` values.
        Exception: Any exception of the state's own code.
    """
    copied = _Copy().of(state, 0)
    value, _ = sanitise(copied)
    return value


class _Copy:
    """Copies a value as JSON, and counts what it holds."""

    def __init__(self) -> None:
        self._left = MOST_VALUES
        self._open: set[int] = set()

    def of(self, value: Any, depth: int) -> Any:
        self._left -= 1
        if self._left < 0:
            raise StateTooLarge(f"it holds more than {MOST_VALUES:,} values")
        if value is None or type(value) in (bool, str):
            return value
        if isinstance(value, Enum):
            return self.of(value.value, depth)
        if isinstance(value, Real):
            return _number(value)
        if (text := _text(value)) is not None:
            return text
        if id(value) in self._open:
            return "<refers to itself>"
        if depth >= DEEPEST:
            raise StateTooLarge(f"it is nested deeper than {DEEPEST} levels")
        self._open.add(id(value))
        try:
            return self._parts(value, depth + 1)
        finally:
            self._open.discard(id(value))

    def _parts(self, value: Any, depth: int) -> Any:
        own = getattr(value, "snapshot", None)
        if callable(own) and not isinstance(value, Mapping | type):
            return self.of(own(), depth)
        if isinstance(value, sqlite3.Connection):
            return self.of(tables_of(value), depth)
        if isinstance(value, Path):  # one inside of a state is a name
            return self.of(files_of(value), depth) if depth == 1 else str(value)
        if isinstance(value, Mapping):
            return {str(_key(key)): self.of(held, depth) for key, held in value.items()}
        if isinstance(value, set | frozenset):
            return sorted((self.of(held, depth) for held in value), key=encode)
        if isinstance(value, list | tuple) or (hasattr(value, "__iter__") and hasattr(value, "__len__")):
            return [self.of(held, depth) for held in value]
        return {name: self.of(held, depth) for name, held in _attributes(value)}


def _number(value: Any) -> int | float | str:
    if isinstance(value, Integral):
        whole = int(value)
        return whole if -(2**63) <= whole < 2**64 else str(whole)
    number = float(value)
    return number if math.isfinite(number) else str(number)


def _text(value: Any) -> str | None:
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return _hashed(bytes(value))
    if isinstance(value, date | time):
        return value.isoformat()
    return str(value) if isinstance(value, Decimal | UUID) else None


def _key(key: Any) -> Any:
    return key.value if isinstance(key, Enum) else key


def _attributes(value: Any) -> Iterator[tuple[str, Any]]:
    """The public attributes of an object; of one without any, its class only."""
    if isinstance(value, msgspec.Struct):
        yield from msgspec.structs.asdict(value).items()
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        yield from ((field.name, getattr(value, field.name)) for field in dataclasses.fields(value))
    elif callable(dump := getattr(value, "model_dump", None)) and not isinstance(value, type):
        yield from dump(mode="json").items()
    elif isinstance(value, type) or callable(value) or not hasattr(value, "__dict__"):
        yield "type", type(value).__name__
    else:
        yield from ((name, held) for name, held in vars(value).items() if not name.startswith("_"))


def _hashed(content: bytes) -> str:
    return f"<{len(content):,} bytes {blake2b(content, digest_size=8).hexdigest()}>"


def tables_of(connection: sqlite3.Connection) -> JsonObject:
    """The rows of each table, by primary key (several columns joined by a comma) or else by rowid.

    Raises:
        StateTooLarge: If there are more than ``MOST_VALUES`` rows.
    """
    found: JsonObject = {}
    names = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name"
    for (table,) in _rows(connection, names):
        quoted = '"' + table.replace('"', '""') + '"'
        columns = _rows(connection, f"PRAGMA table_info({quoted})")
        names_of = [column[1] for column in columns]
        keys = [column[1] for column in sorted(columns, key=lambda each: each[5]) if column[5]]
        key = "rowid" if not keys else ", ".join('"' + name.replace('"', '""') + '"' for name in keys)
        width = max(1, len(keys))
        rows = _rows(connection, f"SELECT {key}, * FROM {quoted}")  # noqa: S608 - quoted names of its schema
        found[table] = {
            ",".join(map(str, row[:width])): dict(zip(names_of, row[width:], strict=True)) for row in rows
        }
    return found


def _rows(connection: sqlite3.Connection, query: str) -> list[tuple[Any, ...]]:
    cursor = connection.cursor()
    cursor.row_factory = None
    try:
        rows = list(islice(cursor.execute(query), MOST_VALUES + 1))
    finally:
        cursor.close()
    if len(rows) > MOST_VALUES:
        raise StateTooLarge(f"a table has more than {MOST_VALUES:,} rows")
    return rows


def files_of(folder: Path) -> JsonObject:
    """The files below a folder by path: a text, a hash of what is large or no text, or a link's target."""
    found: JsonObject = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink():
            found[name] = f"<link to {path.readlink()}>"
        elif path.is_file():
            found[name] = _content(path)
        elif path.is_dir() and not any(path.iterdir()):
            found[f"{name}/"] = "<an empty folder>"
        if len(found) > MOST_VALUES:
            raise StateTooLarge(f"it has more than {MOST_VALUES:,} files")
    return found


def _content(path: Path) -> str:
    size = path.stat().st_size
    with path.open("rb") as file:
        if size > LARGEST_TEXT:
            digest = file_digest(file, lambda: blake2b(digest_size=8)).hexdigest()
            return f"<{size:,} bytes {digest}>"
        content = file.read(LARGEST_TEXT)
    try:
        return content.decode()
    except UnicodeDecodeError:
        return _hashed(content)


def at_path(state: Any, path: str) -> Any:
    """The value at a path such as ``orders.1001.items[0]``, or ``NOTHING``.

    A key may hold dots itself (``notes.txt``): the longest one that is there is taken.
    """
    rest = path.replace("[", ".").replace("]", "").removeprefix(".") if isinstance(state, list) else path
    if not rest:
        return state
    if isinstance(state, Mapping):
        if rest in state:
            return state[rest]
        ends = sorted((place for place, char in enumerate(rest) if char in ".["), reverse=True)
        for end in ends:
            if rest[:end] in state:
                found = at_path(state[rest[:end]], rest[end:].removeprefix("."))
                if found is not NOTHING:
                    return found
    elif isinstance(state, list):
        first, _, after = rest.partition(".")
        if first.removeprefix("-").isdecimal() and -len(state) <= int(first) < len(state):
            return at_path(state[int(first)], after)
    return NOTHING


def changes(before: Any, after: Any) -> tuple[tuple[StateChange, ...], int]:
    """The first differences between two states, masked and bounded, and the number of the others."""
    found = _differences(before, after, "")
    shown = tuple(
        StateChange(path=_short(path), kind=kind, before=_shown(old), after=_shown(new))
        for path, kind, old, new in islice(found, MOST_CHANGES)
    )
    return shown, sum(1 for _ in found)


Difference = tuple[str, Literal["added", "removed", "changed"], Any, Any]


def _differences(before: Any, after: Any, path: str) -> Iterator[Difference]:
    if before is NOTHING:
        yield path, "added", None, after
    elif after is NOTHING:
        yield path, "removed", before, None
    elif isinstance(before, dict) and isinstance(after, dict):
        for key in before | after:
            one, other = (each.get(key, NOTHING) for each in (before, after))
            yield from _differences(one, other, f"{path}.{key}" if path else key)
    elif isinstance(before, list) and isinstance(after, list):
        for place, (one, other) in enumerate(zip_longest(before, after, fillvalue=NOTHING)):
            yield from _differences(one, other, f"{path}[{place}]")
    elif not same(before, after):
        yield path, "changed", before, after


def same(one: Any, other: Any) -> bool:
    """Whether two JSON values are equal: 1 equals 1.0, and no truth value equals a number."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, bool) != isinstance(other, bool):
        return False
    return bool(one == other)


def _shown(value: Any) -> Any:
    hidden = _masker.value(value)
    text = json_text(hidden)
    return hidden if len(text) <= LONGEST_VALUE else _cut(text)


def _short(path: str) -> str:
    return path if len(path) <= LONGEST_VALUE else _cut(path)


def _cut(text: str) -> str:
    return f"{text[:LONGEST_VALUE]}… ({len(text):,}{CUT}"


def shown_value(value: Any) -> str:
    """A value in a sentence: its JSON, masked and cut; or that there is nothing."""
    if value is NOTHING:
        return "nothing"
    return bounded_text(_shown(value))
