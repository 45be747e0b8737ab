"""Reads AgentNeo's tables from an untrusted SQLite file.

The file is opened read-only and immutable, its schema is not trusted (views, triggers and virtual tables are
not touched), and steps, rows and bytes are bounded.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from trivium.errors import TraceError
from trivium.storage import is_local, open_file
from trivium.traces.readers.agentneo.spans import Tables, agentneo_trace
from trivium.traces.readers.json_input import MAX_BYTES, content_of, head_of, text, with_problems
from trivium.traces.readers.span_records import Record
from trivium.traces.trace import INCOMPLETE, Trace, TraceProblem

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


def opens(path: Path, head: bytes) -> bool:  # noqa: ARG001 - the head suffices
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
        from trivium.traces.readers.agentneo.json_log import read_traces
        from trivium.traces.readers.json_input import documents_of

        return read_traces(documents_of(path), str(path))
    try:
        with _opened(path, most_steps) as connection:
            tables = _Reader(connection, str(path), most_rows).tables()
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


class _Reader:
    def __init__(self, connection: sqlite3.Connection, source: str, most_rows: int) -> None:
        self._connection, self._source, self._most_rows = connection, source, most_rows
        self._bytes = 0

    def tables(self) -> dict[str, list[Record]]:
        rows = self._connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'")
        real = {name for name, sql in rows.fetchmany(self._most_rows) if not _is_virtual(sql)}
        missing = [name for name in _REQUIRED_TABLES if name not in real]
        if missing:
            what = f"is a SQLite database, but none of AgentNeo's: it has no table {', '.join(missing)}"
            raise TraceError(self._source, what)
        return {name: self._rows(name) if name in real else [] for name in _COLUMNS}

    def _rows(self, table: str) -> list[Record]:
        # table_info leaves out generated columns, whose expressions the file could choose.
        existing = {row[1] for row in self._connection.execute(f"PRAGMA table_info({table})")}
        columns = [column for column in _COLUMNS[table].split() if column in existing]
        if not columns:
            return []
        listed = ", ".join(columns)
        result: list[Record] = []
        for row in self._connection.execute(f"SELECT {listed} FROM {table}"):  # noqa: S608 - our own names
            self._bytes += sum(len(value) for value in row if isinstance(value, str | bytes))
            if len(result) >= self._most_rows or self._bytes > MAX_BYTES:
                what = (
                    f"table {table} exceeds the limit ({self._most_rows:,} rows, {MAX_BYTES:,} bytes in all)"
                )
                raise TraceError(self._source, what)
            result.append(dict(zip(columns, map(_value, row), strict=True)))
        return sorted(result, key=_row_order)


def _is_virtual(sql: Any) -> bool:
    return str(sql).upper().startswith("CREATE VIRTUAL")


def _value(value: Any) -> Any:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _row_order(row: Record) -> float:
    number = row.get("id")
    return number if isinstance(number, int | float) else float("inf")


def _traces(tables: dict[str, list[Record]]) -> list[Trace]:
    projects = {text(row, "id"): text(row, "project_name") for row in tables["project_info"]}
    grouped: dict[str, Tables] = {}
    for row in tables["traces"]:
        name = text(row, "id") or ""
        grouped[name] = Tables(trace=row, project=projects.get(text(row, "project_id")))
    for table in ("agent_call", "tool_call", "llm_call", "errors", "metrics"):
        for row in tables[table]:
            name = text(row, "trace_id") or ""
            getattr(grouped.setdefault(name, Tables(trace={})), table).append(row)
    return [agentneo_trace(name, rows) for name, rows in grouped.items()]
