"""Builds a trace from the events of a Claude Code session.

One turn of the model is split over several events with the same ``message.id``, one block each; they become
one llm span. Their output tokens are the count at the start of the turn, unless a ``stop_reason`` (or the
event ``message_delta``) accompanies them: only then are they used. The counts of a ``result`` event go to
the lead's span and to ``metadata``.
"""

from collections import Counter, deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from trivium.traces.conversation import unread_kinds, unread_problems
from trivium.traces.normalize import normalise
from trivium.traces.outcome import total_usage
from trivium.traces.readers.claude_code.agents import (
    IN_BACKGROUND,
    LEAD,
    STARTS_AGENTS,
    Messages,
    Run,
    SessionAgents,
)
from trivium.traces.readers.claude_code.events import (
    Session,
    ToolResult,
    ToolUse,
    as_value,
    blocks,
    is_event,
    parse_lines,
    plain_text,
    sessions_of,
    time_of,
    tool_results,
    tool_uses,
    usage_of,
    was_interrupted,
)
from trivium.traces.readers.json_input import content_of, text
from trivium.traces.trace import Span, SpanUsage, Trace, TraceProblem
from trivium.values import amount, count, dict_, sum_known

STREAM_NAME = "stream.jsonl"
"""Name of the stream's file in a run folder; it may be empty."""

_SYNTHETIC = "<synthetic>"
"""The model of messages that no model wrote."""


def sniff(document: Any) -> bool:
    """Whether a JSON value is an event, or a list of them."""
    if isinstance(document, list):
        return bool(document) and is_event(document[0])
    return is_event(document)


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
    documents, problems = parse_lines(content_of(path), source=str(path))
    sessions = sessions_of(documents) or [Session("", [], [])]
    sessions[-1].problems.extend(problems)
    return [_Builder(session).trace() for session in sessions]


def read_traces(documents: Sequence[Any], source: str) -> list[Trace]:  # noqa: ARG001 - signature of readers
    """The sessions of a file's documents, one trace each."""
    return [_Builder(session).trace() for session in sessions_of(documents)]


class _Turn:
    """One turn of a model, split over events."""

    def __init__(self, id: str, model: str, run: Run, start: float | None) -> None:  # noqa: A002
        self.id, self.model, self.run = id, model, run
        self.start, self.end = start, start
        self.texts: list[str] = []
        self.failed = False
        self.usage = SpanUsage()
        self.output: int | None = None
        self.initial_output: int | None = None

    def add(self, event: dict[str, Any]) -> None:
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


