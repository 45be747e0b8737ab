"""Parses the events of Claude Code, from a stream or transcript, and groups them by session."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from trivium.errors import TraceError
from trivium.traces.readers.json_input import parse_documents, seconds, text
from trivium.traces.trace import SpanUsage, TraceProblem
from trivium.values import count, dict_, dicts, json_or_text, sum_known

TYPES = frozenset({"system", "assistant", "user", "result", "stream_event", "rate_limit_event"})
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
    details: dict[str, Any]
    """Further data in the event: agent ids, statuses, counts."""
    time: float | None


class Session(NamedTuple):
    """The events of one session, in order, and a problem for everything left out."""

    id: str
    events: list[dict[str, Any]]
    problems: list[TraceProblem]


def is_event(document: Any) -> bool:
    """Whether a JSON value is an event."""
    if not isinstance(document, dict):
        return False
    kind = document.get("type")
    if not isinstance(kind, str):
        return False
    mark = _OF_TRANSCRIPTS.get(kind)
    return mark in document if mark else kind in TYPES and any(key in document for key in _MARKS)


def parse_lines(content: bytes, *, source: str) -> tuple[list[Any], list[TraceProblem]]:
    """The events of a file, one per line or in one list. A truncated last line is left out.

    Raises:
        TraceError: If any other line is not JSON.
    """
    try:
        return ([] if not content.strip() else parse_documents(content, source=source)), []
    except TraceError:
        complete, _, last = content.rstrip().rpartition(b"\n")
        if not complete.strip() or not last.lstrip().startswith(b"{"):
            raise
    documents = parse_documents(complete, source=source)
    if not is_event(documents[-1]):
        raise TraceError(source, "its last line is not valid JSON")
    what = f"line {content.rstrip().count(bytes([10])) + 1} was cut short and is left out"
    return documents, [TraceProblem(kind="truncated", what=what)]


def sessions_of(documents: Sequence[Any]) -> list[Session]:
    """The sessions that a file's documents hold, in order of appearance.

    An event without a session belongs to the one before it. Events that were written twice (same
    ``uuid``) count once.
    """
    sessions: dict[str, Session] = {}
    known_events: set[tuple[str, str]] = set()
    current = ""
    for event in _flat(documents):
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


def _flat(documents: Sequence[Any]) -> Iterator[Any]:
    for document in documents:
        if isinstance(document, list):
            yield from document
        else:
            yield document


def blocks(event: dict[str, Any]) -> list[dict[str, Any]]:
    """The content blocks of an event's message; a text alone is one block."""
    content = dict_(event.get("message")).get("content")
    return [{"type": "text", "text": content}] if isinstance(content, str) else dicts(content)


def tool_uses(event: dict[str, Any]) -> Iterator[ToolUse]:
    """The tool calls in an event: of local, server-side and MCP tools."""
    for block in blocks(event):
        if _type(block).endswith("tool_use"):
            yield ToolUse(text(block, "id") or "", text(block, "name") or "", block.get("input"))


def tool_results(event: dict[str, Any]) -> Iterator[ToolResult]:
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


def plain_text(event: dict[str, Any]) -> str:
    """The texts of an event, joined."""
    parts = [block["text"] for block in blocks(event) if isinstance(block.get("text"), str)]
    return "\n".join(parts)


def time_of(event: dict[str, Any]) -> float | None:
    """Seconds since 1970; streams have none."""
    return seconds(event.get("timestamp"))


def was_interrupted(event: dict[str, Any]) -> bool:
    """Whether an event says that a person stopped the agent."""
    return event.get("type") == "user" and plain_text(event).startswith(_INTERRUPTED)


def usage_of(usage: Any) -> SpanUsage:
    """Tokens of a turn or a session; the input with cached ones, which Claude Code counts apart."""
    usage = dict_(usage)
    read = count(usage.get("cache_read_input_tokens"))
    written = count(usage.get("cache_creation_input_tokens"))
    return SpanUsage(
        input_tokens=sum_known((count(usage.get("input_tokens")), written, read)),
        output_tokens=count(usage.get("output_tokens")),
        cache_read_tokens=read,
        cache_write_tokens=written,
    )


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
