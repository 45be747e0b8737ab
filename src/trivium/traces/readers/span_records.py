"""Reads the formats that record each span as a JSON object: a file may list them in any order, and twice.

Their readers say what a record is (:class:`RecordFormat`) and what it says of its span (:class:`SpanRecord`);
the traces are put together here.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from trivium.errors import TraceError
from trivium.traces.langgraph import GraphRun, with_graph_agents
from trivium.traces.normalize import normalise
from trivium.traces.readers.json_input import moment, snake, text
from trivium.traces.trace import Message, Span, Trace, TraceProblem, parents_first
from trivium.values import JsonObject

Record = JsonObject


class SpanRecord(NamedTuple):
    """What a record says of its span.

    Attributes:
        span: The span, without id, parent and times, which are read in one way.
        error: Why it failed.
        states: Fields that state a hand-off: ``from_agent`` and ``to_agent``.
        graph: LangGraph's metadata of the run.
    """

    span: Span
    error: Any = None
    states: Record | None = None
    graph: GraphRun = GraphRun()


class RecordFormat(msgspec.Struct, frozen=True, kw_only=True):
    """How a format records spans and traces.

    Attributes:
        what: What a record is, such as "run of LangSmith".
        marked: What it is known by, for error messages.
        holders: Keys under which an object holds records.
        parent: Key of the parent's id.
        start: Key of the start.
        end: Key of the end, absent or null before it is known.
        is_span: Whether a record is a span's.
        is_trace: Whether a record is that of a trace.
        listed: The records of a file's documents, each with its position in the file, from 1.
        read: What the record of a span says, given that of its parent (empty if that is missing).
        metadata: Metadata of a trace, from its own record and those of its spans.
    """

    what: str
    marked: str = ""
    holders: tuple[str, ...]
    parent: str
    start: str
    end: str
    is_span: Callable[[Record], bool]
    is_trace: Callable[[Record], bool] = lambda _: False
    listed: Callable[[Sequence[Any]], Iterable[tuple[int, Any]]]
    read: Callable[[Record, Record], SpanRecord]
    metadata: Callable[[Record, list[Record]], JsonObject]

    def sniff(self, document: Any) -> bool:
        """Whether a JSON value is a record, or holds records, by the first of them."""
        first = (value for value, _ in zip(unwrapped([document], *self.holders), range(10), strict=False))
        record = next((snake(value) for value in first if isinstance(value, dict)), None)
        return record is not None and (self.is_span(record) or self.is_trace(record))

    def read_traces(self, documents: Sequence[Any], source: str) -> list[Trace]:
        """The traces of a file, in the order in which they are first named.

        Raises:
            TraceError: If it holds no record.
        """
        traces: dict[str, Record] = {}
        spans: dict[str, list[Record]] = {}
        foreign: list[int] = []
        for position, item in self.listed(documents):
            record = snake(item) if isinstance(item, dict) else {}
            if self.is_span(record):
                spans.setdefault(text(record, "trace_id") or "", []).append(record)
            elif self.is_trace(record):
                name = text(record, "id", "trace_id") or ""
                _join(traces.setdefault(name, {}), record, over=True)
                spans.setdefault(name, [])
            else:
                foreign.append(position)
        read = [self._trace(name, traces.get(name, {}), records) for name, records in spans.items()]
        return without_foreign(read, foreign, self.what, source=source, marked=self.marked)

    def _trace(self, name: str, item: Record, records: list[Record]) -> Trace:
        records, repeats = _merged(records, self.end)
        by_id = {id_: record for record in records if (id_ := text(record, "id", "span_id")) is not None}
        spans: list[Span] = []
        messages: list[Message] = []
        graphs: list[GraphRun] = []
        for record in records:
            parent = text(record, self.parent)
            said = self.read(record, {} if parent is None else by_id.get(parent, {}))
            end = moment(record.get(self.end))
            span = msgspec.structs.replace(
                said.span,
                id=text(record, "id", "span_id") or f"span-{len(spans)}",
                parent=parent,
                start=moment(record.get(self.start)),
                end=end,
                ok=False if said.error else None if said.span.ok and end is None else said.span.ok,
                attributes=said.span.attributes | ({"error": said.error} if said.error else {}),
            )
            spans.append(span)
            if said.states is not None:
                messages += _handoff(said.states, span)
            graphs.append(said.graph)
        trace = normalise(
            spans,
            messages,
            trace_id=name,
            problems=repeats,
            metadata=self.metadata(item, records),
            nested=True,
        )
        return _usage_once(with_graph_agents(trace, graphs, messages, title=text(item, "name")))


def _handoff(fields: Record, span: Span) -> list[Message]:
    """The hand-off that fields state; none unless both agents are known."""
    sender, receiver = text(fields, "from_agent") or span.agent, text(fields, "to_agent")
    if not sender or not receiver:
        return []
    return [Message(sender=sender, receiver=receiver, type="handoff", time=span.start)]


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


def without_foreign(
    traces: list[Trace], foreign: Sequence[int], what: str, *, source: str, marked: str
) -> list[Trace]:
    """The traces of a file, with a problem that counts the records of other tools, which are left out.

    Args:
        traces: The traces.
        foreign: Positions of those records in the file, from 1.
        what: What a record of the format is, such as "run of LangSmith".
        source: The file.
        marked: What it is known by; empty if nothing need be said.

    Raises:
        TraceError: If there is no trace.
    """
    if not traces:
        known_by = f" ({marked})" if marked else ""
        raise TraceError(source, f"holds no {what.replace(' or ', ' and no ')}{known_by}")
    if not foreign:
        return traces
    records = "one record is" if len(foreign) == 1 else f"{len(foreign):,} records are"
    left_out = f"{records} left out: not a {what} (first: number {foreign[0]:,})"
    problem = TraceProblem(kind="foreign_record", what=left_out)
    problems = tuple(dict.fromkeys((problem, *traces[0].problems)))
    return [msgspec.structs.replace(traces[0], problems=problems), *traces[1:]]


def _merged(records: Sequence[Record], end_key: str) -> tuple[list[Record], list[TraceProblem]]:
    """Merge records that describe the same span: an update of an open span, or an exact repeat.

    Two records that both ended and differ stay separate: the id is not unique, and normalisation changes one.

    Returns:
        The records in order of first appearance, and a problem for each exact repeat.
    """
    result: list[Record] = []
    positions: dict[str, int] = {}
    problems = []
    for record in records:
        name = text(record, "id")
        position = None if name is None else positions.setdefault(name, len(result))
        if position is None or position == len(result):
            result.append(dict(record))  # it may change below
            continue
        first = result[position]
        if record == first:
            what = f'the span "{name}" is listed twice with the same content; it counts once'
            problems.append(TraceProblem(kind="duplicate_id", span=name, what=what))
        elif first.get(end_key) and record.get(end_key):
            result.append(record)
        else:
            _join(first, record, over=not first.get(end_key))
    return result, problems


def _join(first: Record, record: Record, *, over: bool) -> None:
    """Add the values of a record to the first one; ``over`` lets them replace existing values."""
    for key, value in record.items():
        if value is not None and (over or first.get(key) is None):
            first[key] = value


def _usage_once(trace: Trace) -> Trace:
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
