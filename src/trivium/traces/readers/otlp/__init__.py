"""Reads OTLP files as OpenTelemetry's exporters write them: JSON or protobuf, one request or many.

``trivium.traces.opentelemetry`` interprets the spans.
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from trivium.traces.opentelemetry.assemble import traces_of
from trivium.traces.opentelemetry.semconv import RecordedSpan
from trivium.traces.readers.json_input import content_of, first_item, read_complete_lines, with_problems
from trivium.traces.readers.otlp.json import is_request, parse_lenient, spans_of_json
from trivium.traces.readers.otlp.protobuf import is_protobuf, spans_of_protobuf
from trivium.traces.trace import Trace, TraceProblem, interactions

__all__ = ["opens", "read_content", "read_files", "read_traces", "sniff"]

_KEYS = (b'"resourceSpans"', b'"resource_spans"')


def opens(_path: Path, head: bytes) -> bool:
    """Whether a file starts as OTLP in JSON or in protobuf."""
    start = head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1]
    if start in {b"{", b"["}:
        return any(key in head for key in _KEYS)
    return is_protobuf(head)


def read_content(content: bytes, source: str) -> list[Trace]:
    """The traces of a file's content, in the order in which they first appear."""
    problems: list[TraceProblem] = []
    return with_problems(interactions(traces_of(_spans(content, source, problems))), problems)


def read_files(paths: Sequence[Path]) -> list[Trace]:
    """The traces of several files; a trace may be spread over them.

    In a file with one request per line, a truncated last line is left out.
    """
    problems: list[TraceProblem] = []
    spans = [span for path in paths for span in _spans(content_of(path), str(path), problems)]
    return with_problems(interactions(traces_of(spans)), problems)


def _spans(content: bytes, source: str, problems: list[TraceProblem]) -> list[RecordedSpan]:
    if is_protobuf(content):
        return spans_of_protobuf(content, problems, source=source)
    return read_complete_lines(content, partial(spans_of_json, source=source), problems, source=source)


def sniff(document: Any) -> bool:
    """Whether a JSON value is an export request, or a list of them."""
    return is_request(first_item(document))


def read_traces(documents: Sequence[Any], source: str) -> list[Trace]:
    """The traces of a file's export requests."""
    return interactions(traces_of(parse_lenient(documents, source=source)))
