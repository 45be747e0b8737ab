"""Reads Claude Code: the events its command prints (stream-json), and transcripts of its sessions.

One turn of the model is split over several events with the same ``message.id``, one block each; they become
one llm span. Their output tokens are the count at the start of the turn, unless a ``stop_reason`` (or the
event ``message_delta``) accompanies them: only then are they used. The counts of a ``result`` event go to
the lead's span and to ``metadata``.
"""

import re
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from trivium.traces.conversation import unread_kinds, unread_problems
from trivium.traces.normalize import normalise
from trivium.traces.outcome import total_usage
from trivium.traces.readers.json_input import (
    at,
    content_of,
    first_item,
    flat,
    parse_documents,
    read_complete_lines,
    read_usage,
    seconds,
    snake,
    text,
)
from trivium.traces.trace import TURN, Message, Span, SpanUsage, Trace, TraceProblem, message_time
from trivium.values import JsonObject, amount, dict_, dicts, json_or_text, sum_known

STREAM_NAME = "stream.jsonl"
"""Name of the stream's file in a run folder; it may be empty."""

_SYNTHETIC = "<synthetic>"
"""The model of messages that no model wrote."""


def sniff(document: Any) -> bool:
    """Whether a JSON value is an event, or a list of them."""
    return is_event(first_item(document))


def opens(path: Path, head: bytes) -> bool:
    """Whether a file starts with an event; an empty one is recognised by its name."""
    line, _, rest = head.lstrip().partition(b"\n")
    if not line:
        return path.name == STREAM_NAME
    if not line.startswith(b'{"') or not (rest.strip() or b'"type"' in line):
        return False
    try:
        return is_event(msgspec.json.decode(line))
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return False


def read_file(path: Path) -> list[Trace]:
    """The sessions of a file, one trace each; an empty file is a session in which nothing happened.

    Raises:
        TraceError: If it cannot be read.
    """
    problems: list[TraceProblem] = []
    content, parse = content_of(path).rstrip(), partial(parse_documents, source=str(path))
    documents = read_complete_lines(content, parse, problems, source=str(path)) if content else []
    sessions = sessions_of(documents) or [Session("", [], [])]
    sessions[-1].problems.extend(problems)
    return [_Builder(session).trace() for session in sessions]


def read_traces(documents: Sequence[Any], _source: str) -> list[Trace]:
    """The sessions of a file's documents, one trace each."""
    return [_Builder(session).trace() for session in sessions_of(documents)]


_TYPES = frozenset({"system", "assistant", "user", "result", "stream_event", "rate_limit_event"})
"""Types of events; further types of transcripts are recognised by their own keys."""

_MARKS = ("session_id", "sessionId", "parent_tool_use_id", "isSidechain")
_OF_TRANSCRIPTS = {"summary": "leafUuid", "file-history-snapshot": "snapshot", "queue-operation": "sessionId"}
_INTERRUPTED = "[Request interrupted by user"


class ToolUse(NamedTuple):
    """A block that calls a tool."""

    id: str
    name: str
    input: Any


class ToolResult(NamedTuple):
    """A block with the result of a call; ``ok`` is None if the tool was interrupted."""

    id: str
    ok: bool | None
    content: Any
    details: JsonObject
    """Further data in the event: agent ids, statuses, counts."""
    time: float | None


class Session(NamedTuple):
    """The events of one session, in order, and a problem for everything left out."""

    id: str
    events: list[JsonObject]
    problems: list[TraceProblem]


def is_event(document: Any) -> bool:
    """Whether a JSON value is an event."""
    if not isinstance(document, dict):
        return False
    kind = document.get("type")
    if not isinstance(kind, str):
        return False
    mark = _OF_TRANSCRIPTS.get(kind)
    return mark in document if mark else kind in _TYPES and any(key in document for key in _MARKS)


def sessions_of(documents: Sequence[Any]) -> list[Session]:
    """The sessions that a file's documents hold, in order of appearance.

    An event without a session belongs to the one before it. Events that were written twice (same
    ``uuid``) count once.
    """
    sessions: dict[str, Session] = {}
    known_events: set[tuple[str, str]] = set()
    current = ""
    for event in flat(documents):
        if not isinstance(event, dict) or not isinstance(event.get("type"), str):
            session = sessions.setdefault(current, Session(current, [], []))
            session.problems.append(
                TraceProblem(kind="bad_event", what="a value that is not an event was left out")
            )
            continue
        current = text(event, "session_id", "sessionId") or current
        session = sessions.setdefault(current, Session(current, [], []))
        uuid = text(event, "uuid")
        if uuid is not None:
            if (current, uuid) in known_events:
                continue
            known_events.add((current, uuid))
        session.events.append(event)
    if len(sessions) > 1 and "" in sessions:  # lines before the first that names its session
        head = sessions.pop("")
        first = next(iter(sessions.values()))
        first.events[:0] = head.events
        first.problems[:0] = head.problems
    return list(sessions.values())


