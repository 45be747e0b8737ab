"""AgentNeo: what its tables do not say (nesting, failures, agents of printed lines) is put together again."""

import json
from typing import Any

import pytest

from tests.goldens import data
from trivium.errors import TraceError
from trivium.traces.process.totals import trace_facts
from trivium.traces.readers import read_documents
from trivium.traces.readers.agentneo import shortest_enclosing
from trivium.traces.readers.collection import read_path


def at(second: float) -> str:
    return f"2026-01-02T10:{int(second) // 60:02}:{second % 60:09.6f}"


def agent(id: Any, name: str, start: float, end: float | None, **fields: Any) -> dict[str, Any]:
    ends = None if end is None else at(end)
    return {"id": id, "name": name, "start_time": at(start), "end_time": ends} | fields


def call(id: Any, name: str, agent: Any, start: float, **fields: Any) -> dict[str, Any]:
    times = {"start_time": at(start), "end_time": at(start + 0.5), "duration": 0.5}
    return {"id": id, "name": name, "agent_id": agent} | times | fields


def failed(kind: str, name: str, time: float, message: str = "boom", **fields: Any) -> dict[str, Any]:
    return {"type": kind, "name": name, "error_message": message, "timestamp": at(time)} | fields


def log(**lists: Any) -> dict[str, Any]:
    empty = {"agent_calls": [], "tool_calls": [], "llm_calls": [], "errors": []}
    return {"project_info": {"project_name": "p"}} | empty | lists


def one(**lists: Any):
    found, (trace,) = read_documents([log(**lists)], source="log")
    assert found == "agentneo"
    return trace


def parents(trace):
    return {span.name: span.parent for span in trace.spans}


@pytest.mark.parametrize("name", ["trace_data.db", "trace.json"])
def test_the_library_s_own_files_are_read_alike(name):
    found, traces = read_path(data(f"traces/agentneo/{name}"))
    facts = trace_facts(traces, format=found)
    (trace,) = traces
    assert found == "agentneo"
    # the toy that was traced: a manager runs a researcher, an analyst and an agent that crashes; each of the
    # first three asks a model once (120 and 30 tokens), and the researcher fetches three times, once in vain
    assert facts.agent_runs == {"manager": 1, "researcher": 1, "analyst": 1, "broken_agent": 1}
    assert facts.tools == {"search_papers": 1, "flaky_fetch": 3}
    assert facts.failed_tool_spans == 1
    assert (facts.llm_input_tokens, facts.llm_output_tokens) == (360, 90)
    assert facts.agent_to_agent == [
        ("manager", "analyst", 1),
        ("manager", "broken_agent", 1),
        ("manager", "researcher", 1),
    ]
    assert [call.ok for call in trace.tool_calls] == [True, True, False, True]
    assert {call.agent for call in trace.tool_calls} == {"researcher"}
    assert next(span for span in trace.spans if span.name == "broken_agent").ok is False
    assert trace.tool_calls[0].input == {"arg_0": "low-resource MT"}
    assert trace.metadata["project"] == "toy_multi_agent"
    assert sum((span.usage.cost_usd or 0) for span in trace.spans if span.usage) == pytest.approx(0.000108)
    assert facts.problems == []


def test_an_agent_lies_in_the_shortest_enclosing_run_in_any_order():
    runs = [
        agent(5, "inner", 3, 4),
        agent(3, "middle", 2, 6),
        agent(4, "beside", 2.5, 3.5),  # overlaps inner without enclosing it
        agent(1, "outer", 0, 9),
        agent(7, "later", 10, 11),
    ]
    expected = {
        "inner": "agent-3",
        "middle": "agent-1",
        "beside": "agent-3",
        "outer": None,
        "later": None,
    }
    assert parents(one(agent_calls=runs)) == expected
    assert parents(one(agent_calls=runs[::-1])) == expected


def test_an_agent_without_an_end_encloses_nothing_unless_the_trace_has_none_either():
    runs = [agent(1, "open", 0, None), agent(2, "later", 3, 4)]
    assert parents(one(agent_calls=runs)) == {"open": None, "later": None}
    assert parents(one(agent_calls=runs, start_time=at(0), end_time=at(9))) == {"open": None, "later": None}
    killed = one(agent_calls=runs, start_time=at(0), end_time=None)
    assert parents(killed) == {"open": None, "later": "agent-1"}
    assert {span.name: span.ok for span in killed.spans} == {"open": None, "later": True}
    assert [problem.kind for problem in killed.problems] == ["unfinished"]


