"""Maps the columns and keys of other tools to the fields of a case and of a recorded output.

A table or a list whose names are all Trivium's own is left as it is. In any other, a common name such as
``question`` or ``ground_truth`` stands for a field, further names go to ``metadata``, and a note says so. A
name that could be two things is a mistake that asks which one is meant.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from trivium.any_object import is_absent
from trivium.errors import Problem, suggest
from trivium.records.names import (
    CASE_NAMES,
    EITHER,
    EXPECTED_TOOLS,
    OUTPUT_NAMES,
    RESEMBLING,
    plain_name,
)
from trivium.suites.case import Case
from trivium.values import dict_, json_text, list_

OUTPUT_FIELDS = (
    "case",
    "repeat",
    "output",
    "seconds",
    "trace",
    "usage",
    "reward",
    "error",
    "metadata",
    "messages",
    "contexts",
    "world",
    "flags",
)

_NO_ID = frozenset({"name"})
"""Aliases of ``id`` in data sets that are often not unique in a table."""


class Columns(NamedTuple):
    """How the columns of a table are read.

    Attributes:
        fields: Column of each field.
        metadata: Columns that become metadata.
        left_out: Columns that are not read.
        problems: Names that are unknown or ambiguous.
        asks: Whether a name is ambiguous.
    """

    fields: dict[str, str]
    metadata: tuple[str, ...]
    left_out: tuple[str, ...]
    problems: tuple[Problem, ...] = ()
    asks: bool = False

    @property
    def renamed(self) -> dict[str, str]:
        """Field of each column that has another name."""
        return {column: field for field, column in self.fields.items() if column != field}

    def note(self) -> str:
        """Describe the mapped columns in one line."""
        words = [f"read {', '.join(f'{name} as {field}' for name, field in self.renamed.items())}"]
        if self.metadata:
            words.append(f"kept as metadata: {_listed(self.metadata)}")
        if self.left_out:
            words.append(f"not read: {_listed(self.left_out)}")
        return "; ".join(words)


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - 6} more" if len(names) > 6 else ""
    return ", ".join(names[:6]) + more


def case_columns(names: Sequence[str], *, lenient: bool = False) -> Columns | None:
    """Map the columns of a table of cases; None if all are Trivium's own.

    Args:
        names: The columns.
        lenient: Whether a name without a meaning is metadata, even if no other name is mapped.
    """
    unknown = [name for name in names if name.partition(".")[0] not in Case.__struct_fields__]
    if not unknown:
        return None
    problems: list[Problem] = []
    outputs = _matching(unknown, OUTPUT_NAMES["output"])
    found = {
        field: _matching(unknown, CASE_NAMES[field]) for field in ("id", "input", "references", "source")
    }
    found["id"] = [name for name in found["id"] if plain_name(name) not in _NO_ID][:1]
    either = [plain_name(name) for name in found["references"]]
    found["references"] = _clear(found["references"], "answer")
    if either == ["output"] and "references" not in names:
        problems.append(_either(found["references"][0]))
        outputs.remove(found["references"][0])
        unknown.remove(found["references"].pop())
    fields = _fields(names, Case.__struct_fields__, found, problems)
    mapped = any(name != field for field, name in fields.items())
    if (mapped or lenient) and "input" not in fields and not problems:
        what = f"no column has a usual name of the input; rename it to input. There are: {_listed(names)}"
        problems.append(Problem("", what))
    left_out = tuple(name for name in outputs if mapped and name not in fields.values())
    rest = [name for name in unknown if name not in {*fields.values(), *left_out}]
    return _finished(fields, rest, left_out, problems, Case.__struct_fields__, lenient=lenient or mapped)


def output_columns(names: Sequence[str]) -> Columns | None:
    """Map the columns of a table of recorded outputs; None if all are Trivium's own.

    Columns of a case are not read, so that one table may hold cases and outputs.
    """
    unknown = [name for name in names if name.partition(".")[0] not in OUTPUT_FIELDS]
    if not unknown:
        return None
    problems: list[Problem] = []
    found = {field: _matching(unknown, OUTPUT_NAMES[field])[:1] for field in ("case", "output", "contexts")}
    found["output"] = _clear(_matching(unknown, OUTPUT_NAMES["output"]))
    fields = _fields(names, OUTPUT_FIELDS, found, problems)
    of_cases = {
        name
        for field in ("id", "input", "references", "source", "tags", "group", "complexity")
        for name in _matching(unknown, (*CASE_NAMES[field], field))
    }
    mapped = any(name != field for field, name in fields.items()) or ("output" in fields and bool(of_cases))
    left_out = tuple(name for name in unknown if mapped and name in of_cases and name not in fields.values())
    rest = [name for name in unknown if name not in {*fields.values(), *left_out}]
    return _finished(fields, rest, left_out, problems, OUTPUT_FIELDS, lenient=mapped)


def input_column(names: Sequence[str]) -> str | None:
    """The column of a table of outputs that repeats the input of the case, or None."""
    return next(iter(_matching(names, CASE_NAMES["input"])), None)


def _matching(names: Sequence[str], aliases: Sequence[str]) -> list[str]:
    """Return the names that are aliases, most likely first."""
    by_name: dict[str, str] = {}
    for name in names:
        by_name.setdefault(plain_name(name), name)
    return [by_name[alias] for alias in aliases if alias in by_name]


def _clear(found: list[str], *otherwise: str) -> list[str]:
    """Of the names of a field those that are of nothing else, or else another one; all if there is none."""
    clear = [name for name in found if plain_name(name) not in EITHER]
    return clear or [name for name in found if plain_name(name) in otherwise] or found


def _fields(
    names: Sequence[str], known: Sequence[str], found: Mapping[str, list[str]], problems: list[Problem]
) -> dict[str, str]:
    """The column of each field: of its own name, or else the first that was found; several are a mistake."""
    fields = {name: name for name in names if name in known}
    for field, columns in found.items():
        if columns and field not in fields:
            fields[field] = columns[0]
            if len(columns) > 1:
                several = " and ".join(f'"{name}"' for name in columns)
                what = f"{several} could each be the {field}: rename the right one to {field}"
                problems.append(Problem("", what))
    return fields


def _either(name: str) -> Problem:
    what = (
        f'"{name}" could be the reference or what the agent answered: rename a reference to references; '
        "recorded outputs go in a file for --outputs"
    )
    return Problem("", what)


def _finished(
    fields: dict[str, str],
    rest: Sequence[str],
    left_out: tuple[str, ...],
    problems: list[Problem],
    known: Sequence[str],
    *,
    lenient: bool,
) -> Columns:
    """Decide about names without a meaning: metadata, or a mistake if they resemble a field."""
    from trivium.records.validation import unknown_key

    metadata: list[str] = []
    asks = bool(problems)
    for name in rest:
        misspelt = plain_name(name) not in RESEMBLING and suggest(name, known)
        if not lenient or misspelt or name == "json":
            problems.append(Problem("", unknown_key(name, list(known)).replace("key", "column", 1)))
        else:
            metadata.append(name)
    return Columns(fields, tuple(metadata), left_out, tuple(problems), asks)


def case_of_row(row: Mapping[Any, Any], columns: Columns, number: int) -> dict[str, Any]:
    """Make a raw case of a row with the names of another tool; its number is the id if it has none."""
    case: dict[str, Any] = {} if "id" in columns.fields else {"id": str(number)}
    for field, column in columns.fields.items():
        if not is_absent(row.get(column)):
            case[field] = texts_of(row[column]) if field == "references" else json_value(row[column])
    if isinstance(case.get("source"), list) and all(isinstance(part, str) for part in case["source"]):
        case["source"] = "\n\n".join(case["source"])
    if plain_name(columns.fields.get("input", "")) == "messages":
        case = _of_chat(case.pop("input", None)) | case
    if "input" not in case:
        case["input"] = None
    values = {str(name): json_value(row[name]) for name in columns.metadata if not is_absent(row.get(name))}
    if "expect" not in case and (tools := _expected_tools(values.get(EXPECTED_TOOLS))):
        case["expect"] = {"tools": tools}
        del values[EXPECTED_TOOLS]
    extra = {name: value for name, value in values.items() if value is not None}
    if extra:
        given = case.get("metadata")
        case["metadata"] = extra | given if isinstance(given, dict) else extra
    return case


def _expected_tools(value: Any) -> list[dict[str, Any]]:
    """The expected calls of a list in DeepEval's form; none of another value."""
    calls = list_(value)
    if not all(isinstance(call, dict) and isinstance(call.get("name"), str) for call in calls):
        return []
    return [{"name": call["name"], "arguments": dict_(call.get("inputParameters")) or None} for call in calls]


