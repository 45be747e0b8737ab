"""Recorded: what ``trivium.trace`` writes, a span or a message a line."""

import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from trivium.errors import Problem, TraceError
from trivium.traces.readers.documents import content_of, parse_documents
from trivium.traces.readers.torn import read_whole_lines, with_problems
from trivium.traces.repair import normalise, recorded_as_text
from trivium.traces.trace import Message, Span, Trace, TraceProblem

_START = re.compile(rb'\{"trace_id":"[0-9a-f]+","(?:span|message)":\{')


class _Line(msgspec.Struct, frozen=True):
    """A line; keys of later versions are passed over."""

    trace_id: str
    span: Span | None = None
    message: Message | None = None
    as_text: tuple[str, ...] = ()


class _Found:
    """What the lines of one trace hold; of a span the line that has its end counts.

    A span is known by its id, its name and its start: another one that has its id is none of its lines.
    """

    def __init__(self) -> None:
        self.spans: dict[tuple[str, str, float | None], _Line] = {}
        self.messages: list[_Line] = []

    def trace(self, trace_id: str) -> Trace:
        lines = [*self.spans.values(), *self.messages]
        return normalise(
            [line.span for line in lines if line.span is not None],
            [line.message for line in lines if line.message is not None],
            trace_id=trace_id,
            problems=recorded_as_text(name for line in lines for name in line.as_text),
            nested="unsaid",
        )


def opens(_path: Path, head: bytes) -> bool:
    """Whether a file starts as ``trivium.trace`` writes its lines."""
    return _START.match(head) is not None


def sniff(document: Any) -> bool:
    """Whether a JSON value is such a line."""
    return (
        isinstance(document, dict)
        and isinstance(document.get("trace_id"), str)
        and (isinstance(document.get("span"), dict) or isinstance(document.get("message"), dict))
    )


def read(documents: Sequence[Any], source: str) -> list[Trace]:
    """The traces of a file, in the order in which they begin.

    Raises:
        TraceError: If a line is none of these.
    """
    found: dict[str, _Found] = {}
    for number, document in enumerate(documents, start=1):
        try:
            line = msgspec.convert(document, _Line)
        except msgspec.ValidationError as error:
            raise TraceError(source, Problem(f"line {number}", str(error).replace("`", '"'))) from None
        trace = found.setdefault(line.trace_id, _Found())
        if line.span is not None:
            key = (line.span.id, line.span.name, line.span.start)
            before = trace.spans.get(key)
            if before is None or before.span is None or before.span.end is None:
                # A span that was written open and then ended keeps its first place.
                trace.spans[key] = line
        if line.message is not None:
            trace.messages.append(line)
    return [each.trace(trace_id) for trace_id, each in found.items()]


def read_file(path: Path) -> list[Trace]:
    """The traces of a file; a last line that was cut off is left out."""
    return read_files([path])


def read_files(paths: Sequence[Path]) -> list[Trace]:
    """The traces of several files: a trace goes on in the next when its file was large enough."""
    lines: list[Any] = []
    problems: list[TraceProblem] = []
    for path in paths:
        content, source = content_of(path), str(path)
        parse = partial(parse_documents, source=source)
        lines += read_whole_lines(content, parse, problems, source=source)
    return with_problems(read(lines, str(paths[0])), problems)
