"""Converts rows of AgentNeo to spans, and matches failed calls with the agents that made them.

A call that raises leaves an error row with empty ids and with the call's name in front of the message; the
JSON log has neither ids nor agents. But every failure is also printed, and the printed lines name the agent.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from trivium.traces.normalize import normalise
from trivium.traces.readers.json_input import decoded, dollars, moment, read_usage, text
from trivium.traces.readers.span_records import Record
from trivium.traces.trace import Span, SpanKind, SpanUsage, Trace, TraceProblem
from trivium.values import amount, dict_, sum_known


class Failure(NamedTuple):
    """One row of the errors table.

    Attributes:
        kind: What raised: agent, tool or llm.
        name: Name of the agent, tool or model.
        message: The error message.
        time: Unix time of the error, or None.
        agent: Id of the agent that raised or made the call, or None.
        call: Id of the call, in versions that store it.
    """

    kind: str
    name: str
    message: str
    time: float | None
    agent: str | None
    call: str | None


class AgentFailures:
    """Matches failures of agents with agent rows: by id, else by name if the row has no end."""

    def __init__(self, failures: list[Failure]) -> None:
        self._unmatched = dict(enumerate(failure for failure in failures if failure.kind == "agent"))
        self._by_id: dict[str, list[int]] = defaultdict(list)
        self._by_name: dict[str, list[int]] = defaultdict(list)
        for position, failure in reversed(self._unmatched.items()):
            if failure.agent is not None:
                self._by_id[failure.agent].append(position)
            else:
                self._by_name[failure.name].append(position)

    def take(self, id_: str | None, name: str | None, start: float | None, *, ended: bool) -> Failure | None:
        """Remove and return the failure that matches an agent's row, or None."""
        positions = self._by_id.get(id_ or "")
        if not positions and not ended:
            positions = self._by_name.get(name or "")
            time = self._unmatched[positions[-1]].time if positions else None
            if time is not None and start is not None and time < start:
                return None
        return self._unmatched.pop(positions.pop()) if positions else None

    def unmatched(self) -> list[Failure]:
        """The failures that match no row."""
        return list(self._unmatched.values())


def failures_of(errors: list[Record], printed: list[Record], names: set[str]) -> list[Failure]:
    """The failures of a trace, in the order of their rows.

    Args:
        errors: Rows of the errors table.
        printed: Printed lines, with the ids of their agents.
        names: Names of tools and models: like messages, they may contain a colon.
    """
    agents = _printed_by(printed)
    failures = []
    for row in errors:
        kind = (text(row, "error_type", "type") or "").lower()
        name, message = _name_and_message(row, names)
        time = moment(row.get("timestamp"))
        agent = text(row, "agent_id") or _nearest(agents.get((kind, name, message), []), time)
        call = text(row, f"{kind}_call_id") if kind in {"tool", "llm"} else None
        failures.append(Failure(kind, name, message, time, agent, call))
    return failures


def _name_and_message(row: Record, names: set[str]) -> tuple[str, str]:
    message = text(row, "error_message", "message") or ""
    name = text(row, "name")
    if name is not None:
        return name, message
    before = [message[:position] for position in _colons(message)]
    known = [part for part in before if part in names]
    name = known[-1] if known else before[0] if before else "unknown"
    return name, message[len(name) + 2 :] if before else message


def _colons(message: str) -> list[int]:
    """Indices of the first few ": " in a message."""
    positions: list[int] = []
    position = message.find(": ")
    while position >= 0 and len(positions) < 8:
        positions.append(position)
        position = message.find(": ", position + 1)
    return positions


_Printed = dict[tuple[str, str, str], list[tuple[float, str]]]


def _printed_by(rows: list[Record]) -> _Printed:
    """Times and agents of the printed lines "Error in KIND 'NAME': MESSAGE", by kind, name and message."""
    printed: _Printed = defaultdict(list)
    for row in rows:
        content, agent = text(row, "content") or "", text(row, "agent_id")
        rest = content.removeprefix("Error in ")
        kind, quote, rest = rest.partition(" '")
        name, colon, message = rest.partition("': ")
        if agent is not None and content.startswith("Error in ") and quote and colon:
            printed[kind, name, message].append((moment(row.get("timestamp")) or 0.0, agent))
    for lines in printed.values():
        lines.sort()
    return printed


def _nearest(lines: list[tuple[float, str]], time: float | None) -> str | None:
    """The agent of the first line printed at or after a time, or of the last one."""
    if not lines:
        return None
    position = bisect_left(lines, (time or 0.0, ""))
    return lines[min(position, len(lines) - 1)][1]


_RAISED = "error-"
CLOCK = "local time, its zone not stored"


