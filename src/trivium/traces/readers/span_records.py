"""Collects the records of a file by trace: it may list them in any order, and one span more than once."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec

from trivium.errors import TraceError
from trivium.traces.readers.json_input import snake, text
from trivium.traces.trace import Message, Span, Trace, TraceProblem, parents_first
from trivium.values import JsonObject

Record = JsonObject


def unwrapped(documents: Iterable[Any], *keys: str) -> Iterator[Any]:
    """The records of a file: in its lists, and in the lists under the given keys of its objects."""
    stack = [iter(documents)]
    while stack:
        for value in stack[-1]:
            inner = value if isinstance(value, list) else _inner_records(value, keys)
            if inner is not None:
                stack.append(iter(inner))
                break
            yield value
        else:
            stack.pop()


def _inner_records(value: Any, keys: tuple[str, ...]) -> list[Any] | None:
    if not isinstance(value, dict):
        return None
    lists = [value[key] for key in keys if isinstance(value.get(key), list)]
    return [item for records in lists for item in records] if lists else None


def first_record(document: Any, *keys: str) -> Record | None:
    """The first object among the records of a document, for format detection; keys in snake case."""
    for value, _ in zip(unwrapped([document], *keys), range(10), strict=False):
        if isinstance(value, dict):
            return snake(value)
    return None


class RecordsByTrace:
    """Collects the records of a file by trace; those of other tools are counted and left out.

    Args:
        expected: What a record of this format is, such as "run of LangSmith".
        marked: What it is known by.
    """

    def __init__(self, expected: str, *, marked: str = "") -> None:
        self._expected, self._marked = expected, marked
        self._traces: dict[str, Record] = {}
        self._spans: dict[str, list[Record]] = {}
        self._skipped: list[int] = []

    def add_trace(self, name: str | None, record: Record) -> None:
        """Add a record of a trace; a further one of the same trace adds to it."""
        _join(self._traces.setdefault(name or "", {}), record, over=True)
        self._spans.setdefault(name or "", [])

    def add_span(self, record: Record, trace: str | None) -> None:
        """Add a record of a span."""
        self._spans.setdefault(trace or "", []).append(record)

    def skip(self, position: int) -> None:
        """Count a record of another tool, by its position in the file, from 1."""
        self._skipped.append(position)

    def traces(self, build: Callable[[str, Record, list[Record]], Trace], source: str) -> list[Trace]:
        """Build each trace from its id, its own record and those of its spans, in the order of their ids.

        Raises:
            TraceError: If there is none.
        """
        if not self._spans:
            marked = f" ({self._marked})" if self._marked else ""
            raise TraceError(source, f"holds no {self._expected.replace(' or ', ' and no ')}{marked}")
        traces = [build(name, self._traces.get(name, {}), spans) for name, spans in self._spans.items()]
        if not self._skipped:
            return traces
        number = len(self._skipped)
        records = "one record is" if number == 1 else f"{number:,} records are"
        what = f"{records} left out: not a {self._expected} (first: number {self._skipped[0]:,})"
        problem = TraceProblem(kind="foreign_record", what=what)
        problems = tuple(dict.fromkeys((problem, *traces[0].problems)))
        return [msgspec.structs.replace(traces[0], problems=problems), *traces[1:]]


def merge_span_records(records: Sequence[Record], *, end_key: str) -> tuple[list[Record], list[TraceProblem]]:
    """Merge records that describe the same span: an update of an open span, or an exact repeat.

    Two records that both ended and differ stay separate: the id is not unique, and normalisation changes one.

    Args:
        records: The records of one trace, keys in snake case.
        end_key: The key of the end, absent or null before it is known.

    Returns:
        The records in order of first appearance, and a problem for each exact repeat.
    """
    result: list[Record] = []
    positions: dict[str, int] = {}
    merged: set[int] = set()  # indices of records that have been copied, so that they may change
    problems = []
    for record in records:
        name = text(record, "id")
        position = positions.get(name) if name is not None else None
        if position is None:
            if name is not None:
                positions[name] = len(result)
            result.append(record)
            continue
        first = result[position]
        if record == first:
            what = f'the span "{name}" is listed twice with the same content; it counts once'
            problems.append(TraceProblem(kind="duplicate_id", span=name, what=what))
        elif first.get(end_key) and record.get(end_key):
            result.append(record)
        else:
            if position not in merged:
                first = result[position] = dict(first)
                merged.add(position)
            _join(first, record, over=not first.get(end_key))
    return result, problems


def _join(first: Record, record: Record, *, over: bool) -> None:
    """Add the values of a record to the first one; ``over`` lets them replace existing values."""
    for key, value in record.items():
        if value is not None and (over or first.get(key) is None):
            first[key] = value


def stated_handoff(fields: Record, time: float | None, *, sender: str | None = None) -> list[Message]:
    """The hand-off that fields of the OpenAI Agents SDK state; none unless both agents are known."""
    sender, receiver = text(fields, "from_agent") or sender, text(fields, "to_agent")
    if not sender or not receiver:
        return []
    return [Message(sender=sender, receiver=receiver, type="handoff", time=time)]


def count_usage_once(trace: Trace) -> Trace:
    """Count tokens once: drop the usage of a model request that encloses another one with usage."""
    above: dict[str | None, str | None] = {None: None}  # the nearest llm span with usage, at or above
    repeated = set()
    for index in parents_first(trace.spans):
        span = trace.spans[index]
        outer = above[span.parent]
        if span.kind == "llm" and span.usage is not None:
            if outer is not None:
                repeated.add(outer)
            outer = span.id
        above[span.id] = outer
    if not repeated:
        return trace
    spans = (_without_usage(span) if span.id in repeated else span for span in trace.spans)
    return msgspec.structs.replace(trace, spans=tuple(spans))


def _without_usage(span: Span) -> Span:
    attributes = span.attributes | {"usage": msgspec.to_builtins(span.usage)}
    return msgspec.structs.replace(span, usage=None, attributes=attributes)
