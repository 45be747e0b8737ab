"""Agents-eval: runs are put together from calls and interactions; the real runs give their counts."""

import json
from typing import Any

import pytest

from tests.goldens import data
from trivium.errors import TraceError
from trivium.formats.agents_eval import agents_eval_trace, read_run
from trivium.traces.process.totals import trace_facts


def call(tool: str, agent: str, start: float | None, end: float | None, **fields: Any) -> dict[str, Any]:
    if start is None or end is None:
        return {"tool_name": tool, "agent_id": agent} | fields
    return {
        "tool_name": tool,
        "agent_id": agent,
        "timestamp": end,
        "duration": end - start,
        "success": True,
    } | fields


def asks(sender: str, receiver: str, type: str = "delegation", **fields: Any) -> dict[str, Any]:
    return {"from": sender, "to": receiver, "type": type} | fields


def event(*targets: str, **fields: Any) -> dict[str, Any]:
    return {"coordination_type": "delegation", "target_agents": list(targets)} | fields


def message_tuples(trace):
    return [(m.sender, m.receiver, m.type) for m in trace.messages]


RUN = {
    "execution_id": "exec",
    "tool_calls": [
        call("read", "researcher", 2.0, 3.0),
        call("delegate_analysis", "manager", 1.5, 4.0),
        call("delegate_research", "manager", 1.0, 9.0),
        call("save", "manager", 9.5, 10.0),
    ],
    "agent_interactions": [
        asks("manager", "researcher", query="q", task_type="research"),
        asks("manager", "analyst", query="r", task_type="analysis"),
    ],
    "coordination_events": [
        event("researcher", query="q", task_type="research"),
        event("analyst", query="r", task_type="analysis"),
    ],
    "timing_data": {"start_time": 0.0, "end_time": 20.0},
}


def test_a_delegation_is_a_run_as_long_as_its_call():
    trace = agents_eval_trace(RUN)
    runs = {
        span.id: (span.name, span.parent, span.start, span.end)
        for span in trace.spans
        if span.kind == "agent"
    }
    assert runs == {
        "run-manager": ("manager", None, 1.0, 10.0),
        "delegation-0": ("researcher", "call-2", 1.0, 9.0),
        "delegation-1": ("analyst", "call-1", 1.5, 4.0),
    }
    parents = {span.name: span.parent for span in trace.spans if span.kind == "tool"}
    assert parents == {
        "read": "delegation-0",
        "delegate_analysis": "run-manager",
        "delegate_research": "run-manager",
        "save": "run-manager",
    }
    assert trace.seconds == 9.0
    assert trace.problems == ()


def test_delegating_calls_are_calls_of_who_delegates():
    calls = agents_eval_trace(RUN).tool_calls
    assert [(c.name, c.agent) for c in calls] == [
        ("delegate_research", "manager"),
        ("delegate_analysis", "manager"),
        ("read", "researcher"),
        ("save", "manager"),
    ]


def test_events_that_repeat_an_interaction_are_the_same_event_and_results_come_back():
    assert message_tuples(agents_eval_trace(RUN)) == [
        ("manager", "researcher", "task_request"),
        ("manager", "analyst", "task_request"),
        ("analyst", "manager", "result_delivery"),
        ("researcher", "manager", "result_delivery"),
    ]


def test_events_of_their_own_coordinate():
    events = [
        *RUN["coordination_events"],
        event("analyst", query="another"),
        event("researcher", "analyst", coordination_type="handoff", manager_agent="boss"),
        event("analyst", coordination_type="sync", timestamp=3.0),
    ]
    extra = message_tuples(agents_eval_trace(RUN | {"coordination_events": events}))[4:]
    assert extra == [
        ("manager", "analyst", "coordination"),
        ("boss", "researcher", "handoff"),
        ("boss", "analyst", "handoff"),
        ("manager", "analyst", "coordination"),
    ]


def test_an_interaction_listed_twice_needs_two_events_to_repeat_it():
    twice = [asks("m", "s"), asks("m", "s")]
    document = {"tool_calls": [], "agent_interactions": twice, "coordination_events": [event("s")] * 3}
    assert message_tuples(agents_eval_trace(document)) == [("m", "s", "task_request")] * 2 + [
        ("m", "s", "coordination")
    ]


def test_a_result_that_is_listed_is_not_added_again():
    document = {
        "tool_calls": [call("delegate_x", "m", 1.0, 2.0)],
        "agent_interactions": [asks("m", "s"), asks("s", "m", "result"), asks("m", "s", "gossip")],
    }
    assert [kind for *_, kind in message_tuples(agents_eval_trace(document))] == [
        "task_request",
        "result_delivery",
        "gossip",
    ]


