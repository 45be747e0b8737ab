"""Converts raw values to records and describes every mistake.

``convert`` tries msgspec first, which is fast and strict. If that fails, it walks the value along its type to
collect all mistakes (msgspec stops at the first) and to accept the shorthands of a field. A field declares a
shorthand with ``Meta(extra={"also": …})``: ``"number"`` accepts a number in place of its decimal text,
``"single"`` accepts a value in place of a list with that value. ``extra={"words": …}`` describes the expected
value in messages.
"""

import math
import operator
import re
from collections.abc import Callable, Hashable, Sequence
from functools import cache
from itertools import chain
from typing import Any, TypeVar, cast

import msgspec
from msgspec import inspect

from trivium.errors import Problem, suggest
from trivium.records.names import CASE_NAMES, OUTPUT_NAMES
from trivium.values import is_number

T = TypeVar("T")

QUOTED_CHARS = 60
"""Characters of a wrong text that a message quotes at most."""


def convert(raw: Any, kind: type[T], where: str = "") -> tuple[T | None, list[Problem]]:
    """Convert a raw JSON value to a record.

    Args:
        raw: Mappings, lists, texts, numbers, booleans and None, as a parser returns them.
        kind: A msgspec Struct.
        where: Place of the value, such as ``cases[3]``. A place that ends in a colon, such as ``line 7:``,
            is put before the path instead of being part of it.

    Returns:
        The record and no problems, or None and every problem.
    """
    try:
        return msgspec.convert(raw, kind), []
    except (msgspec.ValidationError, RecursionError):
        problems: list[Problem] = []
        mended = _walk(raw, _shape(cast("Hashable", kind)), where, problems)
    if problems:
        return None, problems
    try:
        return msgspec.convert(mended, kind), []
    except (msgspec.ValidationError, RecursionError) as error:
        return None, [problem(where, str(error))]


def problem(where: str, what: str) -> Problem:
    """Make a problem at a place, in the notation of ``convert``."""
    return Problem(where.rstrip(":"), what)


def at(where: str, step: str | int) -> str:
    """Return the place of a key or an index within a place."""
    if isinstance(step, int):
        return f"{where}[{step}]"
    if not step.replace("-", "_").isidentifier():
        return f'{where}["{quote(step)}"]'
    if not where:
        return step
    return f"{where} {step}" if where.endswith(":") else f"{where}.{step}"


def quote(text: str) -> str:
    """Shorten and escape a text for a message."""
    flat = text.replace("\n", "⏎") if len(text) <= QUOTED_CHARS else f"{text[:QUOTED_CHARS]}…"
    return "".join(char if char.isprintable() else "�" for char in flat)


def describe(value: Any) -> str:
    """Describe a value for a message."""
    match value:
        case None:
            return "nothing (null)"
        case bool():
            return "true" if value else "false"
        case str():
            return f'the text "{quote(value)}"'
        case int() | float():
            return f"the number {quote(decimal_text(value))}"
        case list() | tuple():
            return "an empty list" if not value else f"a list of {len(value)}"
        case dict():
            keys = ", ".join(quote(str(key)) for key in list(value)[:4])
            return f"a mapping ({keys}{', …' if len(value) > 4 else ''})" if value else "an empty mapping"
        case _:
            return f"a {type(value).__name__}"


def decimal_text(number: float) -> str:
    """Return the text of a number that is used as an id."""
    try:
        return repr(number)
    except ValueError:  # more digits than Python will print
        return "of very many digits"


def unknown_key(key: str, known: Sequence[str]) -> str:
    """The message for an unknown key."""
    aliased = [field for field, names in CASE_NAMES.items() if key.lower() in names and field in known]
    alias = f' Did you mean "{aliased[0]}"?' if aliased and {"id", "input"} <= set(known) else ""
    outputs = OUTPUT_NAMES["output"] if {"case", "output"} <= set(known) else ()
    cases = chain(*CASE_NAMES.values()) if {"id", "input"} <= set(known) else ()
    hint = alias or suggest(key, (*known, *outputs, *cases)) or f" Known: {', '.join(known)}"
    return f'unknown key "{quote(key)}".{hint}'


@cache
def _shape(kind: Hashable) -> inspect.Type:
    return inspect.type_info(kind)


