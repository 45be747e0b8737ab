"""Reads files that ``trivium.trace`` writes, with one span or message on each line."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from trivium.errors import Problem, TraceError
from trivium.traces.normalize import recorded_as_text
from trivium.traces.opentelemetry.assemble import merged_trace, trace_ids, traces_of
from trivium.traces.opentelemetry.semconv import RecordedSpan
from trivium.traces.readers import RECORDED_OTEL
from trivium.traces.readers.json_input import content_of, parse_documents, read_complete_lines, with_problems
from trivium.traces.readers.otlp.json import spans_of_json
from trivium.traces.trace import Message, RecordedLine, Span, Trace, TraceProblem, interactions
from trivium.values import resolved

_START = re.compile(rb'\{"trace_id":"[0-9a-f]+","(?:span|message)":\{')


resolved(RecordedLine)


class TraceContents:
    """The lines of one trace.

    Lines with equal id, name and start are one span; the line with an end counts.

    Attributes:
        otel_spans: Spans of OpenTelemetry.
        problems: A problem for each truncated line.
    """

    def __init__(self) -> None:
        self._lines: dict[tuple[str, str, float | None], RecordedLine] = {}
        self._messages: list[RecordedLine] = []
        self.otel_spans: list[RecordedSpan] = []
        self.problems: list[TraceProblem] = []

    def add(self, line: RecordedLine) -> None:
        """Add a line."""
        if line.span is not None:
            key = (line.span.id, line.span.name, line.span.start)
            before = self._lines.get(key)
            if before is None or before.span is None or before.span.end is None:
                # A span that was written open and then ended keeps its first place.
                self._lines[key] = line
        if line.message is not None:
            self._messages.append(line)

    @property
    def lines(self) -> list[RecordedLine]:
        """All lines that count."""
        return [*self._lines.values(), *self._messages]

    @property
    def spans(self) -> list[Span]:
        """Spans of ``trivium.trace``, in the order in which they were first written."""
        return [line.span for line in self._lines.values() if line.span is not None]

    @property
    def messages(self) -> list[Message]:
        """The messages."""
        return [line.message for line in self._messages if line.message is not None]

    @property
    def as_text(self) -> list[str]:
        """Types of the values that were recorded as text."""
        return [name for line in self.lines for name in line.as_text]

    def trace(self, trace_id: str) -> Trace:
        """Build the trace; one with OpenTelemetry spans only is read like an OTLP file."""
        if not self.lines:
            (trace,) = traces_of(self.otel_spans)
            return trace
        return merged_trace(
            self.spans,
            self.messages,
            self.otel_spans,
            trace_id=trace_id,
            problems=recorded_as_text(self.as_text),
        )


def opens(_path: Path, head: bytes) -> bool:
    """Whether a file starts as ``trivium.trace`` writes its lines."""
    return _START.match(head) is not None


def sniff(document: Any) -> bool:
    """Whether a JSON value is a recorded line."""
    return (
        isinstance(document, dict)
        and isinstance(document.get("trace_id"), str)
        and (isinstance(document.get("span"), dict) or isinstance(document.get("message"), dict))
    )


def read_traces(documents: Sequence[Any], source: str) -> list[Trace]:
    """The traces of a file, in the order in which they begin.

    Raises:
        TraceError: If a line is not a recorded one.
    """
    return [each.trace(trace_id) for trace_id, each in _by_trace(_lines(documents, source)).items()]


def _lines(documents: Sequence[Any], source: str) -> Iterator[RecordedLine]:
    for number, document in enumerate(documents, start=1):
        try:
            yield msgspec.convert(document, RecordedLine)
        except msgspec.ValidationError as error:
            raise TraceError(source, Problem(f"line {number}", str(error).replace("`", '"'))) from None


def _by_trace(lines: Iterable[RecordedLine]) -> dict[str, TraceContents]:
    by_trace: dict[str, TraceContents] = defaultdict(TraceContents)
    for line in lines:
        by_trace[line.trace_id].add(line)
    return by_trace


def read_file(path: Path) -> list[Trace]:
    """The traces of a file; a truncated last line is left out."""
    return read_files([path])


def read_files(paths: Sequence[Path]) -> list[Trace]:
    """The traces of files that ``trivium.trace`` wrote, in the order of their first lines.

    A trace may continue in the next file.

    Args:
        paths: Files of spans of ``trivium.trace``, and of spans of OpenTelemetry, which their names tell.
    """
    lines, spans, problems = _contents(paths)
    by_trace = _by_trace(lines)
    for trace_id, span in zip(trace_ids(spans), spans, strict=True):
        by_trace[trace_id].otel_spans.append(span)
    traces = interactions(each.trace(trace_id) for trace_id, each in by_trace.items())
    return with_problems(traces, problems)


def contents_of_folder(folder: Path) -> TraceContents:
    """Read a folder that holds one trace."""
    together = TraceContents()
    lines, together.otel_spans, together.problems = _contents(sorted(folder.glob("*.jsonl")))
    for line in lines:
        together.add(line)
    return together


def _contents(
    paths: Sequence[Path],
) -> tuple[list[RecordedLine], list[RecordedSpan], list[TraceProblem]]:
    """All lines and all spans of files, and a problem for each truncated line."""
    lines: list[RecordedLine] = []
    spans: list[RecordedSpan] = []
    problems: list[TraceProblem] = []
    for path in paths:
        source, content = str(path), content_of(path)
        if path.name.endswith(RECORDED_OTEL):
            parse_spans = partial(spans_of_json, source=source)
            spans += read_complete_lines(content, parse_spans, problems, source=source)
        else:
            parse = partial(parse_documents, source=source)
            lines += _lines(read_complete_lines(content, parse, problems, source=source), source)
    return lines, spans, problems
