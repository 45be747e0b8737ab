"""Every format there is: files, however broken, are read or refused, and large ones in bounded memory."""

import random
import sqlite3
import subprocess
import sys
from contextlib import closing
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tests.formats.test_tau_bench as tau
import tests.traces.readers.claude_events as claude
import tests.traces.readers.test_agentneo as agentneo
import tests.traces.readers.test_pydantic_ai as pydantic_ai
from tests.formats.inspect_log.packed import HEADER, log_of, sample
from tests.formats.test_agents_eval import RUN, asks
from tests.formats.test_agents_eval import call as agents_eval_call
from tests.traces.opentelemetry.spans import agent, request, tool
from tests.traces.readers.otlp.test_encodings import protobuf
from tests.traces.readers.test_agentneo_database import at, database
from tests.traces.readers.test_atif import TRAJECTORY
from tests.traces.readers.test_bad_files import DOCUMENTS, LINES, mutated
from tests.traces.readers.test_openai_agents import TRACE, item
from tests.traces.readers.test_opik import TRACE as OPIK
from tests.traces.readers.test_opik import span as opik_span
from tests.traces.readers.test_who_and_when import GROUP
from trivium.errors import TraceError
from trivium.traces.native import native_trace
from trivium.traces.readers import FORMATS
from trivium.traces.readers.collection import read_path

ENOUGH = 5_000

SPANS = [
    {"id": "a", "kind": "agent", "name": "boss", "start": 0.0, "end": 9.0},
    {"id": "b", "parent": "a", "kind": "tool", "name": "look", "start": 1.0, "end": 2.0, "ok": False},
    {"id": "c", "parent": "a", "kind": "agent", "name": "helper", "start": 3.0},
]
EVENTS = [
    {"event": "span_begin", "id": "s", "type": "agent", "name": "boss"},
    {"event": "tool", "function": "look", "span_id": "s", "id": "1", "result": "x"},
    {
        "event": "model",
        "model": "m",
        "output": {"usage": {"input_tokens": 1, "output_tokens": 2}},
        "span_id": "s",
    },
    {"event": "span_end", "id": "s"},
]
JSON: dict[str, list[Any]] = {
    **DOCUMENTS,
    **{f"{name} lines": lines for name, lines in LINES.items()},
    "native": [{"trace_id": "t", "spans": SPANS, "messages": [{"sender": "boss", "receiver": "helper"}]}],
    "recorded lines": [
        *({"trace_id": "5a", "span": span} for span in SPANS),
        {"trace_id": "5a", "message": {"sender": "boss", "receiver": "helper", "type": "handoff"}},
        {"trace_id": "5b", "span": SPANS[1]},
    ],
    "tau-bench": [
        [
            tau.chat(
                tau.chat_message("system", "policy"),
                tau.chat_message("assistant", None, tool_calls=[tau.call("book", '{"id": 7}')]),
                tau.chat_message("tool", "done", tool_call_id="c", name="book"),
                tau.chat_message("assistant", "Booked."),
            )
        ]
        * 2
    ],
    "messages": [
        {
            "id": "m",
            "messages": [
                {"role": "user", "content": [{"type": "text", "text": "?"}, {"type": "image_url"}]},
                tau.chat_message("assistant", None, tool_calls=[tau.call("book", '{"id": 7}')]),
                tau.chat_message("tool", "done", tool_call_id="c", name="book"),
                tau.chat_message("assistant", "Booked."),
            ],
        }
    ],
    "agents-eval": [RUN],
    "atif": [TRAJECTORY],
    "otlp": [request(agent("a", at=(0, 9)), tool("b", "look", parent="a"), tool("c", "look", parent="x"))],
    "otlp lines": [request(each) for each in (agent("a", at=(0, 9)), tool("b", "look", parent="a"))],
    "pydantic-ai": [
        pydantic_ai.history(
            pydantic_ai.prompt(),
            pydantic_ai.answer(pydantic_ai.call("look", q=1), pydantic_ai.call("see", "d")),
            ("request", [pydantic_ai.back("look"), pydantic_ai.back("see", "d", outcome="failed")], {}),
            pydantic_ai.answer({"part_kind": "text", "content": "done"}),
        )
    ],
    "claude-code lines": claude.STREAM,
    "who-and-when": [GROUP],
    "inspect": [HEADER | {"samples": [sample(events=EVENTS), sample(id="b")]}],
}


def packed_log(folder):
    return log_of(folder / "packed.eval", sample(events=EVENTS), sample(id="b"))


def encoded(folder):
    path = folder / "spans.binpb"
    path.write_bytes(protobuf(agent("a", at=(0, 9)), tool("b", "look", parent="a")).SerializeToString())
    return path


