"""Reads traces in Trivium's own JSON form, and lists every mistake in a malformed one."""

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from trivium.errors import Problem, Problems, TraceError, suggest
from trivium.traces.normalize import normalise
from trivium.traces.readers.json_input import strict_value
from trivium.traces.trace import Message, Span, Trace, TraceProblem
from trivium.values import JsonObject, is_number

_RECORDS: dict[str, type[msgspec.Struct]] = {"spans": Span, "messages": Message, "problems": TraceProblem}
_IDS = ("id", "parent")

_DECODER = msgspec.json.Decoder(Trace)


def native_trace(value: Any, *, source: str = "", where: str = "") -> Trace:
    """Read a trace in native form and normalise it.

    Args:
        value: The trace as JSON text (bytes) or as a decoded object.
        source: Name of its file, for error messages.
        where: Its place in that file, such as ``line 12``.

    Raises:
        TraceError: If it is not a valid trace; lists every mistake with its path.
    """
    if isinstance(value, Trace):
        return _normalised(value)
    try:
        if isinstance(value, bytes | bytearray | memoryview):
            return _normalised(_DECODER.decode(value))
        return _normalised(msgspec.convert(value, Trace))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass  # read again below, to list every mistake
    return _normalised(_read_all_mistakes(_plain(value, source, where), source, where))


def _normalised(trace: Trace) -> Trace:
    return normalise(
        trace.spans,
        trace.messages,
        trace_id=trace.trace_id,
        problems=trace.problems,
        metadata=trace.metadata,
    )


def _plain(value: Any, source: str, where: str) -> Any:
    if not isinstance(value, bytes | bytearray | memoryview):
        return value
    try:
        return strict_value(bytes(value), where, source)
    except msgspec.DecodeError as error:
        raise TraceError(source, Problem(where, f"not valid JSON: {error}")) from error


def _read_all_mistakes(value: Any, source: str, where: str) -> Trace:
    """Read a trace field by field: ids that are numbers become text, and every mistake is found."""
    mistakes = Problems(source, TraceError)
    if not isinstance(value, dict):
        raise TraceError(source, Problem(where, f"expected an object with spans, found {_kind(value)}"))
    fields: JsonObject = {}
    for key, part in value.items():
        path = f"{where}: {key}" if where else str(key)
        if key in _RECORDS:
            fields[key] = _records(part, _RECORDS[key], path, mistakes)
        elif key == "trace_id":
            fields[key] = _text(part) or ""
        elif key == "metadata" and isinstance(part, dict):
            fields[key] = part
        elif key == "metadata":
            mistakes.add(Problem(path, f"expected an object, found {_kind(part)}"))
        else:
            known = Trace.__struct_fields__
            mistakes.add(Problem(path, f"no such key in a trace.{suggest(str(key), known)}"))
    mistakes.check()
    return Trace(**fields)


def _records(
    part: Any, record: type[msgspec.Struct], path: str, mistakes: Problems
) -> tuple[msgspec.Struct, ...]:
    if not isinstance(part, list | tuple):
        mistakes.add(Problem(path, f"expected a list, found {_kind(part)}"))
        return ()
    made = []
    for index, item in enumerate(part):
        if record is Span and isinstance(item, dict):
            item = item | {key: _text(item[key]) for key in _IDS if key in item}  # noqa: PLW2901
        try:
            made.append(msgspec.convert(item, record))
        except msgspec.ValidationError as error:
            if mistakes.full:
                mistakes.add(further=1)
            else:
                mistakes.add(_mistake(str(error), item, record, f"{path}[{index}]"))
    return tuple(made)


def _mistake(message: str, item: Any, record: type[msgspec.Struct], path: str) -> Problem:
    what, _, inside = message.partition(" - at `$")
    if inside:
        path += inside.rstrip("`")
    unknown = re.search("unknown field `(.*)`", what)
    if unknown:
        what = f'no such key as "{unknown[1]}".{suggest(unknown[1], record.__struct_fields__)}'
    elif "Invalid enum value" in what:
        kind = str(item.get("kind"))
        kinds = ("agent", "tool", "llm", "other")
        what = f'no kind of span is called "{kind}".{suggest(kind, kinds)} Known: {", ".join(kinds)}'
    return Problem(path, what.replace("`", '"'))


def _text(value: Any) -> Any:
    """An id as text: numbers keep their decimal form."""
    return str(value) if is_number(value) else value


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "a text", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")


def sniff(document: Any) -> bool:
    """Whether a JSON value is a native trace or a list of them, by its keys."""
    if isinstance(document, list):
        return bool(document) and sniff(document[0])
    return isinstance(document, dict) and isinstance(document.get("spans"), list)


def read_traces(documents: Sequence[Any], source: str) -> list[Trace]:
    """The traces of a file, in order."""
    many = len(documents) > 1
    traces = []
    for number, document in enumerate(documents, start=1):
        line = f"line {number}" if many else ""
        if isinstance(document, list):
            traces += [
                native_trace(item, source=source, where=f"{line}[{index}]")
                for index, item in enumerate(document)
            ]
        else:
            traces.append(native_trace(document, source=source, where=line))
    return traces
