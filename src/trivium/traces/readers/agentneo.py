"""Reads AgentNeo: its SQLite database, its tracer's JSON log, the JSON of its dashboard and evaluations.

Times are local without a zone: differences are right, and dates are read as UTC. Ids are unique within their
table only. Nesting is not stored: an agent's run is placed below the shortest other run that encloses it in
time.

A call that raises leaves an error row with empty ids and with the call's name in front of the message; the
JSON log has neither ids nor agents. But every failure is also printed, and the printed lines name the agent.

A database is untrusted: it is opened read-only and immutable, its schema is not trusted (views, triggers and
virtual tables are not touched), and steps, rows and bytes are bounded.
"""

import re
import sqlite3
from bisect import bisect_left
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from trivium.errors import TraceError
from trivium.storage import is_local, open_file
from trivium.traces.normalize import normalise
from trivium.traces.readers.json_input import (
    MAX_BYTES,
    content_of,
    decoded,
    documents_of,
    dollars,
    first_item,
    head_of,
    moment,
    read_usage,
    snake,
    text,
    with_problems,
)
from trivium.traces.readers.span_records import Record, unwrapped, without_foreign
from trivium.traces.trace import INCOMPLETE, Span, SpanKind, SpanUsage, Trace, TraceProblem
from trivium.values import JsonObject, amount, dict_, dicts, sum_known

MAGIC = b"SQLite format 3\0"
MOST_ROWS = 1_000_000
"""Most rows read from one table."""

MOST_STEPS = 400_000_000
"""Most steps of SQLite's virtual machine per file: some seconds; a million rows take a tenth of them."""

_STEPS_AT_ONCE = 100_000
_MOST_FIELD_BYTES = 64 * 2**20
_GZIP = b"\x1f\x8b"

_COLUMNS = {
    "agent_call": "id trace_id name start_time end_time llm_call_ids tool_call_ids",
    "tool_call": "id trace_id agent_id name input_parameters output start_time end_time duration "
    "network_calls",
    "llm_call": "id trace_id agent_id name model input_prompt output tool_call start_time end_time duration "
    "token_usage cost",
    "errors": "id trace_id agent_id tool_call_id llm_call_id error_type error_message timestamp",
    "traces": "id project_id start_time end_time duration",
    "project_info": "id project_name",
    "metrics": "id trace_id metric_name score reason",
}
"""Columns read from each table, if present."""

_REQUIRED_TABLES = ("agent_call", "tool_call", "llm_call")


def opens(_path: Path, head: bytes) -> bool:
    """Whether a file is a SQLite database."""
    return head.startswith(MAGIC)


def read_file(path: Path, *, most_rows: int = MOST_ROWS, most_steps: int = MOST_STEPS) -> list[Trace]:
    """The traces of a database (or of a JSON log), in the order of their ids.

    Args:
        path: The file, gzipped or not.
        most_rows: Most rows read from one table.
        most_steps: Most steps of SQLite's virtual machine.

    Raises:
        TraceError: If it is not AgentNeo's, is broken, or exceeds a limit.
    """
    if not opens(path, head_of(path)):
        return read_traces(documents_of(path), str(path))
    try:
        with _opened(path, most_steps) as connection:
            tables = _tables(connection, str(path), most_rows)
    except (sqlite3.Error, OverflowError, UnicodeError) as error:  # its own messages may be no UTF-8
        what = "takes too long to read" if "interrupted" in str(error) else f"cannot be read: {error}"
        raise TraceError(str(path), f"the SQLite database {what}") from error
    return with_problems(_traces(tables), _unread_changes(path))


def _unread_changes(path: Path) -> list[TraceProblem]:
    """A problem for each WAL or journal next to the database: SQLite would apply it, but it is not read."""
    beside = [path.with_name(path.name + ending) for ending in ("-wal", "-journal")]
    return [
        TraceProblem(
            kind=INCOMPLETE,
            what=f"{each.name} next to the database holds {each.stat().st_size:,} bytes of changes that are"
            " not read; end the program that writes it, or open and close it once with sqlite3",
        )
        for each in beside
        if each.is_file() and each.stat().st_size
    ]


