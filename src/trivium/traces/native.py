"""Reads traces in Trivium's own JSON form, and lists every mistake in a malformed one."""

from collections.abc import Sequence
from typing import Any, cast

import msgspec

from trivium.errors import Problem, TraceError, raise_problems
from trivium.records.validation import convert
from trivium.traces.normalize import normalise
from trivium.traces.readers.json_input import strict_value
from trivium.traces.trace import Trace

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
    raw = _plain(value, source, where)
    if isinstance(raw, dict) and raw.get("trace_id") is None:
        raw = raw | {"trace_id": ""}  # null says the same as no key
    trace, problems = convert(raw, Trace, f"{where}:" if where else "")
    raise_problems(problems, source, TraceError)
    return _normalised(cast("Trace", trace))


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
