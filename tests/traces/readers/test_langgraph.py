"""LangGraph: whose a run is, by the metadata of graphs as supervisors, swarms, teams and maps run them."""

import json
from typing import Any

import pytest

from tests.goldens import data
from trivium.traces.process.totals import trace_facts
from trivium.traces.readers import read_documents
from trivium.traces.readers.collection import read_path

CLOCK = iter(range(1_700_000_000, 1_800_000_000))


def run(kind: str, name: str, *inside: Any, ns: str | None = None, step: Any = None, **fields: Any) -> Any:
    """A run with the runs inside it; metadata is handed down as LangGraph does."""
    metadata = dict(fields.pop("metadata", {}))
    if ns is not None:
        metadata |= {"langgraph_checkpoint_ns": ns, "langgraph_node": name_of(ns)}
    if step is not None:
        metadata["langgraph_step"] = step
    start = next(CLOCK)
    return {
        "name": name,
        "run_type": kind,
        "start_time": start,
        "end_time": start + 1,
        "metadata": metadata,
        "child_runs": list(inside),
    } | fields


def node(ns: str, step: int, *inside: Any, **fields: Any) -> Any:
    return run("chain", name_of(ns), *inside, ns=ns, step=step, **fields)


def name_of(ns: str) -> str:
    return ns.rsplit("|", maxsplit=1)[-1].partition(":")[0]


def tree(root: Any) -> Any:
    """The runs as the tracer nests them: ids given, times enclosing, metadata handed down."""
    number = 0
    stack = [(root, {})]
    order = []
    while stack:
        value, above = stack.pop()
        number += 1
        value["id"], value["trace_id"] = f"run-{number}", "run-1"
        value["extra"] = {"metadata": above | value.pop("metadata")}
        value["extra"] |= {"tool_call_id": value.pop("call")} if "call" in value else {}
        order.append(value)
        stack += [(child, value["extra"]["metadata"]) for child in reversed(value["child_runs"])]
    for place, value in enumerate(order):
        value["start_time"] = 1_700_000_000 + place
    for value in reversed(order):
        ends = [child["end_time"] for child in value["child_runs"]]
        value["end_time"] = max([value["start_time"] + 0.5, *ends])
    return root


def read_one(root: Any, **options: Any):
    _, (trace,) = read_documents([tree(root)], source="runs")
    return trace


def message_tuples(trace):
    return [(m.sender, m.receiver, m.type) for m in trace.messages]


def react(name: str, ns: str, *tools: Any) -> Any:
    """A prebuilt agent as a sub-graph: a chain of the node's name with the nodes model and tools."""
    prefix = f"{ns}|" if ns else ""
    inner = [node(f"{prefix}model:1", 1, run("llm", "M"), run("chain", "route"))]
    if tools:
        inner.append(node(f"{prefix}tools:2", 2, *tools))
        inner.append(node(f"{prefix}model:3", 3, run("llm", "M")))
    return run("chain", name, *inner)


def test_the_real_runs_have_the_counts_worked_out_by_hand():
    path = data("traces/langgraph/langsmith_runs.json")
    expected = json.loads((path.parent / "expected.json").read_text())
    found, traces = read_path(path)
    facts = trace_facts(traces, format=found)
    assert found == "langsmith"
    assert facts.spans == expected[path.name]["runs"]
    assert sum(span.parent is None for span in traces[0].spans) == expected[path.name]["roots"]
    same = expected["openinference_otlp.json"]  # the same run, recorded by an instrumentation
    assert sorted(facts.agent_runs) == same["agents"]
    assert [list(pair) for pair in facts.agent_to_agent] == same["agent_to_agent"]
    assert facts.tools == same["tools"]
    assert facts.failed_tool_spans == same["failed_tool_spans"]
    assert facts.llm_input_tokens == same["llm_input_tokens"]
    assert facts.llm_output_tokens == same["llm_output_tokens"]
    assert facts.agent_runs == {"supervisor": 3, "researcher": 1, "analyst": 1}
    assert [call.agent for call in traces[0].tool_calls] == ["researcher"] * 2 + ["analyst"] * 2
    assert facts.problems == []


def test_a_prebuilt_agent_alone_is_one_agent_by_its_name():
    for title, given, expected in (
        ("helper", None, "helper"),
        ("LangGraph", "helper", "helper"),
        ("LangGraph", None, "model"),
    ):
        root = react(title, "", run("tool", "look"))
        if given is not None:
            root["metadata"] = {"lc_agent_name": given}
        trace = read_one(root)
        assert trace_facts([trace]).agent_runs == {expected: 1}
        assert [call.agent for call in trace.tool_calls] == [expected]
        assert trace.messages == ()


