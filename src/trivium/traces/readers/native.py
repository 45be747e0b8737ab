"""Native traces: one JSON object, a list of them, or one a line (spec: files, trace native)."""

from collections.abc import Sequence
from typing import Any

from trivium.traces.native import native_trace
from trivium.traces.trace import Trace


def sniff(document: Any) -> bool:
    """Whether a JSON value looks like a native trace or a list of them."""
    if isinstance(document, list):
        return bool(document) and sniff(document[0])
    return isinstance(document, dict) and isinstance(document.get("spans"), list)


def read(documents: Sequence[Any], source: str) -> list[Trace]:
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