def _walk(raw: Any, shape: inspect.Type, where: str, problems: list[Problem]) -> Any:
    """Resolve the shorthands in a value, and append its mistakes to ``problems``."""
    walk: _Walk = _WALKS.get(type(shape), _walk_plain)
    return walk(raw, shape, where, problems)


def _walk_metadata(raw: Any, shape: inspect.Metadata, where: str, problems: list[Problem]) -> Any:
    also = (shape.extra or {}).get("also")
    if also == "number" and is_number(raw):
        raw = decimal_text(raw)
    elif also == "single" and raw is not None and not isinstance(raw, list | tuple | dict):
        raw = [raw]
    words = (shape.extra or {}).get("words")
    if words is not None and not (_fits(raw, shape.type) and _in_bounds(raw, shape.type)):
        problems.append(_mismatch(raw, shape, where))
        return raw
    return _walk(raw, shape.type, where, problems)


def _walk_struct(raw: Any, shape: inspect.StructType, where: str, problems: list[Problem]) -> Any:
    if not isinstance(raw, dict):
        problems.append(_mismatch(raw, shape, where))
        return raw
    fields = {field.encode_name: field for field in shape.fields}
    mended = {}
    for key, value in raw.items():
        if key in fields:
            mended[key] = _walk(value, fields[key].type, at(where, key), problems)
        elif not isinstance(key, str):
            problems.append(problem(where, f"found {describe(key)} as a key, expected text"))
        elif shape.forbid_unknown_fields:
            problems.append(problem(where, unknown_key(key, list(fields))))
    for name, field in fields.items():
        if field.required and name not in raw:
            problems.append(problem(where, f'"{name}" is missing'))
    for name, others in getattr(shape.cls, "one_of", {}).items():
        if name not in raw and not any(other in raw for other in others):
            problems.append(problem(where, f'"{name}" is missing'))
    return mended


def _walk_mapping(raw: Any, shape: inspect.DictType, where: str, problems: list[Problem]) -> Any:
    if not isinstance(raw, dict) or not _in_bounds(raw, shape):
        problems.append(_mismatch(raw, shape, where))
        return raw
    mended = {}
    for key, value in raw.items():
        if not isinstance(key, str) and key is not None and _fits(key, shape.key_type):
            key = decimal_text(key)  # noqa: PLW2901 - YAML reads 1: as a number
            if key in raw:
                problems.append(problem(at(where, key), f"{quote(key)} is there twice, once as a text"))
        if isinstance(key, str):
            mended[key] = _walk(value, shape.value_type, at(where, key), problems)
            _walk(key, shape.key_type, where, problems)
        else:
            problems.append(problem(where, f"found {describe(key)} as a key, expected text"))
    return mended


def _walk_sequence(
    raw: Any, shape: inspect.VarTupleType | inspect.ListType, where: str, problems: list[Problem]
) -> Any:
    if not isinstance(raw, list | tuple) or not _in_bounds(raw, shape):
        problems.append(_mismatch(raw, shape, where))
        return raw
    return [_walk(value, shape.item_type, at(where, i), problems) for i, value in enumerate(raw)]


def _walk_union(raw: Any, shape: inspect.UnionType, where: str, problems: list[Problem]) -> Any:
    if raw is None and any(isinstance(member, inspect.NoneType) for member in shape.types):
        return raw
    fitting = [member for member in shape.types if _fits(raw, member)]
    if len(fitting) == 1:
        return _walk(raw, fitting[0], where, problems)
    if not fitting:
        problems.append(_mismatch(raw, shape, where))
    return raw


def _walk_literal(raw: Any, shape: inspect.LiteralType, where: str, problems: list[Problem]) -> Any:
    if raw not in shape.values or isinstance(raw, bool):
        hint = suggest(raw, map(str, shape.values)) if isinstance(raw, str) else ""
        found = _mismatch(raw, shape, where)
        problems.append(Problem(found.where, f"{found.what}.{hint}" if hint else found.what))
    return raw


def _walk_plain(raw: Any, shape: inspect.Type, where: str, problems: list[Problem]) -> Any:
    if not _fits(raw, shape) or not _in_bounds(raw, shape):
        problems.append(_mismatch(raw, shape, where))
    elif isinstance(shape, inspect.IntType):
        return int(raw)  # 1.0, as data frames have whole numbers in a column with missing ones
    return raw


_Walk = Callable[[Any, Any, str, list[Problem]], Any]

