"""Groups recorded spans into traces, removes duplicates, names agents and finds stated hand-offs.

:func:`traces_of` reads a file of spans; :func:`merged_trace` also merges spans that ``trivium.trace``
recorded.
"""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence, Set
from datetime import UTC, datetime

import msgspec

from trivium.traces.langgraph import with_graph_agents
from trivium.traces.normalize import normalise
from trivium.traces.opentelemetry import semconv
from trivium.traces.opentelemetry.contents import (
    arguments_of,
    first_question,
    may_hold_question,
    not_recorded,
    parts_left_out,
    with_requested_arguments,
)
from trivium.traces.opentelemetry.deployment import CONVERSATION, text_of
from trivium.traces.opentelemetry.evaluations import evaluations_of
from trivium.traces.opentelemetry.frameworks import SCOPES, graph_runs, read_own_forms
from trivium.traces.opentelemetry.semconv import NANOSECONDS, RecordedSpan, recognised
from trivium.traces.opentelemetry.spans import classify, sets_up, spans_of, usage_of, wrong_counts
from trivium.traces.opentelemetry.trivium_attributes import (
    TriviumTrace,
    exported_messages,
    exported_trace,
    restored_spans,
)
from trivium.traces.outcome import below_tools, input_of
from trivium.traces.readers.json_input import text
from trivium.traces.trace import (
    NOT_RECORDED,
    RECORDERS,
    REMOTE,
    SETS_UP,
    Message,
    RecordedLine,
    Span,
    Trace,
    TraceProblem,
    message_time,
    nearest,
    parents_first,
    shifted,
    start_time,
)
from trivium.values import JsonObject, dict_

_NODE_MARKS = (semconv.METADATA, semconv.CHECKPOINT_NAMESPACE)
_CONVERSATIONS = (semconv.CONVERSATION, semconv.SESSION)
_DETAILS = "gen_ai.client.inference.operation.details"
"""Event whose attributes are those that the span would have."""
_LAST = 2**64


def traces_of(spans: Iterable[RecordedSpan]) -> list[Trace]:
    """The normalised traces of recorded spans, in the order in which they first appear.

    Spans with the same trace id form one trace, wherever they are in the file. Times are seconds from the
    first span; spans are ordered by start, ties in the given order.
    """
    return [_trace(trace_id, group) for trace_id, group in _by_trace(spans).items()]


def _by_trace(spans: Iterable[RecordedSpan]) -> dict[str, list[RecordedSpan]]:
    """The spans of each trace, their attributes with those that are in an event of details."""
    by_trace: dict[str, list[RecordedSpan]] = defaultdict(list)
    for span in spans:
        for name, stated in span.events or ():
            if name == _DETAILS:
                span.attributes = {**recognised(stated.items()), **span.attributes}
        by_trace[span.trace_id].append(span)
    return by_trace


def _trace(trace_id: str, spans: list[RecordedSpan]) -> Trace:
    names = set().union(*[span.attributes for span in spans])
    problems: list[TraceProblem] = []
    if semconv.TRIVIUM_PARENT in names or any(span.remote for span in spans):
        _lose_parents_elsewhere(spans, problems)
    ordered = deduplicate_exports(_by_start(spans), problems, pending=semconv.SPAN_TYPE in names)
    for span in ordered:
        classify(span)
    if semconv.TRIVIUM_TRACE in names and (own := exported_trace(ordered)) is not None:
        return _from_export(own, ordered, problems)
    if not SCOPES.isdisjoint([span.scope for span in ordered]):
        read_own_forms(ordered)
    graphs = [] if names.isdisjoint(_NODE_MARKS) else graph_runs(ordered)
    name_agents(ordered, by_run=semconv.RUN in names)
    if semconv.CALL_ID in names:
        with_requested_arguments(ordered)
    mark_handoffs(ordered)
    problems += _count_tokens(ordered)
    merge_double_instrumentation(ordered)
    problems += (*_shortcomings(ordered), *parts_left_out(ordered))
    origin = min((span.start for span in ordered if span.start is not None), default=None)
    trace = normalise(
        spans_of(ordered, origin or 0),
        trace_id=trace_id,
        problems=problems,
        metadata=_metadata(ordered, names, origin) | evaluations_of(ordered),
    )
    if may_hold_question(ordered, names):
        trace = _with_question(trace, ordered)
    messages = stated_messages(trace, ordered, names)
    if graphs:
        return with_graph_agents(trace, graphs, messages)
    if messages:
        everything = sorted((*trace.messages, *messages), key=message_time)
        trace = msgspec.structs.replace(trace, messages=tuple(everything))
    return trace


