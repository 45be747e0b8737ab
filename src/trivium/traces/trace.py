"""Data model of traces: the spans and messages of one attempt, and their order in tree and time.

Definition: docs/definitions/files.md#trace.
"""

import json
import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Annotated, Any, Final, Literal, Protocol, TypeVar

import msgspec

from trivium.values import amount, json_or_text, list_

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
R = TypeVar("R", "Span", "Message")

SpanKind = Literal["agent", "tool", "llm", "other"]

TextId = Annotated[str, msgspec.Meta(extra={"also": "number"})]
"""An id; a file may have a number instead, which becomes its decimal text."""

RECORDERS = "recorders"
"""Key in a trace's metadata: the instrumentations that recorded its agents."""

NOT_RECORDED = "not_recorded"
"""Kind of a problem: what the instrumentation does not record, in these words."""
NO_CALLS = "its instrumentation records no tool calls, although models request them"
NO_ARGUMENTS = "its instrumentation records no arguments of tool calls"

SETS_UP = "sets_up"
"""Key in a trace's metadata: it only sets agents up, and is no interaction."""

INCOMPLETE = "incomplete"
"""Kind of a problem: part of the trace is missing."""

CUT = "cut"
"""Kind of a problem: the trace is larger than allowed, and what came beyond that is missing."""

ORPHAN, REMOTE = "orphan", "remote_parent"
"""Kinds of a problem: the parent of a span is missing; it is missing because it is in another process."""


