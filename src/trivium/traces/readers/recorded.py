"""Reads files that ``trivium.trace`` writes, with one span or message on each line."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from trivium.errors import Problem, TraceError
from trivium.traces.opentelemetry.assemble import merged_trace, trace_ids, traces_of
from trivium.traces.opentelemetry.semconv import RecordedSpan
from trivium.traces.readers import RECORDED_OTEL
from trivium.traces.readers.json_input import content_of, parse_documents, read_complete_lines, with_problems
from trivium.traces.readers.otlp.json import spans_of_json
from trivium.traces.trace import RecordedLine, Trace, TraceProblem, interactions
from trivium.values import resolved

_START = re.compile(rb'\{"trace_id":"[0-9a-f]+","(?:span|message)":\{')


resolved(RecordedLine)

Contents = tuple[list[RecordedLine], list[RecordedSpan], list[TraceProblem]]
"""Lines of ``trivium.trace``, spans of OpenTelemetry, and a problem for each truncated line."""


def _once(lines: Iterable[RecordedLine]) -> list[RecordedLine]:
    """Spans, then messages; of lines with equal id, name and start the one with an end counts.

    A span that was written open and then ended keeps its first place.
    """
    spans: dict[tuple[str, str, float | None], RecordedLine] = {}
    messages = []
    for line in lines:
        if line.span is not None:
            key = (line.span.id, line.span.name, line.span.start)
            before = spans.get(key)
            if before is None or before.span is None or before.span.end is None:
                spans[key] = line
        if line.message is not None:
            messages.append(msgspec.structs.replace(line, span=None) if line.span is not None else line)
    return [*spans.values(), *messages]


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
    return _traces(_lines(documents, source), [])


def _lines(documents: Sequence[Any], source: str) -> Iterator[RecordedLine]:
    for number, document in enumerate(documents, start=1):
        try:
            yield msgspec.convert(document, RecordedLine)
        except msgspec.ValidationError as error:
            raise TraceError(source, Problem(f"line {number}", str(error).replace("`", '"'))) from None


def _traces(lines: Iterable[RecordedLine], otel_spans: Sequence[RecordedSpan]) -> list[Trace]:
    """The traces, in the order in which they begin; one without lines is read like an OTLP file."""
    by_trace: dict[str, tuple[list[RecordedLine], list[RecordedSpan]]] = defaultdict(lambda: ([], []))
    for line in lines:
        by_trace[line.trace_id][0].append(line)
    for trace_id, span in zip(trace_ids(otel_spans), otel_spans, strict=True):
        by_trace[trace_id][1].append(span)
    return [
        merged_trace(_once(own), spans, trace_id=trace_id) if own else traces_of(spans)[0]
        for trace_id, (own, spans) in by_trace.items()
    ]


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
    return with_problems(interactions(_traces(lines, spans)), problems)


def contents_of_folder(folder: Path) -> Contents:
    """Read a folder that holds one trace."""
    lines, spans, problems = _contents(sorted(folder.glob("*.jsonl")))
    return _once(lines), spans, problems


def _contents(paths: Sequence[Path]) -> Contents:
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