def _lose_parents_elsewhere(spans: Sequence[RecordedSpan], problems: list[TraceProblem]) -> None:
    """Make roots of the spans whose parent is not among them.

    It is a span of ``trivium.trace``, which ``merged_trace`` adds, or in another process, which did not send
    it.
    """
    known = {span.id for span in spans}
    for span in spans:
        if semconv.TRIVIUM_PARENT in span.attributes:
            span.parent = None
        elif span.remote and span.parent is not None and span.parent not in known:
            what = f'its parent "{span.parent}" is in another process, and not in the trace; it is now a root'
            problems.append(TraceProblem(kind=REMOTE, span=span.id, what=what))
            span.parent = None


def _count_tokens(spans: Sequence[RecordedSpan]) -> list[TraceProblem]:
    """Read tokens and cost of each model request; list those with wrong counts."""
    problems = []
    for span in spans:
        if span.kind == "llm":
            span.usage = usage_of(span.attributes)
            if (why := wrong_counts(span.attributes, span.usage)) is not None:
                problems.append(TraceProblem(kind="bad_tokens", span=span.id, what=why))
    return problems


def _metadata(ordered: Sequence[RecordedSpan], names: Set[str], origin: int | None) -> JsonObject:
    """The start of the trace, its conversation, and the instrumentations that recorded its agents."""
    recorders = sorted({span.scope for span in ordered if span.kind == "agent" and span.scope})
    metadata: JsonObject = {} if origin is None else {"started": _moment(origin)}
    if recorders:
        metadata[RECORDERS] = recorders
    for span in () if names.isdisjoint(_CONVERSATIONS) else ordered:
        stated = span.attributes.get(semconv.CONVERSATION) or span.attributes.get(semconv.SESSION)
        if conversation := text_of(stated):
            metadata[CONVERSATION] = conversation
            break
    return metadata | {SETS_UP: True} if all(map(sets_up, ordered)) else metadata


def _shortcomings(ordered: Sequence[RecordedSpan]) -> list[TraceProblem]:
    """List problems of a trace: unrecognised spans, and contents that were not recorded."""
    if all(span.kind == "other" for span in ordered) and not all(map(sets_up, ordered)):
        what = f"none of its {len(ordered):,} spans is recognised as an agent, a model request or a tool call"
        return [TraceProblem(kind="unrecognised", what=what)]
    lost = not_recorded(ordered)
    return [TraceProblem(kind=NOT_RECORDED, what=lost)] if lost else []


def _with_question(trace: Trace, ordered: Sequence[RecordedSpan]) -> Trace:
    """Add the question of the first model request to a trace whose outermost spans state none."""
    if input_of(trace) is not None:
        return trace
    below = below_tools(trace.spans)
    pairs = zip(trace.spans, ordered, below, strict=True)
    question = first_question(
        source for span, source, below_tool in pairs if span.kind == "llm" and not below_tool
    )
    if question is None:
        return trace
    return msgspec.structs.replace(trace, metadata={**trace.metadata, "input": question})


def _from_export(own: TriviumTrace, ordered: list[RecordedSpan], problems: list[TraceProblem]) -> Trace:
    """Restore a trace that Trivium exported."""
    _count_tokens(ordered)
    return normalise(
        restored_spans(spans_of(ordered, own.zero or 0), ordered),
        exported_messages(ordered),
        trace_id=own.trace_id,
        problems=problems,
        metadata=own.metadata | _case(ordered) | evaluations_of(ordered),
    )