BINARY = {
    "agentneo database": lambda folder: database(folder / "trace_data.db"),
    "otlp protobuf": encoded,
    "inspect archive": packed_log,
}


def written(path, documents):
    path.write_bytes(b"\n".join(msgspec.json.encode(document) for document in documents))
    return path


@pytest.fixture(params=[*JSON, *BINARY])
def file(request, tmp_path):
    """A whole file of a format, and the name of the format."""
    name = request.param
    path = BINARY[name](tmp_path) if name in BINARY else written(tmp_path / "file.json", JSON[name])
    return name.split()[0], path


def survives(path, format=None):
    """What is read is sound: it can be written, read again and is the same. Refusals name the file."""
    try:
        _, traces = read_path(path, format)
    except TraceError as error:
        assert str(path) in str(error)  # noqa: PT017 - either is fine
        assert len(str(error)) < 5_000  # noqa: PT017
        return None
    for trace in traces:
        assert len({span.id for span in trace.spans}) == len(trace.spans)
        assert {span.parent for span in trace.spans} <= {None, *(span.id for span in trace.spans)}
        again = native_trace(msgspec.json.encode(trace))
        assert (again.spans, again.messages) == (trace.spans, trace.messages)
    return traces


def test_every_format_is_among_them():
    sampled = {name.split()[0] for name in (*JSON, *BINARY)}
    assert set(FORMATS) - sampled == set(), "add a small sample of each to JSON or BINARY above"
    assert sampled == set(FORMATS)


def test_whole_files_are_read_and_known_for_what_they_are(file):
    name, path = file
    assert read_path(path)[0] == name
    assert sum(len(trace.spans) for trace in survives(path)) >= 2


def test_a_file_at_an_address_has_the_traces_of_one_of_this_machine(file):
    fsspec = pytest.importorskip("fsspec")
    path = file[1]
    fsspec.filesystem("memory").pipe(f"/formats/{path.name}", path.read_bytes())
    assert read_path(f"memory://formats/{path.name}") == read_path(path)