@dataclass
class Tables:
    """The rows of one trace, by table."""

    trace: Record
    project: str | None = None
    agent_call: list[Record] = field(default_factory=list)
    tool_call: list[Record] = field(default_factory=list)
    llm_call: list[Record] = field(default_factory=list)
    errors: list[Record] = field(default_factory=list)
    metrics: list[Record] = field(default_factory=list)
    user_interactions: list[Record] = field(default_factory=list)


def agentneo_trace(name: str, tables: Tables, problems: tuple[TraceProblem, ...] = ()) -> Trace:
    """Build a trace from its rows.

    Args:
        name: Id of the trace.
        tables: Its rows.
        problems: Problems found before.
    """
    failures = failures_of(tables.errors, tables.user_interactions, _tool_names(tables))
    listed = _agents_by_listed_call(tables)
    failed = {(failure.kind, failure.call) for failure in failures}
    calls = [_call("tool", position, row, listed, failed) for position, row in enumerate(tables.tool_call)]
    calls += [_call("llm", position, row, listed, failed) for position, row in enumerate(tables.llm_call)]
    raised = [failure for failure in failures if failure.kind in {"tool", "llm"} and failure.call is None]
    calls += [_failed_call(position, failure) for position, failure in enumerate(raised)]
    still_open = "start_time" in tables.trace and not tables.trace.get("end_time")
    agents, calls = _nested(_agents(tables, failures), calls, still_open=still_open)
    stored = {"project": tables.project, "start_time": tables.trace.get("start_time"), "clock": CLOCK}
    scores = [{key: value for key, value in row.items() if key != "trace_id"} for row in tables.metrics]
    return normalise(
        [*sorted(agents, key=_sort_time), *sorted(calls, key=_sort_time)],
        trace_id=name,
        problems=problems,
        metadata={key: value for key, value in (stored | {"metrics": scores}).items() if value},
    )


def _tool_names(tables: Tables) -> set[str]:
    return {name for row in (*tables.tool_call, *tables.llm_call) if (name := text(row, "name")) is not None}


def _sort_time(span: Span) -> float:
    """Sort key of spans: start, else end (calls that raised have no start)."""
    time = span.start if span.start is not None else span.end
    return float("inf") if time is None else time


def _agents(tables: Tables, failures: list[Failure]) -> list[Span]:
    raised = AgentFailures(failures)
    spans = []
    for row in tables.agent_call:
        start, end = moment(row.get("start_time")), moment(row.get("end_time"))
        own = raised.take(text(row, "id"), text(row, "name"), start, ended=end is not None)
        spans.append(_agent(text(row, "id"), text(row, "name") or "agent", start, end, own))
    # The log leaves out agents that raised.
    return spans + [
        _agent(unmatched.agent, unmatched.name, None, None, unmatched) for unmatched in raised.unmatched()
    ]


def _agent(
    id_: str | None, name: str, start: float | None, end: float | None, failure: Failure | None
) -> Span:
    return Span(
        id=f"agent-{id_ or name}",
        kind="agent",
        name=name,
        agent=name,
        start=start,
        end=failure.time if end is None and failure is not None else end,
        ok=False if failure is not None else None if end is None else True,
        attributes={"error": failure.message} if failure is not None else {},
    )


def _nested(agents: list[Span], calls: list[Span], *, still_open: bool) -> tuple[list[Span], list[Span]]:
    """Place each agent's run, and each failed call without an agent, below the shortest enclosing run.

    A run without an end encloses nothing, unless the whole trace has no end: then it was still open. Other
    calls without an agent were made outside any agent.
    """
    spans = [*agents, *calls]
    ends = [float("inf") if span.end is None and still_open else span.end for span in agents]
    whole = [
        position
        for position, span in enumerate(agents)
        if span.start is not None and ends[position] is not None
    ]
    times = [_interval(agents[position].start, ends[position]) for position in whole]
    points = [position for position, span in enumerate(agents) if span.start is None and span.end is not None]
    points += [position for position, span in enumerate(spans) if _is_unowned_failure(span)]
    ended = [spans[position].end or 0.0 for position in points]
    for position, around in zip([*whole, *points], shortest_enclosing(times, ended), strict=True):
        if around is not None:
            spans[position] = msgspec.structs.replace(spans[position], parent=agents[whole[around]].id)
    return spans[: len(agents)], spans[len(agents) :]


def _interval(start: float | None, end: float | None) -> tuple[float, float]:
    """An interval; it has length 0 if local time went backwards during it."""
    start = start or 0.0
    return start, max(start, end or 0.0)


def _is_unowned_failure(span: Span) -> bool:
    """Whether a span is a failed call without an agent."""
    return span.id.startswith(_RAISED) and span.parent is None and span.end is not None