def _case(spans: list[RecordedSpan]) -> JsonObject:
    """The case of the attempt that was exported, if it was one."""
    stated = (span.attributes.get(semconv.TRIVIUM_CASE) for span in spans)
    case = next((each for each in stated if isinstance(each, str)), None)
    return {} if case is None else {"case": case}


def _by_start(spans: list[RecordedSpan]) -> list[RecordedSpan]:
    """Order spans by start; of those with one start, parents come before children, else as given.

    Clocks of whole milliseconds start parents and children at the same time.
    """
    ordered = sorted(spans, key=_when)
    if len(set(map(_when, ordered))) == len(ordered):
        return ordered
    return sorted([spans[index] for index in parents_first(spans)], key=_when)


def _when(span: RecordedSpan) -> int:
    if span.start is not None:
        return span.start
    return span.end if span.end is not None else _LAST


def _moment(nanoseconds: int) -> str:
    seconds, rest = divmod(nanoseconds, NANOSECONDS)
    moment = datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest // 1000)
    return moment.isoformat().replace("+00:00", "Z")


_PENDING = "pending_span"


def deduplicate_exports(
    spans: Sequence[RecordedSpan], problems: list[TraceProblem], *, pending: bool
) -> list[RecordedSpan]:
    """Keep one of each group of spans that were exported several times.

    Exporters retry when they get no response, so spans with equal id, name and start are one span; the copy
    that ended last is kept. A dropped span is listed as a problem if it had ended; otherwise it is normal,
    since recorders write an open span when a child of it ends, and again when it ends. Other spans with equal
    ids are left to normalisation. Logfire exports a pending span, as a child of the span that it announces,
    when that span starts: it is dropped if the announced span is present, and otherwise replaces it,
    unfinished.

    Args:
        spans: The spans of one trace, by start.
        problems: Receives a problem for each span left out.
        pending: Whether there may be pending spans.
    """
    known = {span.id for span in spans}
    if len(known) == len(spans) and not pending:
        return list(spans)
    latest: dict[tuple[str, str, int | None], RecordedSpan] = {}
    for span in spans:
        if span.attributes.get(semconv.SPAN_TYPE) == _PENDING and span.parent is not None:
            if span.parent in known:
                continue
            _announce(span, span.parent)
        key = (span.id, span.name, span.start)
        before = latest.get(key)
        if before is None:
            latest[key] = span
            continue
        if before.end is not None and span.end is not None:
            what = "it was exported twice; one copy was left out"
            problems.append(TraceProblem(kind="resent", span=span.id, what=what))
        if (span.end or 0) > (before.end or 0):
            latest[key] = span
    return list(latest.values())


def _announce(pending: RecordedSpan, span_id: str) -> None:
    """Make a pending span the one that it announces."""
    above = pending.attributes.get(semconv.PENDING_PARENT)
    known = isinstance(above, str) and above.strip("0")
    pending.id, pending.parent, pending.end = span_id, above if known else None, None


def merge_double_instrumentation(spans: Sequence[RecordedSpan]) -> None:
    """Merge nested spans that two instrumentations recorded for the same work.

    An agent span directly below one of the same name is the same run, and so is a tool call directly below
    one of the same tool that is an MCP call or has no other arguments: the inner span becomes ``other``, and
    the outer one has its contents and its failure. A model request with requests directly below it is no
    request: it becomes ``other``. Its tokens are theirs, and if they have none, those of the last one.

    Args:
        spans: Of one trace, by start; changed.
    """
    within: dict[int, list[int]] = {}  # the requests directly below a request
    nearest: dict[str, int | None] = {}
    for index, span in enumerate(spans):
        kind, parent = span.kind, span.parent
        above = None if parent is None else nearest.get(parent)
        if kind == "other":
            nearest[span.id] = above
            continue
        nearest[span.id] = index
        if above is None:
            continue
        outer = spans[above]
        if kind == "llm" and (outer.kind == "llm" or above in within):
            within.setdefault(above, []).append(index)
            outer.classify("other", outer.title, outer.agent)
            if span.title == span.name:
                span.title = outer.title
        elif kind == outer.kind and span.title == outer.title and _is_same(kind, span, outer):
            span.classify("other", span.name, outer.title if kind == "agent" else outer.agent)
            nearest[span.id] = above
            outer.attributes = {**span.attributes, **outer.attributes}
            if kind == "tool" and span.failed and not outer.failed:
                outer.failed, outer.error = True, span.error
    _merge_usages(within, spans)
    for outer_index, inner in within.items():
        if len(inner) == 1:
            own = spans[inner[0]]
            own.attributes = {**spans[outer_index].attributes, **own.attributes}