class SpanUsage(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True, gc=False
):
    """Tokens and cost of one llm span; None where not reported.

    Attributes:
        input_tokens: All of them, with those read from and written to the provider's cache.
        output_tokens: All of them, with reasoning.
        cost_usd: Cost in US dollars.
        cache_read_tokens: The part of the input tokens that was read from the cache.
        cache_write_tokens: The part of them that was written to the cache.
        input_audio_tokens: The part of them that is audio.
        reasoning_tokens: The part of the output tokens that is reasoning.
        output_audio_tokens: The part of them that is audio.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    input_audio_tokens: int | None = None
    reasoning_tokens: int | None = None
    output_audio_tokens: int | None = None


class Span(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True, gc=False
):
    """One piece of work: an agent's turn, a tool call, a model request.

    Traces hold many, and JSON values hold no cycles: the garbage collector leaves spans and messages alone,
    which halves the time of reading a large trace.

    Attributes:
        id: Unique in its trace.
        kind: agent, tool, llm or other.
        name: The agent, tool or model.
        parent: Id of the span that this one ran under.
        agent: The agent that did the work. Normalisation fills it in for spans below an agent span.
        start: Seconds on the trace's clock, or None.
        end: Seconds, or None when unfinished or the format has no times.
        ok: True, False when it failed, None when it never finished.
        input: The input, any JSON value.
        output: The output, any JSON value.
        usage: Tokens and cost (llm spans only).
        attributes: Further data. Four keys are read: ``context`` by tool_selection
            (docs/definitions/traces.md#tool-selection), ``handoff``, which is true for a hand-off recorded as
            a tool call, ``retrieval``, which is true for a call whose output are retrieved documents, and
            ``reranking``, which is true for one that selects them among those retrieved before.
    """

    id: TextId
    kind: SpanKind
    name: str
    parent: TextId | None = None
    agent: str | None = None
    start: float | None = None
    end: float | None = None
    ok: bool | None = True
    input: Any = None
    output: Any = None
    usage: SpanUsage | None = None
    attributes: dict[str, Any] = {}


TURN = "turn"
"""Attribute of a span: the number of the turn of a conversation that it belongs to, from 1."""

TASK_REQUEST = "task_request"
"""Type of the message with which one agent asks another to work."""


class Message(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True, gc=False
):
    """A message from one agent to another.

    Attributes:
        type: task_request, result_delivery, data_transfer, coordination, status_update, handoff,
            or a word of the suite's own (docs/definitions/traces.md#messages).
        time: Seconds on the trace's clock, or None.
    """

    sender: str
    receiver: str
    type: str = TASK_REQUEST
    time: float | None = None
    content: Any = None


class RecordedLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of a file of ``trivium.trace``: a span or a message, and the types of values kept as text.

    A span that is still open when a child of it is written is written first, without an end; the line that
    is written when it ends replaces that one. Keys of later versions are ignored.
    """

    trace_id: str
    span: Span | None = None
    message: Message | None = None
    as_text: tuple[str, ...] = ()


class TraceProblem(msgspec.Struct, frozen=True, kw_only=True):
    """Something in a trace that was repaired or flagged.

    Attributes:
        kind: orphan, remote_parent, cycle, duplicate_id, clock_skew, negative_duration, unfinished,
            incomplete, cut, …
        span: Id of the span concerned, or None.
        what: One sentence.
    """

    kind: str
    span: str | None = None
    what: str


class Trace(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True, dict=True
):
    """The spans and messages of one attempt, normalised (see ``trivium.traces.normalize``).

    Spans keep the order of their file. ``problems`` lists what was repaired. ``metadata["people"]``
    names the senders and receivers that are not agents, such as the user of a chat;
    ``metadata["recorders"]`` names the instrumentations that recorded the agents, because frameworks record
    the same work differently.
    """

    trace_id: TextId = ""
    spans: tuple[Span, ...] = ()
    messages: tuple[Message, ...] = ()
    problems: tuple[TraceProblem, ...] = ()
    metadata: dict[str, Any] = {}

    @cached_property
    def tool_calls(self) -> tuple[Span, ...]:
        """Tool spans ordered by start, ties and spans without a start in file order.

        A hand-off recorded as a tool call is a message, not a call, and is left out
        (docs/definitions/traces.md#tool-calls).
        """
        return _by_start(
            [span for span in self.spans if span.kind == "tool" and not span.attributes.get("handoff")]
        )

    @cached_property
    def people(self) -> frozenset[str]:
        """Senders and receivers that are not agents."""
        return frozenset(texts_in(self.metadata.get("people")))

    @cached_property
    def missing_part(self) -> str | None:
        """Describe the missing parts of the trace in one sentence; None if it is complete."""
        return next((problem.what for problem in self.problems if problem.kind in {INCOMPLETE, CUT}), None)

    @cached_property
    def cut(self) -> bool:
        """Whether it is larger than allowed, so that part of it is missing."""
        return any(problem.kind == CUT for problem in self.problems)

    @cached_property
    def without_root(self) -> bool:
        """Whether the outermost span is missing: each span that has no parent had one.

        Definition: docs/definitions/traces.md#cut-traces.

        A span whose parent is in another process is a root, unless part of the trace is missing.
        """
        lost = {ORPHAN} if self.missing_part is None else {ORPHAN, REMOTE}
        orphans = {problem.span for problem in self.problems if problem.kind in lost}
        return bool(orphans) and all(span.id in orphans for span in self.spans if span.parent is None)

    @cached_property
    def not_recorded(self) -> frozenset[str]:
        """What its instrumentation does not record, such as ``NO_CALLS``."""
        return frozenset(problem.what for problem in self.problems if problem.kind == NOT_RECORDED)

    @property
    def sets_up(self) -> bool:
        """Whether it only sets agents up, and is no interaction."""
        return self.metadata.get(SETS_UP) is True

    @cached_property
    def recorders(self) -> tuple[str, ...]:
        """The instrumentations, or the format, that recorded the agents and their messages; sorted."""
        return texts_in(self.metadata.get(RECORDERS))

    @cached_property
    def agent_messages(self) -> tuple[Message, ...]:
        """Messages from one agent to another, in order; messages from or to people are left out."""
        people = self.people
        if not people:
            return self.messages
        return tuple(
            message
            for message in self.messages
            if message.sender not in people and message.receiver not in people
        )

    @cached_property
    def agents(self) -> tuple[str, ...]:
        """Names of all agents that acted or were addressed, in order of appearance."""
        names: dict[str, None] = {}
        for span in self.spans:
            if span.agent is not None:
                names[span.agent] = None
            elif span.kind == "agent":
                names[span.name] = None
        for message in self.agent_messages:
            names[message.sender] = None
            names[message.receiver] = None
        return tuple(names)

    @cached_property
    def seconds(self) -> float | None:
        """Time from the first start to the last end, or None when the trace has no times."""
        start, end = extent(self.spans)
        return None if start is None or end is None else max(0.0, end - start)


def extent(spans: Iterable[Span]) -> tuple[float | None, float | None]:
    """First start and last end of spans; None where no span has one."""
    times = [(span.start, span.end) for span in spans]
    starts = [start for start, _ in times if start is not None]
    return min(starts, default=None), max([end for _, end in times if end is not None], default=None)


def texts_in(value: Any) -> tuple[str, ...]:
    """The texts in a list; none in any other value."""
    return tuple(text for text in list_(value) if isinstance(text, str))


def wall_seconds(trace: Trace) -> float | None:
    """Wall time by the spans, else as the trace's metadata states it; None without either."""
    return trace.seconds if trace.seconds is not None else amount(trace.metadata.get("seconds"))


def interactions(traces: Iterable[Trace]) -> list[Trace]:
    """The traces but those that only set agents up; all of them if these are the only ones."""
    every = list(traces)
    return [trace for trace in every if not trace.sets_up] or every


def cut_trace(trace: Trace, refused: int) -> Trace:
    """A trace that says how many of its spans were refused because it is larger than allowed."""
    if not refused:
        return trace
    what = f"it is larger than allowed: {refused:,} of its spans are left out"
    return msgspec.structs.replace(trace, problems=(TraceProblem(kind=CUT, what=what), *trace.problems))


def _by_start(spans: list[Span]) -> tuple[Span, ...]:
    """Stable order by start; a span without a start stays right behind its predecessor in the file."""
    keys: list[float] = []
    latest = float("-inf")
    for span in spans:
        if span.start is not None:
            latest = span.start
        keys.append(latest)
    order = sorted(range(len(spans)), key=keys.__getitem__)
    return tuple([spans[index] for index in order])


class _Placed(Protocol):
    @property
    def id(self) -> str: ...
    @property
    def parent(self) -> str | None: ...


def parents_first(spans: Sequence[_Placed]) -> list[int]:
    """Indices of the spans, parents before children as far as no cycle prevents it; does not recurse."""
    position = {span.id: index for index, span in enumerate(spans)}
    done = [False] * len(spans)
    order: list[int] = []
    for first in range(len(spans)):
        trail = []
        index: int | None = first
        while index is not None and not done[index]:
            done[index] = True
            trail.append(index)
            parent = spans[index].parent
            index = None if parent is None else position.get(parent)
        order.extend(reversed(trail))
    return order


def nearest(node: K | None, above: Mapping[K, K | None], known: dict[K, V], otherwise: V) -> V:
    """The value of the nearest node, at or above one, that has a value.

    Args:
        node: The node to start from.
        above: The parent of each node; it may hold cycles.
        known: The values; the nodes in between get the value that is found.
        otherwise: The value where no node has one.
    """
    trail: list[K] = []
    while node is not None and node not in known:
        known[node] = otherwise  # a cycle ends here
        trail.append(node)
        node = above.get(node)
    value = otherwise if node is None else known[node]
    known.update(dict.fromkeys(trail, value))
    return value


def max_depth(spans: Sequence[Span]) -> int:
    """Levels of the deepest branch: 1 for roots alone, 0 for no spans."""
    depths: dict[str | None, int] = {None: 0}
    for index in parents_first(spans):
        span = spans[index]
        depths[span.id] = depths[span.parent] + 1
    return max(depths.values())


def nested_messages(delegated: Sequence[tuple[str, Span]], *, timed: bool) -> tuple[Message, ...]:
    """Messages implied by agents' runs that are nested in one another.

    A run of B below a run of A, with no other agent's run between, is a ``task_request`` to B when it
    starts and a ``result_delivery`` back when it has ended. An agent below itself sends nothing.

    Args:
        delegated: Agent spans, each with the agent of the nearest agent span above it.
        timed: Whether the trace has times; without times, a run has ended unless its ``ok`` is None.

    Returns:
        Ordered by time; in the order of the runs if the trace has no times.
    """
    messages: list[Message] = []
    for asker, run in delegated:
        name = run.agent or run.name
        if name == asker:
            continue
        messages.append(Message(sender=asker, receiver=name, type=TASK_REQUEST, time=run.start))
        if run.end is not None if timed else run.ok is not None:
            messages.append(Message(sender=name, receiver=asker, type="result_delivery", time=run.end))
    if timed:
        messages.sort(key=message_time)
    return tuple(messages)


def message_time(message: Message) -> float:
    """Sort key of messages: their time; those without one come last."""
    return float("inf") if message.time is None else message.time


def start_time(span: Span) -> float:
    """Sort key of spans: their start; those without one come last."""
    return float("inf") if span.start is None else span.start


def shifted(record: R, seconds: float) -> R:
    """A span or a message whose times are moved."""
    times = {name: getattr(record, name) for name in TIMES[type(record)]}
    moved = {name: time + seconds for name, time in times.items() if time is not None}
    return msgspec.structs.replace(record, **moved)


TIMES: Final[Mapping[type, tuple[str, ...]]] = {Span: ("start", "end"), Message: ("time",)}
"""The fields of a record that are times."""


def canonical(value: Any) -> bytes:
    """A JSON value as bytes that are equal for equal values: keys sorted, 1.0 written as 1.

    A text that holds a JSON object or list counts as that value, because formats differ in how they record
    arguments; None counts as an empty object.
    """
    if value is None:
        return b"{}"
    if isinstance(value, str) and value[:1] in ("{", "["):
        value = json_or_text(value)
    try:
        text = msgspec.json.encode(value, order="deterministic")
    except UnicodeEncodeError:  # a lone surrogate, which only escaped ASCII can hold
        return json.dumps(value, sort_keys=True).encode()
    if _MAY_HOLD_WHOLE_FLOAT(text):
        text = msgspec.json.encode(_WHOLE_FLOATS.decode(text), order="deterministic")
    return text


def _number(text: str) -> int | float:
    value = float(text)
    return int(value) if value.is_integer() and abs(value) < 2**53 else value


_MAY_HOLD_WHOLE_FLOAT = re.compile(rb"[0-9](?:\.0|[eE])").search
_WHOLE_FLOATS = msgspec.json.Decoder(float_hook=_number)