def _agents_by_listed_call(tables: Tables) -> dict[tuple[SpanKind, str], str]:
    """The agent that lists each call, for files in which calls do not name their agent.

    If some calls name an agent, one that does not was made outside any agent.
    """
    if any(text(row, "agent_id") for row in (*tables.tool_call, *tables.llm_call)):
        return {}
    kinds: tuple[tuple[SpanKind, str], ...] = (("llm", "llm_call_ids"), ("tool", "tool_call_ids"))
    agents: dict[tuple[SpanKind, str], str] = {}
    for row in tables.agent_call:
        agent = text(row, "id")
        for kind, column in kinds:
            ids = decoded(row.get(column))
            for number in ids if isinstance(ids, list) and agent is not None else ():
                if isinstance(number, int | str):
                    agents.setdefault((kind, str(number)), agent or "")
    return agents


def _call(
    kind: SpanKind,
    position: int,
    row: Record,
    listed: dict[tuple[SpanKind, str], str],
    failed: set[tuple[str, str | None]],
) -> Span:
    number = text(row, "id")
    agent = text(row, "agent_id") or listed.get((kind, number or ""))
    start, end, duration = _times(row)
    attributes: dict[str, Any] = {} if duration is None else {"duration": duration}
    if kind == "llm" and row.get("name"):
        attributes["name"] = row["name"]
    for key in ("network_calls", "tool_call", "description"):
        value = decoded(row.get(key))
        if value:
            attributes[key] = value
    return Span(
        id=f"{kind}-{number or f'at-{position}'}",
        kind=kind,
        name=(text(row, "model") if kind == "llm" else None) or text(row, "name") or kind,
        parent=None if agent is None else f"agent-{agent}",
        start=start,
        end=end,
        ok=False if number is not None and (kind, number) in failed else None if end is None else True,
        input=decoded(row.get("input_parameters" if kind == "tool" else "input_prompt")),
        output=row.get("output"),
        usage=_usage(row) if kind == "llm" else None,
        attributes=attributes,
    )


def _times(row: Record) -> tuple[float | None, float | None, float | None]:
    """Start, end and duration; if local time went backwards, the end is start + duration."""
    start, end = moment(row.get("start_time")), moment(row.get("end_time"))
    duration = amount(row.get("duration"))
    if duration is None:
        return start, end, None
    if start is not None and (end is None or end < start):
        end = start + duration
    return start, end, duration


def _usage(row: Record) -> SpanUsage | None:
    tokens, cost = dict_(decoded(row.get("token_usage"))), decoded(row.get("cost"))
    parts = dict_(cost) or {"total": cost}
    total = dollars(parts.get("total")) or sum_known(dollars(part) for part in parts.values())
    keys = ("input", "prompt_tokens"), ("completion", "completion_tokens", "output")
    return read_usage(tokens, *keys, cost=total)


def _failed_call(position: int, failure: Failure) -> Span:
    """Make the span of a call that raised: only its name, agent and time of failure are stored."""
    return Span(
        id=f"{_RAISED}{position}",
        kind="llm" if failure.kind == "llm" else "tool",
        name=failure.name,
        parent=None if failure.agent is None else f"agent-{failure.agent}",
        end=failure.time,
        ok=False,
        attributes={"error": failure.message},
    )


Interval = tuple[float, float]


def shortest_enclosing(intervals: Sequence[Interval], points: Sequence[float] = ()) -> list[int | None]:
    """Index of the shortest other interval around each interval, then around each point, or None.

    Of two equal intervals, the one listed first encloses the other. Takes O(n log n): intervals are entered
    by start into a Fenwick tree over their ends, which returns the shortest of those that end no sooner.

    Args:
        intervals: Start and end of each, ``start <= end``; an end may be infinite.
        points: Further times, which enclose nothing.
    """
    queries = [*intervals, *((point, point) for point in points)]
    ends = sorted({end for _, end in queries}, reverse=True)
    rank = {end: index + 1 for index, end in enumerate(ends)}  # 1: the latest end
    none = (float("inf"), float("inf"), 1)
    tree = [none] * (len(ends) + 1)  # Fenwick tree: minimum over the ranks up to an index
    result: list[int | None] = [None] * len(queries)
    for index in sorted(range(len(queries)), key=lambda at: (queries[at][0], -queries[at][1], at)):
        start, end = queries[index]
        best, position = none, rank[end]
        while position:
            best = min(best, tree[position])
            position &= position - 1
        result[index] = None if best is none else -best[2]
        if index >= len(intervals):
            continue
        entry = (end - start, -start, -index)
        position = rank[end]
        while position < len(tree):
            tree[position] = min(tree[position], entry)
            position += position & -position
    return result