def test_a_delegation_that_was_never_logged_gets_no_result():
    document = {
        "tool_calls": [call("read", "m", 1.0, 2.0), call("look", "s", 1.2, 1.5)],
        "agent_interactions": [asks("m", "s")],
    }
    trace = agents_eval_trace(document)
    assert message_tuples(trace) == [("m", "s", "task_request")]
    spans = {span.id: span for span in trace.spans}
    assert spans["delegation-0"].ok is None
    assert spans["delegation-0"].parent == "run-m"
    assert spans["call-1"].parent == "delegation-0"


def test_nested_runs_are_distinguished_by_time():
    document = {
        "tool_calls": [
            call("look", "s", 1.2, 1.5),
            call("delegate_a", "m", 1.0, 2.0),
            call("look", "s", 3.2, 3.5),
            call("delegate_a", "m", 3.0, 4.0),
            call("look", "s", 6.0, 7.0),
        ],
        "agent_interactions": [asks("m", "s"), asks("m", "s")],
    }
    trace = agents_eval_trace(document)
    places = [span.parent for span in trace.spans if span.name == "look"]
    assert places == ["delegation-0", "delegation-1", "run-s"]


def test_without_times_nothing_is_made_up():
    document = {
        "tool_calls": [call("delegate_a", "m", None, None), call("look", "s", None, None, success=False)],
        "agent_interactions": [asks("m", "s")],
    }
    trace = agents_eval_trace(document)
    assert trace.seconds is None
    assert [c.ok for c in trace.tool_calls] == [True, False]
    assert trace.tool_calls[1].agent == "s"
    assert [kind for *_, kind in message_tuples(trace)] == ["task_request", "result_delivery"]


def test_stated_times_stand_in_for_calls_without():
    document = {
        "tool_calls": [call("look", "m", None, None)],
        "timing_data": {"start": "2026-01-01", "end": "2026-01-02"},
    }
    trace = agents_eval_trace(document)
    assert trace.seconds == 86_400.0


def test_agents_that_delegate_to_each_other_form_no_loop():
    document = {
        "tool_calls": [call("delegate_a", "x", 1.0, 9.0), call("delegate_b", "y", 2.0, 8.0)],
        "agent_interactions": [asks("x", "y", task_type="a"), asks("y", "x", task_type="b")],
    }
    trace = agents_eval_trace(document)
    assert trace.problems == ()
    assert {span.id: span.parent for span in trace.spans} == {
        "run-x": None,
        "delegation-0": "call-0",
        "delegation-1": "call-1",
        "call-0": "run-x",
        "call-1": "delegation-0",
    }


def test_the_stored_graph_has_delegations_that_the_trace_lacks(tmp_path):
    (tmp_path / "trace.json").write_text(
        json.dumps({"tool_calls": [], "agent_interactions": [asks("m", "s")]})
    )
    edges = [
        {"interaction": "delegation", "source": "m", "target": "s"},
        {"interaction": "delegation", "source": "m", "target": "t"},
        {"interaction": "tool_call", "source": "m", "target": "look"},
    ]
    (tmp_path / "agent_graph.json").write_text(json.dumps({"edges": edges}))
    assert [receiver for _, receiver, _ in message_tuples(read_run(tmp_path))] == ["s", "t"]


def test_incomplete_messages_are_left_out_and_reported():
    trace = agents_eval_trace({"tool_calls": [3, {}], "agent_interactions": [{"from": "a"}, None]})
    assert [problem.kind for problem in trace.problems] == ["bad_message"]
    assert [(c.name, c.agent) for c in trace.tool_calls] == [("", "manager")]


@pytest.mark.parametrize("document", [[], 3, {"tool_calls": 3}])
def test_what_is_no_run_is_an_error(document):
    with pytest.raises(TraceError, match="tool_calls"):
        agents_eval_trace(document)


def test_a_run_folder_holds_one_trace(tmp_path):
    (tmp_path / "trace.json").write_text('{"tool_calls": []}\n{"tool_calls": []}')
    with pytest.raises(TraceError, match="found 2"):
        read_run(tmp_path)


def test_the_real_runs_give_the_counts_that_come_with_them():
    folder = data("traces/agents-eval")
    expected = json.loads((folder / "expected.json").read_text())
    runs = sorted((folder / "mas").iterdir())
    assert len(runs) == sum(name.startswith("mas/") for name in expected)
    for run in runs:
        wanted, trace = expected[f"mas/{run.name}"], read_run(run)
        facts = trace_facts([trace], format="agents-eval")
        assert sorted(trace.agents) == wanted["agents"]
        assert len(trace.tool_calls) == sum(facts.tools.values()) == wanted["tool_calls"]
        assert facts.failed_tool_spans == wanted["failed_tools"]
        assert [list(pair) for pair in facts.agent_to_agent] == wanted["agent_to_agent"]
        delegating = sum(count for tool, count in facts.tools.items() if tool.startswith("delegate_"))
        assert delegating == wanted["delegation_tool_calls"]
        assert trace.seconds == pytest.approx(wanted["true_duration"], abs=2e-6)
        assert facts.problems == []
