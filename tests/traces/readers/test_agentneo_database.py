"""AgentNeo's database: rows become traces, and a file that is hostile or broken is refused."""

import gzip
import json
import random
import sqlite3
from contextlib import closing
from typing import Any

import pytest

from trivium.errors import TraceError
from trivium.traces.process.totals import trace_facts
from trivium.traces.readers.agentneo import read_file
from trivium.traces.readers.collection import read_path, read_trace_file

SCHEMA = """
CREATE TABLE project_info (id INTEGER PRIMARY KEY, project_name VARCHAR NOT NULL, start_time DATETIME);
CREATE TABLE traces (id INTEGER PRIMARY KEY, project_id INTEGER, start_time DATETIME, end_time DATETIME);
CREATE TABLE agent_call (id INTEGER PRIMARY KEY, name VARCHAR, start_time DATETIME, end_time DATETIME,
    trace_id INTEGER NOT NULL, llm_call_ids JSON, tool_call_ids JSON, user_interaction_ids JSON);
CREATE TABLE tool_call (id INTEGER PRIMARY KEY, agent_id INTEGER, name VARCHAR, input_parameters VARCHAR,
    output VARCHAR, start_time DATETIME, end_time DATETIME, duration FLOAT, trace_id INTEGER,
    network_calls JSON);
CREATE TABLE llm_call (id INTEGER PRIMARY KEY, agent_id INTEGER, name VARCHAR, model VARCHAR,
    input_prompt VARCHAR, output VARCHAR, tool_call VARCHAR, start_time DATETIME, end_time DATETIME,
    token_usage JSON, cost JSON, trace_id INTEGER);
CREATE TABLE errors (id INTEGER PRIMARY KEY, trace_id INTEGER, agent_id INTEGER, tool_call_id INTEGER,
    llm_call_id INTEGER, error_type VARCHAR, error_message VARCHAR, timestamp DATETIME);
CREATE TABLE metrics (id INTEGER PRIMARY KEY, trace_id INTEGER, metric_name VARCHAR, score FLOAT,
    reason VARCHAR);
"""


def at(second: float) -> str:
    return f"2026-01-02 10:00:{second:09.6f}"


def twice(value: Any) -> str:
    return json.dumps(json.dumps(value))


def database(path, *more: str, schema: str = SCHEMA, fill: bool = True):
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(schema)
        if fill:
            connection.executemany("INSERT INTO project_info VALUES (?, ?, ?)", [(1, "toy", at(0))])
            connection.executemany(
                "INSERT INTO traces VALUES (?, ?, ?, ?)", [(1, 1, at(0), at(9)), (2, 1, at(20), at(29))]
            )
            connection.executemany(
                "INSERT INTO agent_call VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                [
                    (1, "boss", at(0), at(9), 1, twice([1, 1]), twice([]), twice([])),
                    (2, "helper", at(1), at(8), 1, twice([]), twice([1]), None),
                    (3, "crashed", at(8.2), None, 1, None, None, None),
                    (4, "boss", at(20), at(29), 2, None, None, None),
                ],
            )
            connection.executemany(
                "INSERT INTO tool_call VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                [
                    (1, 2, "look", '{"q": 1}', "x", at(2), at(3), 1.0, 1, twice([])),
                    (2, 4, "look", "plain", b"\xff\x00", at(21), at(22), 1.0, 2, None),
                ],
            )
            usage = twice({"input": 12, "completion": 3, "reasoning": 0})
            cost = twice({"input": 0.5, "output": 0.25})
            connection.executemany(
                "INSERT INTO llm_call VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                [(1, 1, "ask", "gpt", "hi", "ho", None, at(0.5), at(0.9), usage, cost, 1)],
            )
            connection.executemany(
                "INSERT INTO errors VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                [
                    (1, 1, 2, None, None, "tool", "look: timed out", at(4)),
                    (2, 1, 3, None, None, "agent", "crashed: no", at(8.5)),
                ],
            )
            connection.execute("INSERT INTO metrics VALUES (1, 1, 'tool_call_success_rate', 0.5, 'half')")
        for statement in more:
            connection.execute(statement)
        connection.commit()
    return path


def test_each_trace_of_a_database_is_one(tmp_path):
    path = database(tmp_path / "trace_data.db")
    found, (first, second) = read_path(path)
    facts = trace_facts([first])
    assert found == "agentneo"
    assert facts.agent_runs == {"boss": 1, "helper": 1, "crashed": 1}
    assert facts.agent_to_agent == [("boss", "crashed", 1), ("boss", "helper", 1)]
    assert [(call.name, call.agent, call.ok, call.input) for call in first.tool_calls] == [
        ("look", "helper", True, {"q": 1}),
        ("look", "helper", False, None),
    ]
    usage = next(span.usage for span in first.spans if span.kind == "llm")
    assert usage is not None
    assert (usage.input_tokens, usage.output_tokens, usage.cost_usd) == (12, 3, 0.75)
    assert facts.problems == []
    assert (first.trace_id, second.trace_id, first.metadata["project"]) == ("1", "2", "toy")
    assert first.metadata["metrics"][0]["score"] == 0.5
    assert second.tool_calls[0].output == "\ufffd\0"