def _is_same(kind: str, inner: RecordedSpan, outer: RecordedSpan) -> bool:
    if kind == "agent" or semconv.MCP_METHOD in inner.attributes:
        return True
    given, stated = arguments_of(inner), arguments_of(outer)
    return kind == "tool" and (given is None or stated is None or given == stated)


def _merge_usages(within: dict[int, list[int]], spans: Sequence[RecordedSpan]) -> None:
    """Count the tokens of nested requests once: those of the inner ones, else of the outer one."""
    counted = {index for index, span in enumerate(spans) if span.usage is not None} if within else set()
    for outer in sorted(within, reverse=True):
        usage, spans[outer].usage = spans[outer].usage, None
        if usage is not None and counted.isdisjoint(within[outer]):
            last = outer
            while last in within:
                last = within[last][-1]
            spans[last].usage = usage
        elif not counted.isdisjoint(within[outer]):
            counted.add(outer)


_UNNAMED = "agent"
"""PydanticAI's placeholder for an agent whose name it does not know yet."""


def name_agents(spans: Sequence[RecordedSpan], *, by_run: bool) -> None:
    """Name agent spans that have no name, and unify runs with two names.

    If the trace also has named agents, a nameless agent span is the workflow around them; otherwise it takes
    the name of its span. PydanticAI states the name of an initially unnamed agent on some spans of a run
    only: all spans of the run get that name.

    Args:
        spans: Of one trace; changed.
        by_run: Whether any span has the id of a run.
    """
    nameless = [span for span in spans if span.kind == "agent" and not span.title]
    if nameless:
        named = any(span.kind == "agent" and span.title for span in spans)
        for span in nameless:
            span.classify("other" if named else "agent", span.name)
    if not by_run:
        return
    runs = [(run, span) for span in spans if isinstance(run := span.attributes.get(semconv.RUN), str)]
    names: dict[str, str] = {}
    for run, span in runs:
        name = span.title if span.kind == "agent" else span.agent
        if name and names.get(run, _UNNAMED) == _UNNAMED:
            names[run] = name
    for run, span in runs:
        if span.kind == "agent":
            span.title = names.get(run, span.title)
        elif span.agent is not None:
            span.agent = names.get(run, span.agent)


def trace_ids(otel_spans: Sequence[RecordedSpan]) -> list[str]:
    """The trace id of each span: that of an enclosing ``trivium.trace`` span, else OpenTelemetry's."""
    keys = [(span.trace_id, span.id) for span in otel_spans]
    above = {
        key: None if span.parent is None else (span.trace_id, span.parent)
        for key, span in zip(keys, otel_spans, strict=True)
    }
    known = {
        key: link[0]
        for key, span in zip(keys, otel_spans, strict=True)
        if (link := _parent_link(span)) is not None
    }
    return [nearest(key, above, known, otherwise=key[0]) for key in keys]


