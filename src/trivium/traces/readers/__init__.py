"""Registers the readers of trace files, and detects the format of a file.

A reader is a module with ``sniff(document) -> bool``, which recognises a JSON value of its format, and
``read_traces(documents, source)``, which reads the documents of a file (one, or one per line). A format that
is not JSON, or that can be read faster without decoding all JSON values, has, instead or in addition,
``opens(path, head) -> bool``, which recognises a file by its first ``HEAD_BYTES`` (un-gzipped), and either
``read_content(content, source) -> list[Trace]`` (un-gzipped) or ``read_file(path) -> list[Trace]``. These are
tried first.
"""

from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec

from trivium.errors import Problem, TraceError, suggest
from trivium.traces.readers.json_input import HEAD_BYTES, content_of, head_of, parse_documents
from trivium.traces.trace import RECORDERS, Trace

__all__ = [
    "FORMATS",
    "RECORDED",
    "RECORDED_OTEL",
    "UnknownFormat",
    "format_by_head",
    "format_of_head",
    "read_documents",
    "read_one_file",
    "read_together",
    "read_trace",
    "sniff_format",
]

FORMATS = {
    "atif": "trivium.traces.readers.atif",
    "openai-agents": "trivium.traces.readers.openai_agents",
    "langsmith": "trivium.traces.readers.langsmith",
    "opik": "trivium.traces.readers.opik",
    "agentneo": "trivium.traces.readers.agentneo",
    "native": "trivium.traces.native",
    "recorded": "trivium.traces.readers.recorded",
    "tau-bench": "trivium.formats.tau_bench",
    "agents-eval": "trivium.formats.agents_eval",
    "otlp": "trivium.traces.readers.otlp",
    "pydantic-ai": "trivium.traces.readers.pydantic_ai",
    "claude-code": "trivium.traces.readers.claude_code",
    "who-and-when": "trivium.traces.readers.who_and_when",
    "inspect": "trivium.formats.inspect_log.traces",
    "messages": "trivium.traces.readers.chat",
}
"""Formats by name, in the order in which they are tried on a file of unknown format.

``native`` comes after the other formats that have a key ``spans``.
"""

RECORDED, RECORDED_OTEL = ".spans.jsonl", ".otlp.jsonl"
"""How the names of files end that ``trivium.trace`` writes: of its own spans, and of OpenTelemetry's."""

_FORMATS_OF_MANY_TOOLS = frozenset({"native", "otlp", "recorded", "atif"})
"""Formats that many tools write: here a trace itself names its recorders."""


class UnknownFormat(TraceError):
    """A file can be read, but holds no trace of a known format."""


def read_one_file(
    path: Path, name: str | None = None, *, head: bytes | None = None
) -> tuple[str, list[Trace]]:
    """The format of a file and every trace of it, normalised.

    Args:
        path: The file.
        name: One of ``FORMATS``; detected if None.
        head: The first ``HEAD_BYTES`` of the file (``head_of``), if they are known: a small file is not read
            again.

    Raises:
        TraceError: If it cannot be read, is too large or has no known format.
    """
    try:
        return _read_file(path, name, head)
    except MemoryError as error:
        raise TraceError(str(path), "holds more than this machine has memory for") from error


def _read_file(path: Path, name: str | None, head: bytes | None) -> tuple[str, list[Trace]]:
    source = str(path)
    if not name:
        head = head_of(path) if head is None else head
        name = format_of_head(path, head)
    if name and hasattr(_reader(name, source), "read_file"):
        return name, _with_recorder(name, _reader(name, source).read_file(path))
    content = content_of(path) if head is None or len(head) == HEAD_BYTES else head
    if name and hasattr(_reader(name, source), "read_content"):
        return name, _with_recorder(name, _reader(name, source).read_content(content, source))
    return read_documents(parse_documents(content, source=source), source=source, format=name)


def _with_recorder(name: str, traces: list[Trace]) -> list[Trace]:
    """Add the format as the recorder of each trace that has messages, unless many tools write the format."""
    if name in _FORMATS_OF_MANY_TOOLS:
        return traces
    return [
        msgspec.structs.replace(trace, metadata={**trace.metadata, RECORDERS: [name]})
        if trace.messages
        else trace
        for trace in traces
    ]


def read_together(paths: Sequence[Path], name: str) -> list[Trace]:
    """The traces of several files of one format.

    The reader of a format that may split a trace over files has ``read_files(paths)`` and gets all files at
    once.
    """
    reader = _reader(name, str(paths[0]))
    if hasattr(reader, "read_files"):
        return _with_recorder(name, reader.read_files(paths))
    return [trace for path in paths for trace in read_one_file(path, name)[1]]


def format_by_head(path: Path) -> str | None:
    """The format that recognises the first bytes of a file; None if no format does."""
    return format_of_head(path, head_of(path))


def format_of_head(path: Path, head: bytes) -> str | None:
    """As :func:`format_by_head`, for a file whose first ``HEAD_BYTES`` are known."""
    for name, opens in _opens():
        if opens(path, head):
            return name
    return None


@cache
def _opens() -> tuple[tuple[str, Callable[[Path, bytes], bool]], ...]:
    """The formats that recognise the first bytes of a file, each with the function that does."""
    readers = {name: _reader(name, "") for name in FORMATS}
    return tuple((name, reader.opens) for name, reader in readers.items() if hasattr(reader, "opens"))


def read_trace(value: Any, format: str | None = None, *, source: str = "") -> Trace:  # noqa: A002
    """The one trace that a JSON value holds, normalised.

    Raises:
        TraceError: If it has no known format, or does not hold exactly one trace.
    """
    _, traces = read_documents([value], source=source, format=format)
    if len(traces) != 1:
        raise TraceError(source, f"expected one trace, found {len(traces):,}")
    return traces[0]


def read_documents(
    documents: Sequence[Any],
    *,
    source: str,
    format: str | None = None,  # noqa: A002
) -> tuple[str, list[Trace]]:
    """The name of the format and every trace of a file's documents."""
    if format is None:
        format = sniff_format(documents, source=source)  # noqa: A001
    return format, _with_recorder(format, _reader(format, source).read_traces(documents, source))


def sniff_format(documents: Sequence[Any], *, source: str) -> str:
    """The format of the first document of a file.

    Raises:
        TraceError: If no reader knows it.
    """
    if not documents:
        raise TraceError(source, "the file is empty")
    for name in FORMATS:
        reader = _reader(name, source)
        if hasattr(reader, "sniff") and reader.sniff(documents[0]):
            return name
    first = documents[0][0] if isinstance(documents[0], list) and documents[0] else documents[0]
    keys = f"with the keys {', '.join(list(first)[:8])}" if isinstance(first, dict) else ""
    what = f"of no known format {keys}; known: {', '.join(FORMATS)}".replace("  ", " ").replace(" ;", ";")
    raise UnknownFormat(source, what)


def _reader(name: str, source: str) -> ModuleType:
    if name not in FORMATS:
        what = f'no trace format is called "{name}".{suggest(name, FORMATS)} Known: {", ".join(FORMATS)}'
        raise TraceError(source, Problem("format", what))
    return _module(FORMATS[name])


_module = cache(import_module)
"""As ``import_module``, which takes longer: each file is shown to every reader."""
