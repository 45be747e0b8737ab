"""Bad files: cut, shuffled, mixed with foreign fields, of wrong types: read, or refused with a message."""

import json
import random
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.strategies import json_values
from tests.traces.readers.test_agentneo import agent, call, failed, log
from tests.traces.readers.test_langgraph import node, react, run, tree
from tests.traces.readers.test_openai_agents import CASE
from tests.traces.readers.test_opik import SPANS, TRACE, span
from trivium.errors import TraceError
from trivium.traces.native import native_trace
from trivium.traces.readers import read_documents
from trivium.traces.readers.collection import read_path


def flat(root: Any) -> list[Any]:
    """A run tree as one record a run."""
    records, stack = [], [(root, None)]
    while stack:
        value, parent = stack.pop()
        record = {key: field for key, field in value.items() if key != "child_runs"}
        records.append(record | {"parent_run_id": parent})
        stack += [(child, value["id"]) for child in value["child_runs"]]
    return records


GRAPH = tree(
    run(
        "chain",
        "g",
        node("a:1", 1, react("a", "a:1", run("tool", "look", call="c1"))),
        node("b:2", 2, run("llm", "M", outputs={"usage_metadata": {"input_tokens": 1}})),
        node("a:3", 3, run("llm", "M")),
    )
)
LINES: dict[str, list[Any]] = {
    "openai-agents": CASE,
    "langsmith": flat(GRAPH),
    "opik": [TRACE, *SPANS, span("b", parent="x", metadata={"agent": "b"}), span("y", "tool", "b")],
}
TURNS = [
    {"role": "user", "content": "q"},
    {
        "role": "assistant",
        "content": [{"type": "text", "text": "a"}],
        "tool_calls": [{"id": "c", "function": {"name": "t", "arguments": "{}"}}],
    },
    {"role": "tool", "tool_call_id": "c", "content": "Error"},
]
TASK = {"instruction": "do", "outputs": ["5"], "actions": [{"name": "t", "kwargs": {"a": 1}}]}
DOCUMENTS: dict[str, list[Any]] = LINES | {
    "messages": [{"id": "x", "messages": TURNS}],
    "tau-bench": [{"task_id": 1, "trial": 0, "reward": 1.0, "info": {"task": TASK}, "traj": TURNS}],
    "langsmith": [GRAPH],
    "agentneo": [
        log(
            agent_calls=[agent(1, "a", 0, 9, llm_call_ids='"[1, 1]"'), agent(2, "b", 1, None)],
            tool_calls=[call(1, "t", 1, 2, input_parameters="{}"), call(2, "u", 2, 3)],
            llm_calls=[call(1, "m", 1, 4, token_usage={"input": 1, "completion": 2}, cost={"input": 0.1})],
            errors=[failed("tool", "t", 5), failed("agent", "b", 6, agent_id=2)],
            user_interactions=[{"content": "Error in tool 't': boom", "agent_id": 1, "timestamp": 1}],
        )
    ],
}


def read_or_refused(documents: list[Any], format: str) -> None:
    """Whatever is read is a sound trace: it can be written, read again and is the same."""
    try:
        _, traces = read_documents(documents, source="file", format=format)
    except TraceError as error:
        assert str(error).startswith("file: ")  # noqa: PT017 - either is fine
        return
    for trace in traces:
        assert len({one.id for one in trace.spans}) == len(trace.spans)
        assert {one.parent for one in trace.spans} <= {None, *(one.id for one in trace.spans)}
        again = native_trace(msgspec.json.encode(trace))
        assert (again.spans, again.messages) == (trace.spans, trace.messages)


@pytest.mark.parametrize("format", DOCUMENTS)
def test_a_file_cut_at_every_kilobyte_is_read_or_refused(tmp_path, format):
    text = "\n".join(json.dumps(document) for document in DOCUMENTS[format] * 3).encode()
    path = tmp_path / "cut.jsonl"
    for size in range(0, len(text), 1024):
        path.write_bytes(text[:size])
        try:
            assert read_path(path)[0] == format
        except TraceError as error:
            assert str(path) in str(error)  # noqa: PT017 - either is fine


