"""Who hands over to whom, and what agents are called, by the spans of each framework."""

import pytest

from tests.traces.opentelemetry.reading import asked, read
from tests.traces.opentelemetry.spans import agent, span, tool
from trivium.traces.process.totals import trace_facts


class TestHandoffs:
    def test_nested_the_tool_is_the_caller_s(self):
        trace = read(
            agent("inner", "aide", parent="ask", at=(2, 3)),
            tool("ask", parent="outer", at=(1, 4)),
            agent("outer", "boss", at=(0, 5)),
        )
        assert asked(trace) == [("boss", "aide", "task_request")]
        assert trace.tool_calls[0].agent == "boss"

    def test_siblings_with_a_span_between(self):
        triage = {"openinference.span.kind": "AGENT", "agent.name": "triage", "graph.node.id": "triage"}
        billing = {
            "openinference.span.kind": "AGENT",
            "agent.name": "billing",
            "graph.node.id": "billing",
            "graph.node.parent_id": "triage",
        }
        hand = {"openinference.span.kind": "TOOL", "input.value": "triage", "output.value": "billing"}
        root = span("root", {"openinference.span.kind": "AGENT"}, at=(0, 9), name="flow")
        first = span("first", triage, parent="root", at=(1, 4))
        second = span("second", billing, parent="root", at=(5, 8))
        trace = read(
            root, first, span("hand", hand, parent="first", at=(3, 4), name="handoff to billing"), second
        )
        assert asked(trace) == [("triage", "billing", "handoff")]
        assert trace.agents == ("triage", "billing")
        assert trace.tool_calls == (), "a hand-off is no call of a tool"
        assert trace_facts([trace]).tools == {"handoff to billing": 1}
        # without the span between, the node that the receiver names is the sender
        assert asked(read(root, first, second)) == [("triage", "billing", "handoff")]

    def test_a_nested_agent_that_names_the_node_above_is_asked_once(self):
        def named(name, above=None):
            node = {"graph.node.parent_id": above} if above else {}
            return {
                "openinference.span.kind": "AGENT",
                "agent.name": name,
                "graph.node.id": f"n-{name}",
            } | node

        trace = read(
            span("a", named("a"), at=(0, 9)),
            span("b", named("b", "n-a"), parent="a", at=(1, 2)),
            span("c", named("c", "n-b"), parent="a", at=(3, 4)),
        )
        assert asked(trace) == [
            ("a", "b", "task_request"),
            ("a", "c", "task_request"),
            ("b", "c", "handoff"),
        ]

    def test_a_transfer_is_one_message_nested_or_not(self):
        transfer = {"gen_ai.transfer.target.name": "aide"}
        outer, call = agent("boss", at=(0, 5)), tool("to", "transfer", transfer, parent="boss", at=(1, 4))
        nested = read(outer, call, agent("aide", parent="to", at=(2, 3)))
        assert asked(nested) == [("boss", "aide", "task_request")]
        beside = read(outer, call, agent("aide", at=(6, 7)))
        assert asked(beside) == [("boss", "aide", "handoff")]

    def test_of_many_transfers_each_is_held_against_its_own_time(self):
        transfer = {"gen_ai.transfer.target.name": "aide"}
        spans = [agent("boss", at=(0, 99))]
        for number in range(9):
            at = 10 * number + 1
            spans.append(tool(f"to{number}", "transfer", transfer, parent="boss", at=(at, at + 4)))
            if number % 3:
                spans.append(agent(f"aide{number}", "aide", parent=f"to{number}", at=(at + 1, at + 3)))
        found = [m for m in read(*spans).messages if m.type != "result_delivery"]
        assert [m.type for m in found] == ["handoff", "task_request", "task_request"] * 3

    @pytest.mark.parametrize(
        ("caller", "told"),
        [
            (
                {"gen_ai.caller.name": "boss", "gen_ai.caller.type": "agent"},
                [("boss", "aide", "task_request")],
            ),
            ({"gen_ai.caller.name": "boss"}, [("boss", "aide", "task_request")]),
            ({"gen_ai.caller.name": "stranger"}, []),
            ({"gen_ai.caller.name": "flow", "gen_ai.caller.type": "workflow"}, []),
            ({"gen_ai.caller.name": "aide", "gen_ai.caller.type": "agent"}, []),
        ],
    )
    def test_a_stated_caller_is_the_sender_if_it_is_an_agent(self, caller, told):
        aide = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "aide"} | caller
        assert asked(read(agent("boss", at=(0, 1)), span("aide", aide, at=(2, 3)))) == told

    def test_stated_ends_of_a_handoff(self):
        ends = {"gen_ai.handoff.from_agent": "a", "gen_ai.handoff.to_agent": "b"}
        assert asked(read(agent("a"), span("h", ends, at=(2, 3)), agent("b", at=(4, 5)))) == [
            ("a", "b", "handoff")
        ]


class TestNamesOfAgents:
    def test_a_run_that_goes_by_two_names_has_the_one_that_says_more(self):
        def of(operation, name, run="r1"):
            return {
                "gen_ai.operation.name": operation,
                "gen_ai.agent.name": name,
                "gen_ai.agent.call.id": run,
                "gen_ai.tool.name": "t",
            }

        trace = read(
            span("run", of("invoke_agent", "agent"), at=(0, 9)),
            span("t", of("execute_tool", "auditor"), parent="run", at=(1, 2)),
            span("c", of("chat", "agent"), parent="run", at=(3, 4)),
        )
        assert trace.agents == ("auditor",)
        odd = of("chat", "x") | {"gen_ai.agent.call.id": 7}
        assert read(span("c", odd), span("d", of("chat", "y"), at=(2, 3))).agents == ("x", "y")

    def test_a_nameless_agent_has_its_span_s_name_where_no_other_agent_runs(self):
        kind = {"openinference.span.kind": "AGENT"}
        alone = read(span("a", kind, name="ToolCallingAgent.run", at=(0, 9)), tool("t", parent="a"))
        assert alone.agents == ("ToolCallingAgent.run",)
        around = read(
            span("a", kind, name="flow", at=(0, 9)), span("b", kind | {"agent.name": "x"}, parent="a")
        )
        assert around.agents == ("x",)