@contextmanager
def _opened(path: Path, most_steps: int) -> Iterator[sqlite3.Connection]:
    size = path.stat().st_size
    if size > MAX_BYTES:
        raise TraceError(str(path), f"holds {size:,} bytes; at most {MAX_BYTES:,} are read")
    with open_file(path) as file:
        in_memory = not is_local(path) or file.read(len(_GZIP)) == _GZIP
    uri = ":memory:" if in_memory else f"{path.absolute().as_uri()}?mode=ro&immutable=1"
    with closing(sqlite3.connect(uri, uri=not in_memory, isolation_level=None)) as connection:
        if in_memory:
            connection.deserialize(content_of(path))
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MOST_FIELD_BYTES)
        connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
        connection.text_factory = lambda content: content.decode("utf-8", "replace")
        for pragma in ("trusted_schema = OFF", "query_only = ON", "cell_size_check = ON", "mmap_size = 0"):
            connection.execute(f"PRAGMA {pragma}")
        connection.set_authorizer(_authorize_reads_only)
        left = [most_steps // _STEPS_AT_ONCE]

        def tick() -> bool:
            left[0] -= 1
            return left[0] <= 0

        connection.set_progress_handler(tick, _STEPS_AT_ONCE)
        yield connection


def _authorize_reads_only(action: int, *_: str | None) -> int:
    allowed = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_PRAGMA}
    return sqlite3.SQLITE_OK if action in allowed else sqlite3.SQLITE_DENY


def _tables(connection: sqlite3.Connection, source: str, most_rows: int) -> dict[str, list[Record]]:
    """The rows of each table, by id."""
    listed = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'")
    found = listed.fetchmany(most_rows)
    real = {name for name, sql in found if not str(sql).upper().startswith("CREATE VIRTUAL")}
    missing = [name for name in _REQUIRED_TABLES if name not in real]
    if missing:
        what = f"is a SQLite database, but none of AgentNeo's: it has no table {', '.join(missing)}"
        raise TraceError(source, what)
    tables: dict[str, list[Record]] = {name: [] for name in _COLUMNS}
    size = 0
    for table in filter(real.__contains__, _COLUMNS):
        # table_info leaves out generated columns, whose expressions the file could choose.
        existing = {row[1] for row in connection.execute(f"PRAGMA table_info({table})")}
        columns = [column for column in _COLUMNS[table].split() if column in existing]
        query = f"SELECT {', '.join(columns)} FROM {table}"  # noqa: S608 - our own names
        for row in connection.execute(query) if columns else ():
            size += sum(len(value) for value in row if isinstance(value, str | bytes))
            if len(tables[table]) >= most_rows or size > MAX_BYTES:
                limit = f"({most_rows:,} rows, {MAX_BYTES:,} bytes in all)"
                raise TraceError(source, f"table {table} exceeds the limit {limit}")
            tables[table].append(dict(zip(columns, map(_value, row), strict=True)))
        tables[table].sort(key=_row_order)
    return tables


def _value(value: Any) -> Any:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _row_order(row: Record) -> float:
    number = row.get("id")
    return number if isinstance(number, int | float) else float("inf")


def _traces(tables: dict[str, list[Record]]) -> list[Trace]:
    """The traces of a database, each put together as the log of one."""
    projects = {text(row, "id"): text(row, "project_name") for row in tables["project_info"]}
    logs: dict[str, Record] = {}
    for row in tables["traces"]:
        logs[text(row, "id") or ""] = row | {"project": projects.get(text(row, "project_id"))}
    for key, table in _TABLES.items():
        for row in tables.get(table, ()):
            name = text(row, "trace_id") or ""
            logs.setdefault(name, {"id": name}).setdefault(key, []).append(row)
    return list(map(_log, logs.values()))


_LISTS = ("agent_calls", "llm_calls", "tool_calls")
_MARKS = ("project_info", "project_id", "errors", "system_info")
_FOREIGN = ("agent_interactions", "coordination_events", "execution_id")
"""Keys of Agents-eval runs, which also have tool calls and errors."""

_TABLES = {
    "agent_calls": "agent_call",
    "tool_calls": "tool_call",
    "llm_calls": "llm_call",
    "errors": "errors",
    "metrics": "metrics",
    "user_interactions": "user_interactions",
}
"""The lists of a log, and the tables that hold the same rows."""


