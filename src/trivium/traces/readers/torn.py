"""Torn files: the last line of a recording that is being written, or was cut off, is not whole."""

from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec

from trivium.errors import TraceError
from trivium.traces.readers.documents import is_value
from trivium.traces.trace import Trace, TraceProblem

T = TypeVar("T")


def read_whole_lines(
    content: bytes, read: Callable[[bytes], T], problems: list[TraceProblem], *, source: str
) -> T:
    """What is read from a file, up to a last line that was cut off.

    Whoever writes a line writes its end with it: only a last line without one is left out, if it is no JSON.

    Args:
        content: The file's.
        read: Reads all of it, or of its whole lines.
        problems: Gets what was left out.
        source: The file, as problems name it.

    Raises:
        TraceError: If it cannot be read for another reason.
    """
    try:
        return read(content)
    except TraceError:
        whole, end, last = content.rpartition(b"\n")
        if not whole.strip() or not end or is_value(last):
            raise
        try:
            found = read(whole)
        except TraceError:
            found = None
        if found is None:
            raise
    number = whole.count(b"\n") + 2
    problems.append(
        TraceProblem(kind="truncated", what=f"line {number} of {source} was cut short and is left out")
    )
    return found


def with_problems(traces: Sequence[Trace], problems: Sequence[TraceProblem]) -> list[Trace]:
    """The traces of files, the last with what is wrong with the files."""
    if not problems:
        return list(traces)
    *before, last = traces
    return [*before, msgspec.structs.replace(last, problems=(*last.problems, *problems))]
