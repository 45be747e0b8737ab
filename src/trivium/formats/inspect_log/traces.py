"""Builds a trace from the events, or else the messages, of an Inspect sample.

Events mark the start and end of spans, model calls and tool calls. A span of type ``agent`` is an agent's
run; calls outside any such span belong to the solver's span, or else to a root run named ``agent``. A span of
type ``tool`` belongs to the tool call with its name and parent. The spans of scorers are left out.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from trivium.errors import Problem, TraceError
from trivium.formats.inspect_log.archive import Log
from trivium.traces.conversation import texts_of, unread_parts, unread_problems
from trivium.traces.normalize import normalise
from trivium.traces.readers.chat import trace_of_chat
from trivium.traces.readers.json_input import read_usage, seconds, text
from trivium.traces.trace import Span, SpanUsage, Trace, extent, nearest
from trivium.values import JsonObject, amount, dict_, dicts

HANDOFF = "transfer_to_"
_ATTACHED = "attachment://"
_ROOT = "agent"


def trace_of_sample(raw: JsonObject) -> Trace:
    """Build the trace of a sample."""
    attachments = dict_(raw.get("attachments")) or dict_(dict_(raw.get("transcript")).get("content"))
    id_, epoch = text(raw, "id") or "", raw.get("epoch", 1)
    trace_id, metadata = f"{id_}/{epoch}", {"sample": id_, "epoch": epoch}
    spans = _Builder(list(_flat(raw)), attachments).spans()
    if not any(span.kind in {"llm", "tool"} for span in spans):
        spans = []
        if turns := dicts(raw.get("messages")):
            chat = trace_of_chat(turns, trace_id)
            return replace(chat, metadata=chat.metadata | metadata)
    problems = unread_problems(unread_parts(raw.get("messages")))
    return normalise(spans, trace_id=trace_id, problems=problems, metadata=metadata)


def _flat(raw: JsonObject) -> Iterator[JsonObject]:
    """The events in order. Logs before 2025 nest those of a sub-task or tool within it."""
    events = raw.get("events")
    if not isinstance(events, list):
        events = dict_(raw.get("transcript")).get("events")
    waiting = deque(dicts(events))
    while waiting:
        event = waiting.popleft()
        yield event
        inner = dicts(event.get("events"))
        if inner:
            begin = {"event": "nested_begin", "tool": text(event, "event") == "tool"}
            waiting.extendleft(reversed([begin, *inner, {"event": "nested_end"}]))


class _Builder:
    """The spans of one sample, event by event.

    A node is a span of the log or a tool call; ``_parents`` maps each to its parent.
    """

    def __init__(self, events: list[JsonObject], attachments: JsonObject) -> None:
        self._attachments = attachments
        self._parents: dict[str, str | None] = {}
        self._runs: dict[str, Span] = {}
        self._ends: dict[str, float | None] = {}
        self._waiting: dict[tuple[str | None, str], deque[str]] = {}
        self._agents: set[str] = set()
        self._scoring: set[str] = set()
        self._stack: list[str | None] = [None]
        self._calls: list[Span] = []
        for event in events:
            self._add(event)

    def _add(self, event: JsonObject) -> None:
        kind = text(event, "event")
        if kind == "span_begin":
            self._begin(event, text(event, "id"), text(event, "parent_id"))
        elif kind == "span_end":
            self._ends[text(event, "id") or ""] = seconds(event.get("timestamp"))
        elif kind == "step" and text(event, "action") == "begin":
            id_ = f"step-{len(self._parents)}"
            self._begin(event, id_, self._stack[-1])
            self._stack.append(id_)
        elif kind == "nested_begin":
            self._stack.append(self._calls[-1].id if event.get("tool") and self._calls else self._stack[-1])
        elif kind in {"step", "nested_end"} and len(self._stack) > 1:
            self._ends[self._stack.pop() or ""] = seconds(event.get("timestamp"))
        elif kind == "model":
            self._calls.append(self._model(event))
        elif kind == "tool":
            self._calls.append(self._tool(event))

    def _begin(self, event: JsonObject, id_: str | None, parent: str | None) -> None:
        if id_ is None or id_ in self._parents:
            return
        kind, name = text(event, "type") or "", text(event, "name") or _ROOT
        self._parents[id_] = parent
        if kind in {"scorers", "scorer"}:
            self._scoring.add(id_)
        elif kind == "tool":
            self._waiting.setdefault((parent, name), deque()).append(id_)
        elif kind in {"agent", "solver"}:
            if kind == "agent":
                self._agents.add(id_)
            start = seconds(event.get("timestamp"))
            self._runs[id_] = Span(id=id_, kind="agent", name=name, agent=name, start=start)

    def _parent_of(self, event: JsonObject) -> str | None:
        return text(event, "span_id") or self._stack[-1]

    def _id(self, event: JsonObject, word: str) -> str:
        return text(event, "uuid") or f"{word}-{len(self._calls)}"

    def _model(self, event: JsonObject) -> Span:
        output = dict_(event.get("output"))
        start, end = seconds(event.get("timestamp")), seconds(event.get("completed"))
        if end is None and start is not None and event.get("pending") is not True:
            took = seconds(output.get("time"))
            end = start if took is None else start + max(0.0, took)
        cached = text(event, "cache") == "read"
        return Span(
            id=self._id(event, "model"),
            kind="llm",
            name=text(event, "model") or text(output, "model") or "model",
            parent=self._parent_of(event),
            start=start,
            end=end,
            ok=_ok(event, failed=event.get("error") is not None or output.get("error") is not None),
            output=self._attached(completion_of(output)),
            usage=usage_of(output.get("usage")),
            attributes={"cached": True} if cached else {},
        )

    def _tool(self, event: JsonObject) -> Span:
        name, position = text(event, "function") or "", self._parent_of(event)
        id_ = self._id(event, "tool")
        waiting = self._waiting.get((position, name))
        if waiting:  # the span of this call: its contents belong below the call
            self._parents[waiting.popleft()] = id_
        self._parents.setdefault(id_, position)
        failed = event.get("error") is not None or event.get("failed") is True
        is_handoff = name.startswith(HANDOFF) and event.get("agent") is not None
        return Span(
            id=id_,
            kind="tool",
            name=name,
            parent=position,
            start=seconds(event.get("timestamp")),
            end=seconds(event.get("completed")),
            ok=_ok(event, failed=failed),
            input=self._attached(event.get("arguments")),
            output=self._attached(event.get("result")) or dict_(event.get("error")).get("message"),
            attributes={"handoff": True} if is_handoff else {},
        )

    def _attached(self, value: Any) -> Any:
        """Replace a reference to an attachment by its text, also in the arguments of a call."""
        if isinstance(value, dict):
            return {
                key: self._attached(part) if isinstance(part, str) else part for key, part in value.items()
            }
        if isinstance(value, str) and value.startswith(_ATTACHED):
            return self._attachments.get(value.removeprefix(_ATTACHED), value)
        return value

    def spans(self) -> list[Span]:
        """Agents, then calls, each with the nearest agent or call as parent, without those of scorers."""
        scorer_of = self._nearest(self._scoring)
        calls = [call for call in self._calls if scorer_of(call.parent) is None]
        tools = {call.id for call in calls if call.kind == "tool"}
        agents = {id_ for id_ in self._agents if scorer_of(id_) is None}
        run_of, solver_of = self._nearest(agents | tools), self._nearest(set(self._runs))
        for call in calls:
            solver = solver_of(call.parent)
            if run_of(call.parent) is None and solver is not None:
                agents.add(solver)
        run_of = self._nearest(agents | tools)
        rows: list[Span] = []
        root = None
        if not agents or any(run_of(call.parent) is None for call in calls):
            root = "root"
            start, end = extent(calls)
            rows.append(Span(id=root, kind="agent", name=_ROOT, agent=_ROOT, start=start, end=end))
        for id_, run in self._runs.items():
            if id_ in agents:
                end = self._ends.get(id_)
                ok = True if end is not None or run.start is None else None
                parent = run_of(self._parents[id_]) or root
                rows.append(replace(run, end=end, ok=ok, parent=parent))
        return rows + [replace(call, parent=run_of(call.parent) or root) for call in calls]

    def _nearest(self, nodes: set[str]) -> Callable[[str | None], str | None]:
        """A function that finds the nearest of some nodes at or above a node."""
        known: dict[str, str | None] = {node: node for node in nodes}
        return lambda node: nearest(node, self._parents, known, None)


def usage_of(usage: Any) -> SpanUsage | None:
    """Tokens and cost; Inspect counts cached tokens separately, so they are added to the input tokens."""
    fields = dict_(usage)
    cached = {
        "cache_read_input_tokens": fields.get("input_tokens_cache_read"),
        "cache_creation_input_tokens": fields.get("input_tokens_cache_write"),
    }
    return read_usage({**fields, **cached}, cost=amount(fields.get("total_cost")))


def _ok(event: JsonObject, *, failed: bool) -> bool | None:
    return False if failed else None if event.get("pending") is True else True


def completion_of(output: Any) -> str | None:
    """The text of a model's output: its completion, else the text of its first choice."""
    completion = dict_(output).get("completion")
    if isinstance(completion, str) and completion:
        return completion
    choices = dicts(dict_(output).get("choices"))
    content = texts_of(dict_(choices[0].get("message")).get("content")) if choices else None
    return content if isinstance(content, str) and content else None