def test_a_file_cut_at_many_places_is_read_or_refused(file):
    name, path = file
    whole = path.read_bytes()
    for size in range(0, len(whole), max(1, len(whole) // 120)):
        path.write_bytes(whole[:size])
        survives(path)
        survives(path, name)


def test_a_file_with_broken_bytes_is_read_or_refused(file):
    name, path = file
    whole = path.read_bytes()
    dice = random.Random(7)
    for _ in range(100):
        broken = bytearray(whole)
        for _ in range(dice.randint(1, 8)):
            broken[dice.randrange(len(broken))] = dice.randrange(256)
        path.write_bytes(broken)
        survives(path, name)


@pytest.mark.parametrize("name", [name for name in JSON if name.endswith("lines")])
def test_lines_in_any_order_some_of_them_twice_are_read_or_refused(name, tmp_path):
    dice = random.Random(3)
    spans = set()
    for _ in range(30):
        lines = [*JSON[name], *dice.sample(JSON[name], 1)]
        dice.shuffle(lines)
        traces = survives(written(tmp_path / "shuffled.jsonl", lines), name.split()[0])
        spans.add(sum(len(trace.spans) for trace in traces))
    assert min(spans) >= 2


def test_a_foreign_value_nested_a_hundred_thousand_deep_is_passed_over_or_refused(tmp_path):
    deep = b'{"foreign": ' + b"[" * 100_000 + b"]" * 100_000 + b", "
    for name, documents in JSON.items():
        path = written(tmp_path / "deep.json", documents)
        path.write_bytes(path.read_bytes().replace(b"{", deep, 1))
        survives(path)
        survives(path, name.split()[0])


@pytest.mark.parametrize("name", [name for name in JSON if name not in DOCUMENTS])
@settings(
    derandomize=True,
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.function_scoped_fixture,
    ],
)
@given(data=st.data())
def test_foreign_fields_and_values_of_other_types_are_read_or_refused(name, tmp_path, data):
    path = written(tmp_path / "mutated.jsonl", mutated(data.draw, JSON[name]))
    survives(path)
    survives(path, name.split()[0])


def large(folder):
    """A file of each format with 5,000 spans or more, made as small ones are."""
    times = {"start": 1.0, "end": 2.0}
    run = {"run_type": "tool", "name": "look", "trace_id": "r", "start_time": 1, "end_time": 2}
    half = range(ENOUGH // 2)
    many: dict[str, list[Any]] = {
        "openai-agents": [
            TRACE,
            item("a", "agent", name="boss"),
            *(item(f"f{n}", "function", "a", n / 10**6, name="look") for n in range(ENOUGH)),
        ],
        "langsmith": [
            run | {"id": "r", "run_type": "chain", "name": "graph"},
            *(run | {"id": f"t{n}", "parent_run_id": "r"} for n in range(ENOUGH)),
        ],
        "opik": [OPIK, *(opik_span(f"s{n}", "tool") for n in range(ENOUGH))],
        "agentneo": [
            agentneo.log(
                agent_calls=[agentneo.agent(1, "a", 0, 9)],
                tool_calls=[agentneo.call(n, "t", 1, 2, input_parameters="{}") for n in range(ENOUGH)],
            )
        ],
        "native": [{"spans": [{"id": f"{n}", "kind": "tool", "name": "t"} | times for n in range(ENOUGH)]}],
        "recorded": [
            {"trace_id": "5a", "span": {"id": f"{n:x}", "kind": "tool", "name": "t"} | times}
            for n in range(ENOUGH)
        ],
        "tau-bench": [
            tau.chat(
                *(
                    turn
                    for n in half
                    for turn in (
                        tau.chat_message("assistant", None, tool_calls=[tau.call("book", "{}", f"c{n}")]),
                        tau.chat_message("tool", "done", tool_call_id=f"c{n}", name="book"),
                    )
                )
            )
        ],
        "messages": [
            {
                "messages": [
                    turn
                    for n in half
                    for turn in (
                        tau.chat_message("assistant", None, tool_calls=[tau.call("book", "{}", f"c{n}")]),
                        tau.chat_message("tool", "done", tool_call_id=f"c{n}", name="book"),
                    )
                ]
            }
        ],
        "agents-eval": [
            RUN
            | {"tool_calls": [agents_eval_call("read", f"agent-{n % 9}", n, n + 1.0) for n in range(ENOUGH)]}
            | {"agent_interactions": [asks("agent-0", f"agent-{n}", query="q") for n in range(1, 9)]}
        ],
        "otlp": [
            request(*(tool(f"{n:08}", "look", at=(n, n + 1)) for n in range(ENOUGH))),
        ],
        "pydantic-ai": [
            pydantic_ai.history(pydantic_ai.prompt())
            + [
                {"kind": kind, "parts": [part], "timestamp": pydantic_ai.AT.format(1)}
                for n in half
                for kind, part in (
                    ("response", pydantic_ai.call("look", f"c{n}", q=1)),
                    ("request", pydantic_ai.back("look", f"c{n}")),
                )
            ]
        ],
        "claude-code": [
            event
            for n in half
            for event in (
                claude.assistant(claude.use(f"t{n}", "Read", file_path="a"), id=f"m{n}"),
                claude.user(claude.result(f"t{n}")),
            )
        ],
        "who-and-when": [GROUP | {"history": [{"role": f"A{n % 5}", "content": "x"} for n in range(ENOUGH)]}],
        "inspect": [HEADER | {"samples": [sample(events=EVENTS[:1] + EVENTS[1:2] * ENOUGH)]}],
    }
    for name, documents in many.items():
        yield name, written(folder / f"{name}.jsonl", documents)
    database_ = database(folder / "large.db")
    with closing(sqlite3.connect(database_)) as connection:
        connection.executemany(
            "INSERT INTO tool_call VALUES (?, 1, 'look', '{}', 'x', ?, ?, 1.0, 1, NULL)",
            ((n, at(2), at(3)) for n in range(10, ENOUGH + 10)),
        )
        connection.commit()
    yield "agentneo", database_
    encoded_ = folder / "large.binpb"
    spans = [tool(f"{n:08}", "look", at=(n, n + 1)) for n in range(ENOUGH)]
    encoded_.write_bytes(protobuf(*spans).SerializeToString())
    yield "otlp", encoded_
    yield "inspect", log_of(folder / "large.eval", sample(events=EVENTS[:1] + EVENTS[1:2] * ENOUGH))


READ = """
import resource, sys
from trivium.traces.readers.collection import read_path
limit = {limit} * 2**20
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
for path in sys.argv[1:]:
    name, traces = read_path(path)
    print(name, sum(len(trace.spans) for trace in traces), path, flush=True)
    del traces
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the limit of a process's memory is kept on Linux")
def test_five_thousand_spans_of_every_format_are_read_in_bounded_memory(tmp_path):
    files = list(large(tmp_path))
    command = [sys.executable, "-c", READ.format(limit=200), *(str(path) for _, path in files)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stderr == ""
    rows = [line.split(maxsplit=2) for line in done.stdout.splitlines()]
    assert [(name, path) for name, _, path in rows] == [(name, str(path)) for name, path in files]
    assert min(int(count) for _, count, _ in rows) >= ENOUGH