def test_one_node_that_asks_a_model_makes_the_graph_one_agent():
    root = run(
        "chain",
        "bot",
        node("load:1", 1),
        node("chat:2", 2, run("llm", "M")),
        node("tools:3", 3, run("tool", "look")),
        node("chat:4", 4, run("llm", "M")),
    )
    assert trace_facts([read_one(root)]).agent_runs == {"bot": 1}


def test_a_swarm_hands_over_by_tools_and_a_raised_command_is_no_failure():
    transfer = {"__handoff_destination": "bob"}
    alice = react("alice", "alice:1", run("tool", "ask_bob", metadata=transfer))
    alice["error"] = "ParentCommand(Command(graph='__parent__', update={}, goto='bob'))Traceback …"
    root = run(
        "chain",
        "swarm",
        node("alice:1", 1, alice, error="ParentCommand(Command(goto='bob'))"),
        node("bob:2", 2, react("bob", "bob:2", run("tool", "transfer_to_alice"), run("tool", "look"))),
        node("alice:3", 3, react("alice", "alice:3")),
    )
    trace = read_one(root)
    assert message_tuples(trace) == [("alice", "bob", "handoff"), ("bob", "alice", "handoff")]
    assert [(call.name, call.agent) for call in trace.tool_calls] == [("look", "bob")]
    assert trace_facts([trace]).agent_runs == {"alice": 2, "bob": 1}
    assert all(span.ok for span in trace.spans)


def test_sends_run_in_parallel_and_come_back_together():
    workers = [node(f"worker:{n}", 2, run("llm", "M")) for n in range(3)]
    root = run(
        "chain", "map", node("plan:1", 1, run("llm", "M")), *workers, node("merge:9", 3, run("llm", "M"))
    )
    trace = read_one(root)
    assert trace_facts([trace]).agent_to_agent == [("plan", "worker", 3), ("worker", "merge", 3)]
    assert trace.problems == ()


def test_several_after_several_are_assumed_to_follow_each_other_and_reported():
    def nodes(step: int, *names: str) -> list[Any]:
        return [node(f"{name}:{step}{name}", step, run("llm", "M")) for name in names]

    trace = read_one(run("chain", "g", *nodes(1, "a", "b"), *nodes(2, "b", "c")))
    assert trace_facts([trace]).agent_to_agent == [("a", "b", 1), ("a", "c", 1), ("b", "c", 1)]
    assert [problem.kind for problem in trace.problems] == ["ambiguous_order"]
    many = [f"n{number}" for number in range(20)]
    trace = read_one(run("chain", "g", *nodes(1, *many), *nodes(2, *many)))
    assert trace.messages == ()
    assert "no message between them is recorded" in trace.problems[0].what


def test_a_node_that_is_tried_again_is_two_runs_and_one_step():
    root = run(
        "chain",
        "g",
        node("plan:1", 1, run("llm", "M")),
        node("work:2", 2, run("llm", "M"), error="TimeoutError()"),
        node("work:2", 2, run("llm", "M")),
    )
    trace = read_one(root)
    assert message_tuples(trace) == [("plan", "work", "handoff")]
    runs = [span.ok for span in trace.spans if span.agent == "work" and span.kind == "agent"]
    assert runs == [False, True]


def test_tools_of_a_node_of_their_own_belong_to_who_asked_for_them():
    def asks(*calls: str) -> Any:
        outputs = {"generations": [[{"message": {"tool_calls": [{"id": call} for call in calls]}}]]}
        return run("llm", "M", outputs=outputs)

    root = run(
        "chain",
        "g",
        node("Researcher:1", 1, asks("c1")),
        node("call_tool:2", 2, run("tool", "search", call="c1")),
        node("Charts:3", 3, asks("c1")),  # ids are no keys: the nearest call before counts
        node("call_tool:4", 4, run("tool", "plot", call="c1"), run("tool", "save")),
        node("Researcher:5", 5, run("llm", "M")),
    )
    trace = read_one(root)
    assert [(call.name, call.agent) for call in trace.tool_calls] == [
        ("search", "Researcher"),
        ("plot", "Charts"),
        ("save", "Charts"),
    ]
    assert trace_facts([trace]).agent_runs == {"Researcher": 2, "Charts": 1}
    assert message_tuples(trace) == [("Researcher", "Charts", "handoff"), ("Charts", "Researcher", "handoff")]


def test_teams_within_teams_are_agents_where_they_run_graphs():
    search = node("team:1|search:2", 2, react("search", "team:1|search:2", run("tool", "look")))
    lead = node("team:1|lead:1", 1, run("llm", "M"))
    root = run(
        "chain",
        "g",
        node("boss:0", 1, run("llm", "M")),
        node("team:1", 2, run("chain", "team", lead, search)),
    )
    trace = read_one(root)
    assert trace_facts([trace]).agent_runs == {"boss": 1, "team": 1, "search": 1}
    assert [call.agent for call in trace.tool_calls] == ["search"]
    assert sorted(message_tuples(trace)) == [
        ("boss", "team", "handoff"),
        ("search", "team", "result_delivery"),
        ("team", "search", "task_request"),
    ]