def test_a_call_that_raised_has_its_place_in_time_and_the_agent_that_printed_it():
    printed = {"interaction_type": "output", "content": "Error in tool 'fetch': boom"}
    trace = one(
        agent_calls=[agent(1, "a", 0, 9), agent(2, "b", 1, 8)],
        tool_calls=[call(1, "fetch", 1, 2), call(2, "fetch", 1, 6)],
        errors=[failed("tool", "fetch", 4), failed("tool", "lost", 5), failed("tool", "far", 50)],
        user_interactions=[
            printed | {"timestamp": at(3), "agent_id": 2},  # of an earlier failure
            printed | {"timestamp": at(4.1), "agent_id": 1},
            printed | {"timestamp": at(4.2), "agent_id": 1},
        ],
    )
    assert [(span.name, span.ok, span.agent) for span in trace.tool_calls] == [
        ("fetch", True, "a"),
        ("fetch", False, "a"),
        ("lost", False, "b"),  # the innermost around its time
        ("fetch", True, "a"),
        ("far", False, None),
    ]
    assert trace.tool_calls[1].attributes["error"] == "boom"
    assert trace.tool_calls[1].start is None


def test_the_front_of_a_message_names_what_raised():
    errors = [
        {"error_type": "Tool", "error_message": message, "timestamp": at(1)}
        for message in ("known: tool: no: really", "new: no", "no colon at all")
    ]
    trace = one(tool_calls=[call(1, "known: tool", None, 0)], errors=errors)
    names = [(span.name, span.attributes["error"]) for span in trace.tool_calls if not span.ok]
    assert names == [("known: tool", "no: really"), ("new", "no"), ("unknown", "no colon at all")]


def test_failures_that_keep_the_id_of_their_call_mark_it():
    trace = one(
        tool_calls=[call(1, "t", None, 0), call(2, "t", None, 1)],
        llm_calls=[call(2, "m", None, 2)],
        errors=[failed("tool", "t", 1.5, tool_call_id=2), failed("llm", "m", 2.5, llm_call_id=None)],
    )
    assert {span.id: span.ok for span in trace.spans} == {
        "tool-1": True,
        "tool-2": False,
        "llm-2": True,
        "error-0": False,
    }


def test_agents_that_raised_are_found_by_name_or_added():
    trace = one(
        agent_calls=[
            agent(1, "boss", 0, 9),
            agent(2, "twice", 1, None),
            agent(3, "twice", 3, None),
            agent(4, "well", 5, 6),
        ],
        errors=[failed("agent", "twice", 2), failed("agent", "twice", 4), failed("agent", "gone", 7)],
    )
    runs = {span.id: (span.ok, span.parent) for span in trace.spans}
    assert runs == {
        "agent-1": (True, None),
        "agent-2": (False, "agent-1"),
        "agent-3": (False, "agent-1"),
        "agent-4": (True, "agent-1"),
        "agent-gone": (False, "agent-1"),
    }
    early = one(agent_calls=[agent(1, "x", 5, None)], errors=[failed("agent", "x", 2)])
    assert {span.id: span.ok for span in early.spans} == {"agent-x": False, "agent-1": None}


def test_calls_that_do_not_say_their_agent_are_listed_by_it():
    row = {"start_time": at(1), "end_time": at(2)}
    trace = one(
        agent_calls=[agent(1, "a", 0, 9, llm_call_ids='"[2, 2]"', tool_call_ids=[1, None])],
        tool_calls=[{"id": 1, "name": "t"} | row, {"id": 2, "name": "outside"} | row],
        llm_calls=[{"id": 2, "name": "m", "model": "gpt"} | row],
    )
    assert {span.name: span.agent for span in trace.spans} == {
        "a": "a",
        "t": "a",
        "outside": None,
        "gpt": "a",
    }


def test_the_dashboard_keeps_calls_within_agents():
    inner = {
        "llm_calls": [{"id": 1, "name": "m", "token_usage": '"{\\"input\\": 3, \\"completion\\": 4}"'}],
        "tool_calls": [{"id": 1, "name": "t", "start_time": "Fri, 02 Jan 2026 10:00:01 GMT"}],
        "errors": [{"error_type": "tool", "error_message": "u: boom", "timestamp": at(3)}],
    }
    document = {
        "id": 7,
        "project_id": 1,
        "agent_calls": [agent(1, "a", 0, 9, **inner)],
        "llm_calls": [],
        "tool_calls": [call(2, "outside", None, 4)],
        "errors": [],
    }
    _, (trace,) = read_documents([document], source="log")
    assert trace.trace_id == "7"
    assert {span.name: span.agent for span in trace.spans} == {
        "a": "a",
        "t": "a",
        "u": "a",
        "m": "a",
        "outside": None,
    }
    assert trace_facts([trace]).llm_output_tokens == 4


def test_the_duration_gives_the_end_when_a_local_clock_goes_back():
    back = {"start_time": at(10), "end_time": at(4), "duration": 2.0}
    trace = one(
        tool_calls=[call(1, "t", None, 0, **back), call(2, "u", None, 0, **back | {"duration": None})]
    )
    first, second = trace.spans
    assert ((first.end or 0) - (first.start or 0), first.ok) == (2.0, True)
    assert second.end == second.start
    assert [problem.kind for problem in trace.problems] == ["negative_duration"]
    assert trace.metadata["clock"] == "local time, its zone not stored"