def merged_trace(
    lines: Sequence[RecordedLine],
    otel_spans: Sequence[RecordedSpan],
    *,
    trace_id: str,
    problems: Sequence[TraceProblem] = (),
) -> Trace:
    """Merge spans of ``trivium.trace`` and of OpenTelemetry into one trace.

    Work that both recorded, such as a decorated function that is also a framework's tool, is one call.

    Args:
        lines: Spans and messages that ``trivium.trace`` recorded, their times in seconds since 1970.
        otel_spans: Spans of OpenTelemetry.
        trace_id: Id of the trace.
        problems: Problems of the trace so far.
    """
    spans = [line.span for line in lines if line.span is not None]
    all_messages = [line.message for line in lines if line.message is not None]
    all_problems = [*problems, *_recorded_as_text(name for line in lines for name in line.as_text)]
    recorders = {"trivium"} if any(span.kind == "agent" for span in spans) else set()
    own_ids = {span.id for span in spans}
    own_calls = any(span.kind == "tool" for span in spans)
    links = {span.id: link[1] for span in otel_spans if (link := _parent_link(span)) is not None}
    for own_id, group in _by_trace(otel_spans).items():
        origin = min((span.start for span in group if span.start is not None), default=0) / NANOSECONDS
        trace = _trace(own_id, group)
        spans += [
            msgspec.structs.replace(shifted(span, origin), parent=links.get(span.id, span.parent))
            for span in trace.spans
        ]
        all_messages += [shifted(message, origin) for message in trace.messages]
        all_problems += [each for each in trace.problems if not (own_calls and each.kind == NOT_RECORDED)]
        recorders |= set(trace.recorders)
    if otel_spans:
        spans.sort(key=start_time)
        spans = _merge_decorated(spans, own_ids)
    metadata = {RECORDERS: sorted(recorders)} if recorders else {}
    return normalise(
        spans, all_messages, trace_id=trace_id, problems=all_problems, metadata=metadata, nested="unstated"
    )


def _recorded_as_text(types: Iterable[str]) -> list[TraceProblem]:
    """The problem that some values were recorded as text; an empty list if none were."""
    counts = Counter(types)
    if not counts:
        return []
    number = counts.total()
    named = ", ".join(f"{count:,} {name}" for name, count in counts.most_common(5))
    more = f" and {len(counts) - 5:,} other types" if len(counts) > 5 else ""
    what = (
        f"{number:,} value{'s' if number > 1 else ''} that JSON does not have recorded as text: {named}{more}"
    )
    return [TraceProblem(kind="recorded_as_text", what=what)]


def _parent_link(span: RecordedSpan) -> tuple[str, str] | None:
    """Trace and id of the ``trivium.trace`` span that is the parent, if the span names one."""
    value = span.attributes.get(semconv.TRIVIUM_PARENT)
    if not isinstance(value, str):
        return None
    trace_id, _, span_id = value.partition("/")
    return (trace_id, span_id) if trace_id and span_id else None


def _merge_decorated(spans: list[Span], own_ids: set[str]) -> list[Span]:
    """Merge spans that a decorator and an instrumentation recorded for the same work.

    An agent or tool span directly below one of the same name is the same run or call: the inner span becomes
    ``other``. Of two nested model requests, only the inner one keeps its tokens.
    """
    nearest: dict[str, int | None] = {}
    result = list(spans)
    for index, span in enumerate(spans):
        above = None if span.parent is None else nearest.get(span.parent)
        nearest[span.id] = above if span.kind == "other" else index
        if above is None or (span.id in own_ids) == (spans[above].id in own_ids):
            continue
        outer = result[above]
        if span.kind != outer.kind:
            continue
        if span.kind == "llm" and span.usage is not None:
            result[above] = msgspec.structs.replace(outer, usage=None)
        elif span.kind in {"agent", "tool"} and span.name == outer.name:
            result[index] = msgspec.structs.replace(span, kind="other", agent=outer.agent)
            nearest[span.id] = above
    return result


_HANDOFF_ATTRIBUTES = frozenset({semconv.TRANSFER, semconv.CALLER, semconv.HANDOFF_TO, semconv.PARENT_NODE})
"""Attributes that imply a message between agents."""