def sniff(document: Any) -> bool:
    """Whether a JSON value is a log, a trace of the dashboard, a tree, or a list of them."""
    first = first_item(document)
    return isinstance(first, dict) and (_is_log(first) or is_tree(first))


def _is_log(document: Record) -> bool:
    if any(key in document for key in _FOREIGN):
        return False
    lists = sum(isinstance(document.get(key), list) for key in _LISTS)
    return lists == len(_LISTS) or (lists > 0 and any(key in document for key in _MARKS))


def read_traces(documents: Sequence[Any], source: str) -> list[Trace]:
    """The traces of a file, in order."""
    traces: list[Trace] = []
    foreign: list[int] = []
    for position, document in enumerate(unwrapped(documents), start=1):
        if isinstance(document, dict) and (_is_log(document) or is_tree(document)):
            traces.append(_log(document) if _is_log(document) else tree_trace(document))
        else:
            foreign.append(position)
    marked = 'an object with "agent_calls" and "tool_calls"'
    return without_foreign(traces, foreign, "log of AgentNeo", source=source, marked=marked)


Lists = dict[str, list[Record]]
"""The lists of a log."""


def _lists_of(document: Record) -> Lists:
    """The lists of a log, with the rows that the dashboard nests in an agent."""
    agents = dicts(document.get("agent_calls"))
    return {
        key: [
            *dicts(document.get(key)),
            *({"agent_id": agent.get("id")} | row for agent in agents for row in dicts(agent.get(key))),
        ]
        for key in _TABLES
    }


_KINDS: dict[str, SpanKind] = {"agent": "agent", "tool": "tool", "llm": "llm"}
"""Kinds by type; a type may also end in ``_call``."""


def is_tree(document: Record) -> bool:
    """Whether an object is the root of a tree of calls."""
    children = document.get("children")
    if not isinstance(children, list):
        return False
    types = [document.get("type"), *(child.get("type") for child in children[:5] if isinstance(child, dict))]
    return any(isinstance(each, str) and each.removesuffix("_call") in (*_KINDS, "root") for each in types)


def tree_trace(document: Record) -> Trace:
    """Build the trace of a tree of calls; does not recurse."""
    spans: list[Span] = []
    stack: list[tuple[Record, str | None]] = [(document, None)]
    while stack:
        value, parent = stack.pop()
        node = snake(value)
        if node.get("type") != "root":
            spans.append(_span(f"node-{len(spans)}", node, parent))
            parent = spans[-1].id
        children = node.get("children")
        if isinstance(children, list):
            stack += [(child, parent) for child in reversed(children) if isinstance(child, dict)]
    return normalise(spans, trace_id=text(document, "trace_id", "id") or "")


def _span(id_: str, node: Record, parent: str | None) -> Span:
    kind = _KINDS.get(str(node.get("type")).removesuffix("_call"), "other")
    name = text(node, "name") or kind
    error = node.get("error")
    return Span(
        id=id_,
        kind=kind,
        name=name,
        parent=parent,
        agent=name if kind == "agent" else None,
        start=moment(node.get("start_time")),
        end=moment(node.get("end_time")),
        ok=not error,
        input=_either(node, "inputs", "input"),
        output=_either(node, "outputs", "output"),
        attributes={"error": error} if error else {},
    )


def _either(node: Record, *keys: str) -> Any:
    return next((decoded(node[key]) for key in keys if node.get(key) is not None), None)


_MOST_COLONS = 8
"""Most colons of a message at which the name in front of it may end."""


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


def _failures_of(errors: list[Record], printed: list[Record], names: set[str]) -> list[Failure]:
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
    colons = islice(re.finditer(": ", message), _MOST_COLONS)
    before = [message[: colon.start()] for colon in colons]
    known = [part for part in before if part in names]
    name = known[-1] if known else before[0] if before else "unknown"
    return name, message[len(name) + 2 :] if before else message


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