_WALKS: dict[type, _Walk] = {
    inspect.Metadata: _walk_metadata,
    inspect.StructType: _walk_struct,
    inspect.DictType: _walk_mapping,
    inspect.VarTupleType: _walk_sequence,
    inspect.ListType: _walk_sequence,
    inspect.UnionType: _walk_union,
    inspect.LiteralType: _walk_literal,
}


def _fits(raw: Any, shape: inspect.Type) -> bool:
    """Whether a value has the JSON type that a schema type describes."""
    match shape:
        case inspect.Metadata():
            also = (shape.extra or {}).get("also")
            return (also == "number" and is_number(raw)) or also == "single" or _fits(raw, shape.type)
        case inspect.IntType():
            return is_number(raw) and (isinstance(raw, int) or raw.is_integer())
        case inspect.FloatType():
            return is_number(raw)
        case inspect.LiteralType():
            return any(type(raw) is type(value) for value in shape.values)
        case _:
            return isinstance(raw, _TYPES.get(type(shape), object))


_TYPES: dict[type, Any] = {
    inspect.NoneType: type(None),
    inspect.StrType: str,
    inspect.BoolType: bool,
    inspect.VarTupleType: list | tuple,
    inspect.ListType: list | tuple,
    inspect.DictType: dict,
    inspect.StructType: dict,
}

_BOUNDS: tuple[tuple[str, str, Callable[[float, float], bool]], ...] = (
    ("ge", "at least", operator.ge),
    ("gt", "more than", operator.gt),
    ("le", "at most", operator.le),
    ("lt", "less than", operator.lt),
)


def _bounds(shape: inspect.Type) -> list[tuple[float, str, Callable[[float, float], bool]]]:
    """The bounds of a number, each with its words and what holds of a number within it."""
    found = ((getattr(shape, name), words, holds) for name, words, holds in _BOUNDS)
    return [(bound, words, holds) for bound, words, holds in found if bound is not None]


def _in_bounds(raw: Any, shape: inspect.Type) -> bool:
    match shape:
        case inspect.StrType():
            matches = shape.pattern is None or re.search(shape.pattern, raw) is not None
            return matches and len(raw) >= (shape.min_length or 0)
        case inspect.VarTupleType() | inspect.ListType() | inspect.DictType():
            return len(raw) >= (shape.min_length or 0)
        case inspect.IntType() | inspect.FloatType():
            return math.isfinite(raw) and all(holds(raw, bound) for bound, _, holds in _bounds(shape))
        case _:
            return True


def _mismatch(raw: Any, shape: inspect.Type, where: str) -> Problem:
    expected = _expected(shape)
    hint = f': write it as a text, "{decimal_text(raw)}"' if expected == "text" and is_number(raw) else ""
    return problem(where, f"found {describe(raw)}, expected {expected}{hint}")


def _expected(shape: inspect.Type) -> str:
    """Describe a schema type for a message."""
    match shape:
        case inspect.Metadata():
            return (shape.extra or {}).get("words") or _expected(shape.type)
        case inspect.VarTupleType() | inspect.ListType() | inspect.DictType() if shape.min_length:
            return f"{_NOUNS[type(shape)]} that is not empty"
        case inspect.StrType():
            return "a text that is not empty" if shape.min_length else "text"
        case inspect.IntType() | inspect.FloatType():
            return _expected_number(shape)
        case inspect.LiteralType():
            return " or ".join(f'"{value}"' for value in shape.values)
        case inspect.StructType():
            return f"a mapping with keys {', '.join(field.encode_name for field in shape.fields)}"
        case inspect.UnionType():
            members = [member for member in shape.types if not isinstance(member, inspect.NoneType)]
            return " or ".join(_expected(member) for member in members)
        case _:
            return _NOUNS[type(shape)]


_NOUNS = {
    inspect.BoolType: "true or false",
    inspect.NoneType: "nothing (null)",
    inspect.VarTupleType: "a list",
    inspect.ListType: "a list",
    inspect.DictType: "a mapping",
}


def _expected_number(shape: inspect.IntType | inspect.FloatType) -> str:
    noun = "a whole number" if isinstance(shape, inspect.IntType) else "a number"
    bounds = [
        f"{words} {int(bound) if bound == int(bound) else bound:,}" for bound, words, _ in _bounds(shape)
    ]
    return f"{noun} of {' and '.join(bounds)}" if bounds else noun
