"""Logs of Inspect AI (``.eval`` and ``.json``): one trace a sample."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from trivium.errors import Problem, TraceError
from trivium.inspect_logs.log import Log
from trivium.traces.readers.inspect_logs.sample import trace_of_sample
from trivium.traces.trace import Trace


def opens(path: Path, head: bytes) -> bool:
    """Whether a file is an archive that such a log begins."""
    first = head[30:300]
    return head.startswith(b"PK\x03\x04") and (
        path.suffix == ".eval" or first.startswith((b"_journal/", b"samples/", b"header.json"))
    )


def read_file(path: Path) -> list[Trace]:
    """The traces of a log's samples, in the order of the file.

    Raises:
        TraceError: If it is no log, or a sample cannot be read.
    """
    return [trace_of_sample(sample.raw) for sample in Log(path).samples()]


def sniff(document: Any) -> bool:
    """Whether a JSON value is such a log."""
    return (
        isinstance(document, dict)
        and isinstance(document.get("eval"), dict)
        and "status" in document
        and isinstance(document.get("samples", []), list | None)
    )


def read(documents: Sequence[Any], source: str) -> list[Trace]:
    """The traces of the samples of a file's documents.

    Raises:
        TraceError: If a document is no log.
    """
    traces = []
    for index, document in enumerate(documents):
        where = f"[{index}]" if len(documents) > 1 else ""
        if not sniff(document):
            raise TraceError(source, Problem(where, 'expected a log, an object with "eval" and "samples"'))
        traces += [trace_of_sample(raw) for raw in document.get("samples") or () if isinstance(raw, dict)]
    return traces