def blocks(event: JsonObject) -> list[JsonObject]:
    """The content blocks of an event's message; a text alone is one block."""
    content = dict_(event.get("message")).get("content")
    return [{"type": "text", "text": content}] if isinstance(content, str) else dicts(content)


def tool_uses(event: JsonObject) -> Iterator[ToolUse]:
    """The tool calls in an event: of local, server-side and MCP tools."""
    for block in blocks(event):
        if _type(block).endswith("tool_use"):
            yield ToolUse(text(block, "id") or "", text(block, "name") or "", block.get("input"))


def tool_results(event: JsonObject) -> Iterator[ToolResult]:
    """The tool results in an event."""
    details = event.get("tool_use_result", event.get("toolUseResult"))
    for block in blocks(event):
        if not _type(block).endswith("tool_result"):
            continue
        content = block.get("content")
        wrong = block.get("is_error") is True or _type(content).endswith("_error")
        stopped = isinstance(details, dict) and details.get("interrupted") is True
        ok = None if stopped else not wrong
        yield ToolResult(text(block, "tool_use_id") or "", ok, content, dict_(details), time_of(event))


def plain_text(event: JsonObject) -> str:
    """The texts of an event, joined."""
    parts = [block["text"] for block in blocks(event) if isinstance(block.get("text"), str)]
    return "\n".join(parts)


def time_of(event: JsonObject) -> float | None:
    """Seconds since 1970; streams have none."""
    return seconds(event.get("timestamp"))


def was_interrupted(event: JsonObject) -> bool:
    """Whether an event says that a person stopped the agent."""
    return event.get("type") == "user" and plain_text(event).startswith(_INTERRUPTED)


def usage_of(usage: Any) -> SpanUsage:
    """Tokens of a turn or a session; the input with cached ones, which Claude Code counts apart."""
    return read_usage(dict_(usage)) or SpanUsage()


def as_value(content: Any) -> Any:
    """The content of a result; one text if it consists of text blocks only."""
    if isinstance(content, list) and content and all(_type(block) == "text" for block in content):
        return "\n".join(str(block.get("text", "")) for block in content)
    return content


def decoded(value: Any) -> Any:
    """Decode a text that holds a JSON object; return any other value unchanged."""
    return json_or_text(value) if isinstance(value, str) and value.lstrip().startswith("{") else value


def _type(block: Any) -> str:
    kind = block.get("type") if isinstance(block, dict) else None
    return kind if isinstance(kind, str) else ""


LEAD = "main"
"""Name of the lead agent, which no call started; its run is the root."""

STARTS_AGENTS = frozenset({"Agent", "Task"})
"""The tools that start an agent."""

IN_BACKGROUND = frozenset({"teammate_spawned", "async_launched", "remote_launched"})
"""Statuses of the results of calls whose agent keeps working in the background."""


class _Run(msgspec.Struct, kw_only=True):
    """One agent's run while its events are collected: the fields of its span, below the call that started it.

    Attributes:
        has_started: Whether any event shows that it started.
    """

    id: str
    name: str
    parent: str | None = None
    input: Any = None
    output: Any = None
    ok: bool | None = None
    start: float | None = None
    end: float | None = None
    usage: SpanUsage | None = None
    attributes: JsonObject = {}
    has_started: bool = False

    def span(self) -> Span:
        """The run as a span."""
        fields = msgspec.structs.asdict(self)
        del fields["has_started"]
        return Span(kind="agent", agent=self.name, **fields)