def stated_messages(trace: Trace, recorded: Sequence[RecordedSpan], names: Set[str]) -> list[Message]:
    """Messages that attributes of spans state, without those that the nesting already implies.

    Args:
        trace: The trace, with the messages implied by its nesting.
        recorded: The recorded span of each of its spans.
        names: Names of all attributes on these spans.
    """
    if names.isdisjoint(_HANDOFF_ATTRIBUTES) and not any(span.receiver for span in recorded):
        return []
    nested = [message for message in trace.messages if message.type == "task_request"]
    pairs = {(message.sender, message.receiver) for message in nested}
    starts = _start_times(nested)
    agents = {span.agent or span.name for span in trace.spans if span.kind == "agent"}
    nodes = {
        str(span.attributes[semconv.NODE]): span.title
        for span in recorded
        if span.kind == "agent" and semconv.NODE in span.attributes
    }
    messages: list[Message] = []
    successors: list[tuple[str, Span]] = []
    for span, source in zip(trace.spans, recorded, strict=True):
        attributes = source.attributes
        receiver = source.receiver or text(attributes, semconv.HANDOFF_TO)
        if receiver is not None:
            sender = text(attributes, semconv.HANDOFF_FROM) or span.agent or text(attributes, semconv.INPUT)
            _add(messages, sender, receiver, "handoff", span.start)
            continue
        target = text(attributes, semconv.TRANSFER)
        if target is not None and not _started_during(starts.get(target, ()), span):
            _add(messages, span.agent, target, "handoff", span.start)
        caller = text(attributes, semconv.CALLER)
        if caller is not None and span.kind == "agent" and (caller, span.name) not in pairs:
            called_by = attributes.get(semconv.CALLER_TYPE)
            if called_by == "agent" or (called_by is None and caller in agents):
                _add(messages, caller, span.name, "task_request", span.start)
        above = text(attributes, semconv.PARENT_NODE)
        if above is not None and span.kind == "agent":
            successors.append((nodes.get(above, above), span))
    pairs |= {(message.sender, message.receiver) for message in messages}
    for sender, span in successors:
        if (sender, span.name) not in pairs:
            _add(messages, sender, span.name, "handoff", span.start)
    return messages


_TRANSFER = "transfer_to_"
_TO_AGENT = "agent"
"""``transfer_to_agent`` of Google's ADK names the receiver in its arguments."""


def mark_handoffs(spans: Sequence[RecordedSpan]) -> None:
    """Mark tools that hand over to an agent of the trace, such as ``transfer_to_writer``, as hand-offs.

    A tool during which that agent runs is a call of the agent. Without arguments, ``transfer_to_agent`` hands
    over to the next agent that starts.

    Args:
        spans: The spans of one trace, by start; changed.
    """
    transfers = [
        span
        for span in spans
        if span.kind == "tool" and not span.handoff and span.title.startswith(_TRANSFER)
    ]
    runs = [span for span in spans if span.kind == "agent"] if transfers else []
    for span in transfers:
        target = span.title.removeprefix(_TRANSFER)
        if target == _TO_AGENT:
            later = (run.title for run in runs if (run.start or 0) >= (span.end or span.start or 0))
            target = text(dict_(arguments_of(span)), "agent_name") or next(later, "")
        same = [run for run in runs if _same_name(run.title, target)]
        if same and not any(_within(run, span) for run in same):
            span.receiver, span.handoff = same[0].title, True


def _same_name(agent: str, target: str) -> bool:
    return agent.lower().replace(" ", "_") == target.lower().replace(" ", "_")


def _within(run: RecordedSpan, span: RecordedSpan) -> bool:
    return span.start is not None and span.start <= (run.start or 0) < (span.end or span.start)


def _start_times(nested: Sequence[Message]) -> dict[str, list[float]]:
    """The times at which each agent was called, sorted."""
    starts: dict[str, list[float]] = {}
    for message in sorted(nested, key=message_time):
        starts.setdefault(message.receiver, []).append(message_time(message))
    return starts


def _started_during(starts: Sequence[float], tool: Span) -> bool:
    """Whether any of the sorted start times lies within the tool's span."""
    if tool.start is None:
        return bool(starts)
    at = bisect_left(starts, tool.start)
    return at < len(starts) and (tool.end is None or starts[at] <= tool.end)


def _add(messages: list[Message], sender: str | None, receiver: str, kind: str, time: float | None) -> None:
    if sender and sender != receiver:
        messages.append(Message(sender=sender, receiver=receiver, type=kind, time=time))