@pytest.mark.parametrize("format", LINES)
def test_the_order_of_lines_changes_no_span(format):
    lines = list(LINES[format])
    wanted = None
    generator = random.Random(1)
    for _ in range(20):
        found, traces = read_documents(lines, source="file")
        spans = {one.id: (one.kind, one.name, one.parent, one.agent) for one in traces[0].spans}
        wanted = wanted or (spans, set(traces[0].messages))
        assert (found, len(traces)) == (format, 1)
        assert (spans, set(traces[0].messages)) == wanted
        generator.shuffle(lines)


def mutated(draw: st.DrawFn, document: Any) -> Any:
    """A copy in which some values are replaced, dropped, repeated or joined by foreign ones."""
    copy = json.loads(json.dumps(document))
    for _ in range(draw(st.integers(1, 4))):
        at = copy
        while True:
            keys: list[Any] = list(at) if isinstance(at, dict) else list(range(len(at)))
            if not keys:
                break
            key = draw(st.sampled_from(keys))
            if isinstance(at[key], dict | list) and at[key] and draw(st.integers(0, 3)):
                at = at[key]
                continue
            what = draw(st.sampled_from(["replace", "drop", "repeat", "foreign"]))
            if what == "replace":
                at[key] = draw(json_values)
            elif what == "drop":
                del at[key]
            elif isinstance(at, list):
                at.append(at[key] if what == "repeat" else draw(json_values))
            else:
                at["foreign"] = draw(json_values)
            break
    return copy


@pytest.mark.parametrize("format", DOCUMENTS)
@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(data=st.data())
def test_values_of_any_type_anywhere_are_read_or_refused(format, data):
    read_or_refused(mutated(data.draw, DOCUMENTS[format]), format)


@pytest.mark.parametrize("format", DOCUMENTS)
@given(documents=st.lists(json_values, max_size=4))
def test_any_json_at_all_is_read_or_refused(format, documents):
    read_or_refused(documents, format)


@pytest.mark.parametrize("format", LINES)
def test_ids_that_repeat_and_parents_that_loop_are_repaired(format):
    parent = {"openai-agents": "parent_id", "langsmith": "parent_run_id", "opik": "parent_span_id"}[format]
    lines = json.loads(json.dumps(LINES[format]))
    spans = [line for line in lines if parent in line]
    for line in spans:
        line["id"] = "same" if line is not spans[0] else "first"
        line[parent] = "same"
    read_or_refused(lines, format)
    for line, above in zip(spans, [*spans[1:], spans[0]], strict=True):
        line["id"], above_id = f"id-{id(line)}", f"id-{id(above)}"
        line[parent] = above_id
    _, (trace,) = read_documents(lines, source="file")
    assert "cycle" in {problem.kind for problem in trace.problems}


def test_twenty_thousand_spans_are_read(tmp_path):
    lines = [
        json.dumps(line | {"id": f"{line['id']}-{copy}", "parent_id": parent and f"{parent}-{copy}"})
        for copy in range(1_850)
        for line in CASE[1:]
        for parent in [line["parent_id"]]
    ]
    path = tmp_path / "many.jsonl"
    path.write_text("\n".join(lines))
    _, (trace,) = read_path(path)
    assert len(trace.spans) == 20_350
    assert trace.problems == ()


@pytest.mark.parametrize("role", [["user"], {"a": 1}, 1, None])
def test_a_message_with_a_role_of_another_type_is_left_out_and_named(role):
    chat = {"messages": [*TURNS, {"role": role, "content": "x"}]}
    _, (trace,) = read_documents([chat], source="file", format="messages")
    assert [problem.what for problem in trace.problems] == ["message 3 has no known role; it was left out"]
    read_or_refused([{"messages": [{"role": role, "content": "x"}]}], "messages")


@pytest.mark.parametrize("outputs", [True, 1.5, "5", None])
def test_answers_that_are_no_list_are_none(outputs):
    task = {"task_id": 1, "info": {"task": TASK | {"outputs": outputs}}, "traj": TURNS}
    read_or_refused([task], "tau-bench")