class SessionAgents:
    """The agents of a session; assigns each event to a run.

    An event of a stream names the call that started its agent (``parent_tool_use_id``). An event of a
    transcript names its agent (``agentId``), as does the result of the call, or belongs to a side chain whose
    first message is the prompt of the call.
    """

    def __init__(self, events: Sequence[JsonObject]) -> None:
        chains = {text(event, "agentId") for event in events if event.get("isSidechain") is True}
        turns = [event for event in events if event.get("type") in {"user", "assistant"}]
        # In a transcript of one sub-agent only, its run is the root.
        alone = bool(turns) and len(chains) == 1 and all(event.get("isSidechain") is True for event in turns)
        self._alone = alone
        self.lead = _Run(id=LEAD, name=LEAD, has_started=True)
        if alone:
            own = next(iter(chains))
            named = text(turns[0], "agentName", "agentType")
            self.lead.name = named or (f"agent-{own}" if own else LEAD)
        self.runs: dict[str, _Run] = {LEAD: self.lead}
        self._by_agent: dict[str, str] = {}
        self._prompts: dict[str, deque[str]] = {}
        self._by_uuid: dict[str, str] = {}
        self._active_calls: set[str] = set()
        for event in events:
            self._index_event(event)
        for call in self._active_calls & self.runs.keys():
            self.runs[call].has_started = True

    def _index_event(self, event: JsonObject) -> None:
        call = text(event, "parent_tool_use_id")
        if call is not None:
            self._active_calls.add(call)
        if event.get("type") == "assistant":
            for use in tool_uses(event):
                if use.name in STARTS_AGENTS:
                    self._start(use)
        elif event.get("type") == "user":
            for result in tool_results(event):
                agent = text(result.details, "agentId", "agent_id")
                if agent is not None and result.id in self.runs:
                    self._by_agent.setdefault(agent, result.id)
                    self._active_calls.add(result.id)
        elif text(event, "subtype") == "task_started":
            task, call = text(event, "task_id", "agent_id"), text(event, "tool_use_id")
            if task is not None and call is not None:
                self._by_agent.setdefault(task, call)
                self._active_calls.add(call)

    def _start(self, use: ToolUse) -> None:
        given = dict_(use.input)
        name = text(given, "name", "subagent_type", "agent_type") or "agent"
        prompt = given.get("prompt")
        self.runs.setdefault(use.id, _Run(id=f"agent:{use.id}", name=name, parent=use.id, input=prompt))
        if isinstance(prompt, str):
            self._prompts.setdefault(prompt.strip(), deque()).append(use.id)

    def run_of(self, event: JsonObject) -> _Run:
        """The run of an event; a run without a call is created, with a missing parent."""
        key = self._key(event)
        uuid = text(event, "uuid")
        if uuid is not None:
            self._by_uuid[uuid] = key
        run = self.runs.get(key)
        if run is None:
            run = self.runs[key] = _Run(id=f"agent:{key}", name=f"agent-{key}", parent=key)
        run.has_started = True
        return run

    def run_named(self, agent: str) -> _Run | None:
        """The run with the given agent id or call id, or None."""
        return self.runs.get(self._by_agent.get(agent, agent))

    def sub_agents(self) -> Iterable[_Run]:
        """The runs that calls started; those that never began are left out."""
        return [run for run in self.runs.values() if run is not self.lead and run.has_started]

    def _key(self, event: JsonObject) -> str:
        call = text(event, "parent_tool_use_id")
        if call is not None:
            return call
        if event.get("isSidechain") is not True or self._alone:
            return LEAD
        agent = text(event, "agentId")
        if agent is not None and agent in self._by_agent:
            return self._by_agent[agent]
        before = text(event, "parentUuid")
        if before is not None and before in self._by_uuid and self._by_uuid[before] != LEAD:
            return self._by_uuid[before]
        waiting = self._prompts.get(plain_text(event).strip()) if event.get("type") == "user" else None
        key = waiting.popleft() if waiting else (agent or "sidechain")
        if agent is not None:
            self._by_agent[agent] = key
        return key


_MESSAGE_TYPES = {"message": "data_transfer", "broadcast": "status_update"}
"""Message type of each type of SendMessage; other types are ``coordination``.

Definition: docs/definitions/traces.md#messages.
"""

_EVERYONE = frozenset({"*", "all", "team"})
_TEAMMATE_MESSAGE = re.compile(
    r'<teammate-message\s+teammate_id="([^"<>]{1,200})"[^<>]{0,500}>([^<]{0,100000})'
)


USER = "user"
"""Sender of the prompts of a session with several of them."""

_MADE = re.compile(r"\s*<(?:command|local-command|bash|teammate|task|system)-")
"""How a text of the user begins that the program wrote."""