class _Builder:
    """Builds the trace of one session."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._problems = list(session.problems)
        self._agents = SessionAgents(session.events)
        self._messages = Messages(self._agents)
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
        spans = [self._lead_span(metadata)] if self._session.events else []
        spans += [run.span() for run in self._agents.sub_agents()]
        spans += [row.span() if isinstance(row, _Turn) else row for row in self._rows]
        return normalise(
            spans,
            self._messages.all(),
            trace_id=self._session.id,
            problems=self._problems,
            metadata=metadata,
        )

    def _lead_span(self, metadata: dict[str, Any]) -> Span:
        usage = metadata.pop("lead_usage", None)
        return msgspec.structs.replace(self._agents.lead.span(), usage=usage)

    def _update_times(self, event: dict[str, Any], run: Run) -> None:
        time = time_of(event)
        if time is None:
            return
        self._latest[run.id] = time
        run.start = time if run.start is None else min(run.start, time)
        if run is self._agents.lead:
            run.end = time if run.end is None else max(run.end, time)

    def _assistant(self, event: dict[str, Any], run: Run) -> None:
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

    def _call(self, use: ToolUse, run: Run, time: float | None) -> None:
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
        if use.name in STARTS_AGENTS:
            self._started(self._agents.runs[use.id], result, time)
        self._messages.called(use, run, result, time)

    def _started(self, run: Run, result: ToolResult | None, time: float | None) -> None:
        run.start = time if run.start is None else run.start
        if result is None:
            return
        if text(result.details, "status") in IN_BACKGROUND:
            run.has_started = True
            return
        run.has_started = run.has_started or result.ok is True
        run.ok, run.end, run.output = result.ok, result.time, as_value(result.content)
        counted = {
            key: result.details[key] for key in ("totalTokens", "totalDurationMs") if key in result.details
        }
        run.attributes = (run.attributes or {}) | counted

    def _user(self, event: dict[str, Any], run: Run) -> None:
        if was_interrupted(event):
            self._problems.append(TraceProblem(kind="interrupted", span=run.id, what="a person stopped it"))
        event_text = plain_text(event)
        plain = event_text and not event.get("isMeta") and not event.get("isCompactSummary")
        if plain and run.input is None:
            run.input = event_text
        self._messages.received(event_text, run, time_of(event))

    def _delta(self, event: dict[str, Any]) -> None:
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

    def _notified(self, event: dict[str, Any]) -> None:
        run = self._agents.run_named(text(event, "tool_use_id") or text(event, "task_id", "agent_id") or "")
        status = text(event, "status")
        if run is not None and run is not self._agents.lead and status in {"completed", "failed", "stopped"}:
            run.has_started, run.ok, run.end = (
                True,
                {"completed": True, "failed": False}.get(status),
                time_of(event),
            )
            self._messages.ended(run, text(event, "summary"))


def totals_of(events: Sequence[dict[str, Any]], lead: Run, *, unanswered: int) -> dict[str, Any]:
    """The metadata of a trace; also sets how the lead's run ended.

    A session may have several ``result`` events: durations and the lead's tokens are summed; costs and tokens
    by model are cumulative, so the last ones count.

    Args:
        events: All events of the session.
        lead: The lead's run; sets its ``ok``, its ``output`` and, if it did not end, its ``end``.
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
        "lead_usage": _lead_usage(ends),
    }
    if ends:
        lead.ok = not any(_failed(event) for event in ends[-1:])
        lead.output = next((event["result"] for event in reversed(ends) if "result" in event), None)
    else:
        lead.ok = _completed(events, unanswered)
        if lead.ok is None:
            lead.end = None
    return {key: value for key, value in metadata.items() if value is not None}


def _completed(events: Sequence[dict[str, Any]], unanswered: int) -> bool | None:
    """True if the last turn in a transcript ended the lead's run; a stream has a result event instead."""
    turns = [
        event
        for event in events
        if event.get("type") in {"user", "assistant"} and not event.get("parent_tool_use_id")
    ]
    own = [event for event in turns if event.get("isSidechain") is not True] or turns
    if not own or own[-1].get("type") != "assistant" or was_interrupted(own[-1]) or unanswered:
        return None
    return (
        True if text(dict_(own[-1].get("message")), "stop_reason") in {"end_turn", "stop_sequence"} else None
    )


def _failed(event: dict[str, Any]) -> bool:
    return event.get("is_error") is True or (text(event, "subtype") or "").startswith("error")


def _first_text(events: Sequence[dict[str, Any]], key: str) -> str | None:
    return next((value for event in events if (value := text(event, key)) is not None), None)


def _lead_usage(ends: Sequence[dict[str, Any]]) -> SpanUsage | None:
    usage = total_usage(usage_of(event.get("usage")) for event in ends)
    return None if usage == SpanUsage() else usage


def _usage(ends: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    """Tokens and cost of the whole session, including sub-agents and teammates."""
    usage: dict[str, Any] = {}
    models = next(
        (usage_by_model for event in reversed(ends) if (usage_by_model := dict_(event.get("modelUsage")))), {}
    )
    for name, keys in (
        ("input_tokens", ("inputTokens", "cacheReadInputTokens", "cacheCreationInputTokens")),
        ("output_tokens", ("outputTokens",)),
    ):
        total = sum_known(count(dict_(model).get(key)) for model in models.values() for key in keys)
        if total is not None:
            usage[name] = total
    costs = [cost for event in ends if (cost := amount(event.get("total_cost_usd"))) is not None]
    if costs:
        usage["cost_usd"] = costs[-1]
    return usage or None