def test_reading_changes_nothing(tmp_path):
    path = database(tmp_path / "trace_data.db")
    before = path.read_bytes()
    read_path(path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["trace_data.db"]
    assert path.read_bytes() == before


@pytest.mark.parametrize("name", ["a b.db", "what?mode=rwc.db", "50%.db", "#1.db", "log.json"])
def test_the_name_of_a_file_means_nothing(tmp_path, name):
    assert len(read_trace_file(database(tmp_path / name))) == 2


def test_a_gzipped_database_is_read(tmp_path):
    path = database(tmp_path / "trace_data.db")
    zipped = tmp_path / "trace_data.db.gz"
    zipped.write_bytes(gzip.compress(path.read_bytes()))
    assert read_path(zipped) == read_path(path)


def test_a_log_may_be_named_where_databases_are_read(tmp_path):
    path = tmp_path / "log.json"
    path.write_text(json.dumps({"agent_calls": [], "tool_calls": [{"id": 1, "name": "t"}], "llm_calls": []}))
    assert len(read_trace_file(path, "agentneo")[0].spans) == 1


def test_versions_with_fewer_tables_and_columns_are_read(tmp_path):
    schema = """
        CREATE TABLE agent_call (id INTEGER, name TEXT, future TEXT);
        CREATE TABLE tool_call (void TEXT);
        CREATE TABLE llm_call (name TEXT, agent_id INTEGER);
    """
    more = ("INSERT INTO agent_call VALUES (1, 'a', 'x')", "INSERT INTO llm_call VALUES ('m', 1)")
    (trace,) = read_trace_file(database(tmp_path / "old.db", *more, schema=schema, fill=False))
    assert [(span.kind, span.name, span.agent, span.ok) for span in trace.spans] == [
        ("agent", "a", "a", None),
        ("llm", "m", "a", None),
    ]


def test_a_database_of_something_else_is_named_as_such(tmp_path):
    path = database(
        tmp_path / "other.db", schema="CREATE TABLE agent_call (id); CREATE TABLE x (y);", fill=False
    )
    with pytest.raises(TraceError, match="no table tool_call, llm_call"):
        read_trace_file(path)


ENDLESS = "WITH RECURSIVE n(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n) SELECT id, 'x' AS name FROM n"


@pytest.mark.parametrize(
    "statement",
    [
        f"CREATE VIEW llm_call AS {ENDLESS}",
        "CREATE VIRTUAL TABLE llm_call USING fts5(name)",
    ],
)
def test_views_and_virtual_tables_are_not_touched(tmp_path, statement):
    path = database(tmp_path / "trap.db", "DROP TABLE llm_call", statement)
    with pytest.raises(TraceError, match="no table llm_call"):
        read_trace_file(path)


def test_columns_that_are_computed_are_not_read(tmp_path):
    schema = SCHEMA.replace(
        "CREATE TABLE agent_call (id INTEGER PRIMARY KEY, name VARCHAR,",
        "CREATE TABLE agent_call (id INTEGER PRIMARY KEY, name AS (hex(zeroblob(1000))),",
    )
    more = "INSERT INTO agent_call (id, trace_id) VALUES (1, 1)"
    (trace,) = read_trace_file(database(tmp_path / "trap.db", more, schema=schema, fill=False))
    assert [span.name for span in trace.spans] == ["agent"]


def many(rows: int) -> str:
    numbers = f"WITH RECURSIVE n(i) AS (SELECT 10 UNION ALL SELECT i + 1 FROM n WHERE i < {rows + 9})"
    return f"INSERT INTO tool_call (id, trace_id, name) {numbers} SELECT i, 1, 'x' FROM n"


def test_rows_and_steps_are_bounded(tmp_path):
    path = database(tmp_path / "big.db", many(20_000))
    assert len(read_file(path)[0].spans) > 20_000
    with pytest.raises(TraceError, match="table tool_call exceeds the limit"):
        read_file(path, most_rows=20_000)
    with pytest.raises(TraceError, match="takes too long to read"):
        read_file(path, most_steps=200_000)


def read_or_refused(path) -> None:
    try:
        for trace in read_trace_file(path):
            assert len({span.id for span in trace.spans}) == len(trace.spans)
    except TraceError as error:
        assert str(path) in str(error)  # noqa: PT017 - either is fine


def test_a_database_cut_at_every_kilobyte_is_read_or_refused(tmp_path):
    content = database(tmp_path / "trace_data.db", many(100)).read_bytes()
    path = tmp_path / "cut.db"
    for size in range(0, len(content), 1024):
        path.write_bytes(content[:size])
        read_or_refused(path)
    path.write_bytes(gzip.compress(content)[:2000])
    read_or_refused(path)


def test_a_database_with_broken_bytes_is_read_or_refused(tmp_path):
    content = database(tmp_path / "trace_data.db", many(100)).read_bytes()
    path = tmp_path / "broken.db"
    generator = random.Random(5)
    for _ in range(150):
        broken = bytearray(content)
        for _ in range(generator.choice((1, 10, 100))):
            broken[generator.randrange(16, len(broken))] = generator.randrange(256)
        path.write_bytes(broken)
        read_or_refused(path)


def test_a_database_that_is_too_large_is_not_opened(tmp_path):
    path = tmp_path / "large.db"
    with path.open("wb") as file:
        file.write(b"SQLite format 3\0")
        file.truncate(600 * 2**20)  # sparse: it takes no room
    with pytest.raises(TraceError, match="at most 536,870,912 are read"):
        read_trace_file(path)


def test_unread_changes_next_to_the_database_are_reported(tmp_path):
    """As while the program that is traced still runs: SQLite has its last changes in a file beside."""
    path = database(tmp_path / "trace_data.db")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("INSERT INTO agent_call VALUES (9, 'late', NULL, NULL, 2, NULL, NULL, NULL)")
        connection.commit()
        traces = read_file(path)
    assert not any(span.name == "late" for trace in traces for span in trace.spans)
    (problem,) = (each for trace in traces for each in trace.problems if each.kind == "incomplete")
    assert "trace_data.db-wal next to the database holds" in problem.what