class _Turn:
    """One turn of a model, split over events."""

    def __init__(self, id: str, model: str, run: _Run, start: float | None) -> None:  # noqa: A002
        self.id, self.model, self.run = id, model, run
        self.start, self.end = start, start
        self.texts: list[str] = []
        self.failed = False
        self.usage = SpanUsage()
        self.output: int | None = None
        self.initial_output: int | None = None

    def add(self, event: JsonObject) -> None:
        message = dict_(event.get("message"))
        usage = usage_of(message.get("usage"))
        if usage.input_tokens is not None:
            self.usage = usage
        if usage.output_tokens is not None:
            self.initial_output = max(usage.output_tokens, self.initial_output or 0)
            if message.get("stop_reason") is not None:
                self.output = usage.output_tokens
        self.end = time_of(event) or self.end
        self.failed = self.failed or event.get("isApiErrorMessage") is True
        event_text = plain_text(event)
        if event_text:
            self.texts.append(event_text)

    def span(self) -> Span:
        usage = msgspec.structs.replace(self.usage, output_tokens=self.output)
        initial_output = self.initial_output if self.output is None else None
        return Span(
            id=self.id,
            kind="llm",
            name=self.model,
            parent=self.run.id,
            agent=self.run.name,
            start=self.start,
            end=self.end,
            ok=not self.failed,
            output="\n".join(self.texts) or None,
            usage=None if usage == SpanUsage() else usage,
            attributes={} if initial_output is None else {"output_tokens_at_start": initial_output},
        )


_COUNTS = ("totalTokens", "totalDurationMs")
"""Keys of a result of an agent that its run keeps as attributes."""


def _is_answer(span: Span) -> bool:
    """Whether a span is a request in which the lead said something."""
    return span.kind == "llm" and span.parent == LEAD and bool(span.output)