def test_the_tree_of_the_evaluations_is_read():
    tree = {
        "type": "root",
        "name": "run",
        "children": [
            {
                "type": "agent",
                "name": "a",
                "inputs": {"q": 1},
                "children": [
                    {"type": "llm_call", "name": "m", "outputs": "x"},
                    {"type": "tool", "name": "t", "inputs": '{"k": 2}', "error": "no", "children": None},
                    {"type": "agent", "name": "b", "children": [{"type": "?", "children": [3]}]},
                ],
            }
        ],
    }
    found, (trace,) = read_documents([tree], source="tree")
    assert found == "agentneo"
    assert [(span.kind, span.name, span.agent, span.ok) for span in trace.spans] == [
        ("agent", "a", "a", True),
        ("llm", "m", "a", True),
        ("tool", "t", "a", False),
        ("agent", "b", "b", True),
        ("other", "other", "b", True),
    ]
    assert [(m.sender, m.receiver, m.type) for m in trace.messages] == [
        ("a", "b", "task_request"),
        ("b", "a", "result_delivery"),
    ]


def test_a_tree_of_20_000_levels_is_walked_without_recursion():
    node: dict[str, Any] = {"type": "tool", "name": "t"}
    for _ in range(20_000):
        node = {"type": "agent", "name": "a", "children": [node]}
    _, (trace,) = read_documents([node], source="tree")
    assert trace_facts([trace]).max_depth == 20_001


def test_logs_come_one_a_line_or_in_a_list(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_text("\n".join(json.dumps(log(tool_calls=[call(1, "t", None, 0)])) for _ in range(2)))
    assert len(read_path(path)[1]) == 2
    documents = [[log(), {"foo": 1}, 3], log()]
    _, traces = read_documents(documents, source="log", format="agentneo")
    assert [len(trace.problems) for trace in traces] == [1, 0]
    assert "2 records are left out: not a log of AgentNeo" in traces[0].problems[0].what
    with pytest.raises(TraceError, match="agent_calls"):
        read_documents([{"foo": 1}], source="log", format="agentneo")


def test_runs_of_agents_eval_are_not_taken_for_logs():
    run = {"execution_id": "e", "tool_calls": [], "agent_interactions": [], "errors": []}
    assert read_documents([run], source="run")[0] == "agents-eval"


def test_rows_of_the_wrong_shape_cost_nothing_but_themselves():
    trace = one(
        agent_calls=[
            3,
            {"id": None},
            agent(1, "a", 0, 1, llm_call_ids="[[1], {}]", tool_call_ids="nonsense"),
        ],
        tool_calls=[{}, {"id": 1, "duration": True, "start_time": 3, "end_time": -1, "agent_id": 99}],
        llm_calls=[{"token_usage": "[]", "cost": "x"}, {"token_usage": {"input": 1}, "cost": {"total": 2.0}}],
        errors=[{}, {"error_type": 3}, None],
        user_interactions=[{"content": "Error in tool", "agent_id": 1}, {"content": 3}],
    )
    assert trace_facts([trace]).llm_input_tokens == 1
    assert [problem.kind for problem in trace.problems if problem.kind == "orphan"] == ["orphan"]


def test_the_shortest_enclosing_interval_equals_that_of_a_search_of_all():
    import random

    generator = random.Random(3)
    for _ in range(300):
        number = generator.randrange(12)
        starts = [generator.randrange(10) for _ in range(number)]
        intervals = [(float(start), float(start + generator.randrange(10))) for start in starts]
        points = [float(generator.randrange(20)) for _ in range(3)]
        found = shortest_enclosing(intervals, points)
        asked = intervals + [(point, point) for point in points]
        for place, (start, end) in enumerate(asked):
            around = [
                (e - s, -s, -other)
                for other, (s, e) in enumerate(intervals)
                if s <= start and end <= e and (other < place if (s, e) == (start, end) else other != place)
            ]
            expected = -min(around)[2] if around else None
            assert found[place] == expected


@pytest.mark.parametrize(
    ("cost", "dollars"),
    [
        ({"input": 0.25, "output": 0.5, "total": 0.75}, 0.75),
        (
            {"input": 0.25, "output": 0.5, "total": 0.8},
            0.8,
        ),  # the total as it is stated
        ({"input": 0.25, "output": 0.5}, 0.75),
        ({"input": "0.25", "output": 0.5}, 0.75),
        (0.5, 0.5),
        ("0.5", 0.5),
        ("free", None),
        (0, None),
    ],
)
def test_the_cost_of_a_call_is_its_total_and_never_the_total_and_its_parts(cost, dollars):
    usage = {"token_usage": {"input": 3, "completion": 4}, "cost": cost}
    (span,) = one(llm_calls=[call(1, "m", None, 0, **usage)]).spans
    assert span.usage.cost_usd == dollars


def test_a_call_made_outside_of_any_agent_has_no_agent_though_an_agent_lists_it():
    trace = one(
        agent_calls=[agent(1, "planner", 5, 9, tool_call_ids=[1, 2])],
        tool_calls=[call(1, "before", None, 1), call(2, "within", 1, 6)],
    )
    assert [(span.name, span.agent) for span in trace.tool_calls] == [("before", None), ("within", "planner")]
    assert trace.problems == ()