def opens(path: Path, head: bytes) -> bool:
    """Whether a file is a zip archive that starts like a log."""
    first = head[30:300]
    return head.startswith(b"PK\x03\x04") and (
        path.suffix == ".eval" or first.startswith((b"_journal/", b"samples/", b"header.json"))
    )


def read_file(path: Path) -> list[Trace]:
    """The traces of a log's samples, in the order of the file.

    Raises:
        TraceError: If it is not a log, or a sample cannot be read.
    """
    return [trace_of_sample(sample.raw) for sample in Log(path).samples()]


def sniff(document: Any) -> bool:
    """Whether a JSON value is a log of Inspect."""
    return (
        isinstance(document, dict)
        and isinstance(document.get("eval"), dict)
        and "status" in document
        and isinstance(document.get("samples", []), list | None)
    )


def read_traces(documents: Sequence[Any], source: str) -> list[Trace]:
    """The traces of the samples of a file's documents.

    Raises:
        TraceError: If a document is not a log.
    """
    traces = []
    for index, document in enumerate(documents):
        where = f"[{index}]" if len(documents) > 1 else ""
        if not sniff(document):
            raise TraceError(source, Problem(where, 'expected a log, an object with "eval" and "samples"'))
        traces += [trace_of_sample(raw) for raw in document.get("samples") or () if isinstance(raw, dict)]
    return traces