class _Builder:
    """Builds the trace of one session."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._problems = list(session.problems)
        self._agents = SessionAgents(session.events)
        self._said: list[Message] = []
        self._callers: dict[str, _Run] = {}
        self._results: dict[str, deque[ToolResult]] = {}
        for event in session.events:
            if event.get("type") in {"user", "assistant"}:
                for result in tool_results(event):
                    self._results.setdefault(result.id, deque()).append(result)
        self._rows: list[_Turn | Span] = []
        self._turns: dict[tuple[str, str], _Turn] = {}
        self._streaming: dict[str, str] = {}
        self._latest: dict[str, float | None] = {}
        self._open = 0
        self._prompts: list[tuple[int, str, float | None]] = []
        """Number of rows before each prompt of the user, the prompt, and its time."""

    def trace(self) -> Trace:
        for event in self._session.events:
            kind = event.get("type")
            if kind in {"assistant", "user"}:
                run = self._agents.run_of(event)
                (self._assistant if kind == "assistant" else self._user)(event, run)
                self._update_times(event, run)
            elif kind == "stream_event":
                self._delta(event)
            elif text(event, "subtype") in {"task_notification", "task_updated"}:
                self._notified(event)
        orphans = [result for waiting in self._results.values() for result in waiting]
        for result in orphans[:1]:
            what = f"{len(orphans):,} results have no call, the first is of {result.id!r}; they are left out"
            self._problems.append(TraceProblem(kind="orphan_result", what=what))
        parts = Counter(kind for event in self._session.events for kind in unread_kinds(blocks(event)))
        self._problems += unread_problems(parts)
        metadata = totals_of(self._session.events, self._agents.lead, unanswered=self._open)
        spans = [self._agents.lead.span()] if self._session.events else []
        spans += [run.span() for run in self._agents.sub_agents()]
        rows = [row.span() if isinstance(row, _Turn) else row for row in self._rows]
        messages = self._said
        if len(self._prompts) > 1:
            rows = self._with_turns(rows)
            messages = sorted(self._said, key=message_time)
            metadata = {**metadata, "people": [USER], "turns": len(self._prompts)}
        return normalise(
            spans + rows,
            messages,
            trace_id=self._session.id,
            problems=self._problems,
            metadata=metadata,
        )

    def _with_turns(self, rows: list[Span]) -> list[Span]:
        """Number the turns of a session with several prompts, and add what was said to its messages."""
        numbered = list(rows)
        ends = [*(place for place, _, _ in self._prompts[1:]), len(rows)]
        for number, ((begin, prompt, time), end) in enumerate(zip(self._prompts, ends, strict=True), 1):
            numbered[begin:end] = [
                msgspec.structs.replace(span, attributes=span.attributes | {TURN: number})
                for span in rows[begin:end]
            ]
            lead, answers = self._agents.lead.name, [span for span in rows[begin:end] if _is_answer(span)]
            self._add(USER, lead, "task_request", time, prompt)
            for last in answers[-1:]:
                self._add(lead, USER, "result_delivery", last.end, last.output)
        return numbered

    def _update_times(self, event: JsonObject, run: _Run) -> None:
        time = time_of(event)
        if time is None:
            return
        self._latest[run.id] = time
        run.start = time if run.start is None else min(run.start, time)
        if run is self._agents.lead:
            run.end = time if run.end is None else max(run.end, time)

    def _assistant(self, event: JsonObject, run: _Run) -> None:
        message = dict_(event.get("message"))
        model = text(message, "model") or "assistant"
        if model != _SYNTHETIC or event.get("isApiErrorMessage") is True:
            id_ = text(message, "id") or f"turn-{len(self._rows)}"
            turn = self._turns.get((run.id, id_))
            if turn is None:
                start = self._latest.get(run.id) or time_of(event)
                turn = self._turns[run.id, id_] = _Turn(id_, model, run, start)
                self._rows.append(turn)
            turn.add(event)
        for use in tool_uses(event):
            self._call(use, run, time_of(event))

    def _call(self, use: ToolUse, run: _Run, time: float | None) -> None:
        waiting = self._results.get(use.id)
        result = waiting.popleft() if waiting else None
        span = Span(
            id=use.id or f"call-{len(self._rows)}",
            kind="tool",
            name=use.name,
            parent=run.id,
            agent=run.name,
            start=time,
            end=None if result is None else result.time,
            ok=None if result is None else result.ok,
            input=use.input,
            output=None if result is None else as_value(result.content),
        )
        self._rows.append(span)
        if span.ok is None and span.end is None:
            self._open += run is self._agents.lead
            if time is None:  # with times, normalisation reports it
                self._problems.append(TraceProblem(kind="unfinished", span=span.id, what="it has no result"))
        failed = result is not None and (result.ok is False or result.details.get("success") is False)
        if use.name in STARTS_AGENTS:
            self._started(self._agents.runs[use.id], run, result, time)
        elif use.name == "SendMessage" and not failed:
            self._sent(dict_(use.input), run, time)

    def _started(self, run: _Run, caller: _Run, result: ToolResult | None, time: float | None) -> None:
        """Note the run that a call started, and the messages of the call."""
        run.start = time if run.start is None else run.start
        background = result is not None and text(result.details, "status") in IN_BACKGROUND
        if background:
            run.has_started = True
        elif result is not None:
            run.has_started = run.has_started or result.ok is True
            run.ok, run.end, run.output = result.ok, result.time, as_value(result.content)
            counted = {key: result.details[key] for key in _COUNTS if key in result.details}
            run.attributes = run.attributes | counted
        if result is not None and result.ok is False and not run.has_started:
            return
        self._callers[run.id] = caller
        self._add(caller.name, run.name, "task_request", time, run.input)
        if result is not None and result.ok and not background:
            self._add(run.name, caller.name, "result_delivery", result.time, run.output)

    def _sent(self, given: JsonObject, run: _Run, time: float | None) -> None:
        """Add a message that an agent sent to another one, or to all."""
        content = decoded(given.get("content", given.get("message")))
        kind = text(given, "type") or text(dict_(content), "type") or "message"
        receiver = text(given, "recipient", "to")
        everyone = receiver in _EVERYONE or (receiver is None and kind == "broadcast")
        names = [each.name for each in self._agents.sub_agents()] if everyone else [receiver]
        if everyone and kind == "message":
            kind = "broadcast"
        for name in dict.fromkeys(names):
            if name is not None and name != run.name:
                self._add(run.name, name, _MESSAGE_TYPES.get(kind, "coordination"), time, content)

    def _add(self, sender: str, receiver: str, type: str, time: float | None, content: Any) -> None:  # noqa: A002
        self._said.append(Message(sender=sender, receiver=receiver, type=type, time=time, content=content))

    def _user(self, event: JsonObject, run: _Run) -> None:
        if was_interrupted(event):
            self._problems.append(TraceProblem(kind="interrupted", span=run.id, what="a person stopped it"))
        event_text = plain_text(event)
        plain = event_text and not event.get("isMeta") and not event.get("isCompactSummary")
        if plain and run.input is None:
            run.input = event_text
        if plain and run is self._agents.lead and not was_interrupted(event) and not _MADE.match(event_text):
            self._prompts.append((len(self._rows), event_text, time_of(event)))
        for sender, body in _TEAMMATE_MESSAGE.findall(event_text):
            content = decoded(body.strip())
            kind = "coordination" if isinstance(content, dict) and "type" in content else "data_transfer"
            if sender != run.name:
                self._add(sender, run.name, kind, time_of(event), content)

    def _delta(self, event: JsonObject) -> None:
        """Read the token count at the end of a turn; only streams with partial messages have it."""
        inner = dict_(event.get("event"))
        owner = text(event, "parent_tool_use_id") or LEAD
        if inner.get("type") == "message_start":
            self._streaming[owner] = text(dict_(inner.get("message")), "id") or ""
        elif inner.get("type") == "message_delta":
            run = self._agents.runs.get(owner)
            turn = self._turns.get((run.id, self._streaming.get(owner, ""))) if run is not None else None
            outputs = usage_of(inner.get("usage")).output_tokens
            if turn is not None and outputs is not None:
                turn.output = outputs

    def _notified(self, event: JsonObject) -> None:
        run = self._agents.run_named(text(event, "tool_use_id") or text(event, "task_id", "agent_id") or "")
        status = text(event, "status")
        if run is not None and run is not self._agents.lead and status in {"completed", "failed", "stopped"}:
            run.has_started, run.end = True, time_of(event)
            run.ok = {"completed": True, "failed": False}.get(status)
            caller = self._callers.get(run.id)
            if caller is not None and run.ok:
                self._add(run.name, caller.name, "result_delivery", run.end, text(event, "summary"))


def totals_of(events: Sequence[JsonObject], lead: _Run, *, unanswered: int) -> JsonObject:
    """The metadata of a trace; also sets how the lead's run ended, and its tokens.

    A session may have several ``result`` events: durations and the lead's tokens are summed; costs and tokens
    by model are cumulative, so the last ones count.

    Args:
        events: All events of the session.
        lead: The lead's run; sets its ``ok``, ``usage``, ``output`` and, if it did not end, ``end``.
        unanswered: Number of the lead's calls without a result.
    """
    ends = [event for event in events if event.get("type") == "result"]
    first = next((event for event in events if text(event, "subtype") == "init"), {})
    milliseconds = sum_known(amount(event.get("duration_ms")) for event in ends)
    metadata = {
        "model": text(first, "model"),
        "version": text(first, "claude_code_version") or _first_text(events, "version"),
        "compactions": sum(text(event, "subtype") == "compact_boundary" for event in events) or None,
        "results": len(ends) or None,
        "seconds": None if milliseconds is None else milliseconds / 1000,
        "usage": _usage(ends),
    }
    usage = total_usage(usage_of(event.get("usage")) for event in ends)
    lead.usage = None if usage == SpanUsage() else usage
    if ends:
        lead.ok = not _failed(ends[-1])
        lead.output = next((event["result"] for event in reversed(ends) if "result" in event), None)
    else:
        lead.ok = _completed(events, unanswered)
        if lead.ok is None:
            lead.end = None
    return {key: value for key, value in metadata.items() if value is not None}


def _completed(events: Sequence[JsonObject], unanswered: int) -> bool | None:
    """True if the last turn in a transcript ended the lead's run; a stream has a result event instead."""
    turns = [
        event
        for event in events
        if event.get("type") in {"user", "assistant"} and not event.get("parent_tool_use_id")
    ]
    own = [event for event in turns if event.get("isSidechain") is not True] or turns
    if not own or own[-1].get("type") != "assistant" or unanswered:
        return None
    stop = at(own[-1], "message", "stop_reason")
    return True if stop in ("end_turn", "stop_sequence") else None


def _failed(event: JsonObject) -> bool:
    return event.get("is_error") is True or (text(event, "subtype") or "").startswith("error")


def _first_text(events: Sequence[JsonObject], key: str) -> str | None:
    return next((value for event in events if (value := text(event, key)) is not None), None)


def _usage(ends: Sequence[JsonObject]) -> JsonObject | None:
    """Tokens and cost of the whole session, including sub-agents and teammates."""
    by_model = next((models for event in reversed(ends) if (models := dict_(event.get("modelUsage")))), {})
    total = total_usage(usage_of(snake(dict_(model))) for model in by_model.values())
    costs = [cost for event in ends if (cost := amount(event.get("total_cost_usd"))) is not None]
    stated = SpanUsage(
        input_tokens=total.input_tokens,
        output_tokens=total.output_tokens,
        cost_usd=costs[-1] if costs else None,
    )
    return dict_(msgspec.to_builtins(stated)) or None