def _of_chat(messages: Any) -> dict[str, Any]:
    """Input and references of a chat: if its last message is a text of the assistant, that is a reference."""
    last = messages[-1] if isinstance(messages, list) and len(messages) > 1 else None
    if not isinstance(last, dict) or last.get("role") != "assistant" or last.get("tool_calls"):
        return {"input": messages}
    said = last.get("content")
    if not isinstance(said, str) or not said:
        return {"input": messages}
    return {"input": messages[:-1], "references": [said]}


_TEXTS = "text"
"""Key of the answer texts in data sets like SQuAD."""


def texts_of(value: Any) -> list[str]:
    """Return the references in a value: a text, several texts, SQuAD's mapping, or else its JSON."""
    if is_absent(value) or isinstance(value, str):
        return [value] if isinstance(value, str) and value else []
    if isinstance(value, Mapping) and isinstance(value.get(_TEXTS), list | tuple):
        value = value[_TEXTS]
    items = value if isinstance(value, list | tuple) else [value]
    texts = [item if isinstance(item, str) else _json(item) for item in items if not is_absent(item)]
    return list(dict.fromkeys(text for text in texts if text))


def _json(value: Any) -> str | None:
    plain = json_value(value)
    return None if plain is None else json_text(plain, canonical=True)


def json_value(value: Any) -> Any:
    """Convert a value to JSON values; None for pictures, sounds, bytes and other objects."""
    if isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        return None
    dumped = value.model_dump(mode="json") if hasattr(value, "model_dump") else value
    try:
        return msgspec.to_builtins(dumped, str_keys=True)
    except (TypeError, ValueError, RecursionError):
        return None