@pytest.mark.parametrize("title", ["researcher", "LangGraph"])
def test_a_graph_that_a_tool_runs_is_an_agent_asked_by_the_tool_s_caller(title):
    inner = react(title, "tools:2", run("tool", "look"))
    root = run(
        "chain",
        "boss",
        node("model:1", 1, run("llm", "M")),
        node("tools:2", 2, run("tool", "researcher", inner)),
        node("model:3", 3, run("llm", "M")),
    )
    trace = read_one(root)
    assert message_tuples(trace) == [
        ("boss", "researcher", "task_request"),
        ("researcher", "boss", "result_delivery"),
    ]
    assert [(call.name, call.agent) for call in trace.tool_calls] == [
        ("researcher", "boss"),
        ("look", "researcher"),
    ]


def test_hooks_and_hidden_nodes_are_no_agents():
    root = run(
        "chain",
        "g",
        node("__start__:0", 0, run("llm", "M")),
        node("Summary.before_model:1", 1, run("llm", "M")),
        node("one:2", 2, run("llm", "M")),
        node("two:3", 3, run("llm", "M")),
    )
    assert trace_facts([read_one(root)]).agent_runs == {"one": 1, "two": 1}


def test_where_models_are_not_recorded_all_nodes_are_agents():
    root = run("chain", "g", node("one:1", 1), node("two:2", 2, run("tool", "x")), node("three:3", 3))
    trace = read_one(root)
    assert trace_facts([trace]).agent_runs == {"one": 1, "three": 1}
    assert [call.agent for call in trace.tool_calls] == ["one"]


def test_old_versions_without_a_namespace_are_identified_by_node_and_step():
    def old(name: str, step: int, *inside: Any) -> Any:
        metadata = {"langgraph_node": name, "langgraph_step": step}
        return run("chain", name, *inside, metadata=metadata)

    trace = read_one(
        run(
            "chain",
            "g",
            old("a", 1, run("llm", "M")),
            old("b", 2, run("llm", "M")),
            old("a", 3, run("llm", "M")),
        )
    )
    assert message_tuples(trace) == [("a", "b", "handoff"), ("b", "a", "handoff")]


def test_without_steps_the_order_is_that_of_the_starts():
    trace = read_one(
        run("chain", "g", *(run("chain", n, run("llm", "M"), ns=f"{n}:{n}") for n in ("a", "b", "c")))
    )
    assert message_tuples(trace) == [("a", "b", "handoff"), ("b", "c", "handoff")]


def test_runs_whose_nodes_are_missing_are_their_namespace_s():
    def lost(kind: str, ns: str) -> Any:
        return tree(run(kind, "x", ns=ns)) | {"id": ns + kind, "trace_id": "t", "parent_run_id": "gone"}

    runs = [
        lost("llm", "researcher:1|model:2"),
        lost("tool", "researcher:1|tools:3"),
        lost("llm", "model:1"),
        lost("chain", "writer:4|model:9"),
    ]
    _, (trace,) = read_documents(runs, source="runs")
    assert [(span.kind, span.agent) for span in trace.spans] == [
        ("llm", "researcher"),
        ("tool", "researcher"),
        ("llm", None),
        ("other", None),
    ]


def test_opik_s_graph_is_the_trace_itself():
    def row(id: str, type: str, node_: str, step: int, parent: str | None = None) -> Any:
        metadata = {
            "langgraph_node": node_,
            "langgraph_step": step,
            "langgraph_checkpoint_ns": f"{node_}:{step}",
        }
        return {
            "row": "span",
            "id": id,
            "trace_id": "t",
            "parent_span_id": parent,
            "name": node_ if type == "general" else id,
            "type": type,
            "start_time": 1_700_000_000 + step,
            "end_time": 1_700_000_001 + step,
            "metadata": metadata,
        }

    trace_row = {"row": "trace", "id": "t", "name": "helper", "start_time": 1_700_000_000, "input": {}}
    alone = [
        row("1", "general", "model", 1),
        row("m", "llm", "model", 1, "1"),
        row("2", "general", "tools", 2),
    ]
    _, (trace,) = read_documents([trace_row, *alone, row("x", "tool", "tools", 2, "2")], source="rows")
    assert [call.agent for call in trace.tool_calls] == ["helper"]
    two = [row("1", "general", "a", 1), row("m", "llm", "a", 1, "1"), row("2", "general", "b", 2)]
    _, (trace,) = read_documents([trace_row, *two, row("n", "llm", "b", 2, "2")], source="rows")
    assert message_tuples(trace) == [("a", "b", "handoff")]