def _log(document: Record) -> Trace:
    """Build the trace of a log."""
    lists = _lists_of(document)
    tools, models = lists["tool_calls"], lists["llm_calls"]
    names = {name for row in (*tools, *models) if (name := text(row, "name")) is not None}
    failures = _failures_of(lists["errors"], lists["user_interactions"], names)
    listed = _agents_by_listed_call(lists)
    failed = {(failure.kind, failure.call) for failure in failures}
    calls = [_call("tool", position, row, listed, failed) for position, row in enumerate(tools)]
    calls += [_call("llm", position, row, listed, failed) for position, row in enumerate(models)]
    raised = [failure for failure in failures if failure.kind in {"tool", "llm"} and failure.call is None]
    calls += [_failed_call(position, failure) for position, failure in enumerate(raised)]
    still_open = "start_time" in document and not document.get("end_time")
    agents, calls = _nested(_agents(lists["agent_calls"], failures), calls, still_open=still_open)
    project = text(dict_(document.get("project_info")), "project_name") or text(document, "project")
    stored = {"project": project, "start_time": document.get("start_time"), "clock": CLOCK}
    scores = [{key: value for key, value in row.items() if key != "trace_id"} for row in lists["metrics"]]
    return normalise(
        [*sorted(agents, key=_sort_time), *sorted(calls, key=_sort_time)],
        trace_id=text(document, "id", "trace_id") or "",
        metadata={key: value for key, value in (stored | {"metrics": scores}).items() if value},
    )


def _sort_time(span: Span) -> float:
    """Sort key of spans: start, else end (calls that raised have no start)."""
    time = span.start if span.start is not None else span.end
    return float("inf") if time is None else time


def _agents(rows: list[Record], failures: list[Failure]) -> list[Span]:
    """The agents' runs. A failure is that of the run with its id, else of one with its name and no end."""
    waiting: dict[tuple[bool, str], deque[Failure]] = defaultdict(deque)
    for failure in failures:
        if failure.kind == "agent":
            waiting[failure.agent is not None, failure.agent or failure.name].append(failure)
    spans = []
    for row in rows:
        id_, name = text(row, "id"), text(row, "name")
        start, end = moment(row.get("start_time")), moment(row.get("end_time"))
        found = waiting.get((True, id_ or ""))
        if not found and end is None:
            found = waiting.get((False, name or ""))
            if found and start is not None and (found[0].time or start) < start:
                found = None
        spans.append(_agent(id_, name or "agent", start, end, found.popleft() if found else None))
    # The log leaves out agents that raised.
    left = [failure for failures_left in waiting.values() for failure in failures_left]
    return spans + [_agent(failure.agent, failure.name, None, None, failure) for failure in left]


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
    starts = {position: agents[position].start or 0.0 for position in whole}
    # A run has length 0 if local time went backwards during it.
    times = [(starts[position], max(starts[position], ends[position] or 0.0)) for position in whole]
    points = [position for position, span in enumerate(agents) if span.start is None and span.end is not None]
    points += [position for position, span in enumerate(spans) if _is_unowned_failure(span)]
    ended = [spans[position].end or 0.0 for position in points]
    for position, around in zip([*whole, *points], shortest_enclosing(times, ended), strict=True):
        if around is not None:
            spans[position] = msgspec.structs.replace(spans[position], parent=agents[whole[around]].id)
    return spans[: len(agents)], spans[len(agents) :]


def _is_unowned_failure(span: Span) -> bool:
    """Whether a span is a failed call without an agent."""
    return span.id.startswith(_RAISED) and span.parent is None and span.end is not None


def _agents_by_listed_call(lists: Lists) -> dict[tuple[SpanKind, str], str]:
    """The agent that lists each call, for files in which calls do not name their agent.

    If some calls name an agent, one that does not was made outside any agent.
    """
    if any(text(row, "agent_id") for row in (*lists["tool_calls"], *lists["llm_calls"])):
        return {}
    kinds: tuple[tuple[SpanKind, str], ...] = (("llm", "llm_call_ids"), ("tool", "tool_call_ids"))
    agents: dict[tuple[SpanKind, str], str] = {}
    for row in lists["agent_calls"]:
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
    attributes: JsonObject = {} if duration is None else {"duration": duration}
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
    return read_usage(tokens, cost=total)


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


def shortest_enclosing(
    intervals: Sequence[tuple[float, float]], points: Sequence[float] = ()
) -> list[int | None]:
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
