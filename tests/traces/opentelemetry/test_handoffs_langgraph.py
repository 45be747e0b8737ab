"""LangGraph's spans: which nodes are agents, and what they say to each other."""

import json

import pytest

from tests.traces.opentelemetry.reading import asked, node, read
from tests.traces.opentelemetry.spans import attributes, span
from trivium.traces.process.totals import trace_facts


class TestLangGraph:
    def test_parallel_nodes_of_one_step_are_each_asked_and_each_answer(self):
        root = span("root", {"openinference.span.kind": "CHAIN"}, at=(0, 99), name="graph")
        spans = [root]
        plan = [("boss", 1, 0), ("a", 2, 10), ("b", 2, 11), ("boss", 3, 20)]
        for number, (name, step, start) in enumerate(plan):
            path = f"{name}:{number}"
            spans.append(node(f"n{number}", path, step, parent="root", name=name, at=(start, start + 5)))
            spans.append(
                node(f"m{number}", path, step, "LLM", parent=f"n{number}", at=(start + 1, start + 2))
            )
        trace = read(*spans)
        assert trace_facts([trace]).agent_runs == {"boss": 2, "a": 1, "b": 1}
        assert asked(trace) == [
            ("boss", "a", "handoff"),
            ("boss", "b", "handoff"),
            ("a", "boss", "handoff"),
            ("b", "boss", "handoff"),
        ]

    def test_without_steps_runs_follow_one_another(self):
        spans = []
        for number, name in enumerate(["a", "b", "a"]):
            path = f"{name}:{number}"
            spans.append(node(f"n{number}", path, name=name, at=(10 * number, 10 * number + 5)))
            spans.append(
                node(
                    f"m{number}", path, kind="LLM", parent=f"n{number}", at=(10 * number + 1, 10 * number + 2)
                )
            )
        assert asked(read(*spans)) == [("a", "b", "handoff"), ("b", "a", "handoff")]

    def test_a_graph_with_one_node_that_asks_is_one_agent(self):
        trace = read(
            span("root", {"openinference.span.kind": "AGENT"}, at=(0, 99), name="my_agent"),
            node("n0", "model:1", 1, parent="root", name="model", at=(1, 5)),
            node("m0", "model:1", 1, "LLM", parent="n0", at=(2, 3)),
            node("n1", "tools:2", 2, parent="root", name="tools", at=(6, 9)),
            node("t", "tools:2", 2, "TOOL", parent="n1", at=(7, 8), name="add"),
            node("n2", "model:3", 3, parent="root", name="model", at=(10, 15)),
            node("m2", "model:3", 3, "LLM", parent="n2", at=(11, 12)),
        )
        assert trace.agents == ("my_agent",)
        assert trace.messages == ()
        assert trace.tool_calls[0].agent == "my_agent"

    def test_a_node_that_calls_no_model_is_not_an_agent(self):
        trace = read(
            node("prepare", "prepare:1", 1, name="prepare", at=(0, 1)),
            node("n0", "a:1", 2, name="a", at=(2, 5)),
            node("m0", "a:1", 2, "LLM", parent="n0", at=(3, 4)),
            node("n1", "b:1", 3, name="b", at=(6, 9)),
            node("sub", "b:1|model:2", 1, parent="n1", name="model", at=(7, 8)),
        )
        assert trace.agents == ("a", "b")
        assert trace.spans[0].kind == "other"

    def test_places_as_traceloop_reports_them(self):
        place = "traceloop.association.properties.langgraph_checkpoint_ns"
        spans = []
        for number, name in enumerate(["a", "b"]):
            told = {place: f"{name}:{number}", "traceloop.span.kind": "task", "traceloop.entity.name": name}
            start = 10 * number
            spans.append(span(f"n{number}", told, at=(start, start + 5)))
            asks = {place: f"{name}:{number}", "gen_ai.operation.name": "chat"}
            spans.append(span(f"m{number}", asks, parent=f"n{number}", at=(start + 1, start + 2)))
        assert asked(read(*spans)) == [("a", "b", "handoff")]

    def test_a_tool_that_hands_over_is_no_call(self):
        trace = read(
            node("n0", "a:1", 1, name="a", at=(0, 5)),
            node("m0", "a:1", 1, "LLM", parent="n0", at=(1, 2)),
            node("t0", "a:1", 1, "TOOL", parent="n0", name="transfer_to_b", at=(3, 4)),
            node("n1", "b:2", 2, name="b", at=(6, 9)),
            node("m1", "b:2", 2, "LLM", parent="n1", at=(7, 8)),
        )
        assert trace.tool_calls == ()
        assert asked(trace) == [("a", "b", "handoff")]

    @staticmethod
    def exchange(message, *, given="cats", tool="search", asked="search"):
        """A model asks for a call, and the tool answers with a message."""
        call = {"id": "call-1", "name": asked, "args": {"query": "cats"}}
        answer = {"generations": [[{"message": {"kwargs": {"tool_calls": [call, {"id": 7}]}}}]]}
        model = node("m", "a:1|model:1", 1, "LLM", parent="a", at=(1, 2))
        model["attributes"] += attributes({"output.value": json.dumps(answer)})
        used = node("t", "a:1|tools:1", 2, "TOOL", parent="a", name=tool, at=(3, 4))
        used["attributes"] += attributes({"input.value": given, "output.value": json.dumps(message)})
        return read(node("a", "a:1", 1, name="a", at=(0, 9)), model, used).tool_calls[0]

    @pytest.mark.parametrize("wrapped", ["data", "kwargs", None])
    def test_a_tool_has_the_arguments_that_were_asked_for_and_what_its_message_says(self, wrapped):
        fields = {"type": "tool", "content": "a page", "tool_call_id": "call-1", "status": "success"}
        call = self.exchange({wrapped: fields} if wrapped else fields)
        assert (call.input, call.output, call.ok, call.agent) == ({"query": "cats"}, "a page", True, "a")

    def test_a_message_that_reports_an_error_is_an_error(self):
        fields = {"type": "tool", "content": "no page", "tool_call_id": "call-1", "status": "error"}
        call = self.exchange({"data": fields})
        assert (call.ok, call.attributes["error"]) == (False, "no page")

    @pytest.mark.parametrize(
        ("fields", "options", "given"),
        [
            ({"tool_call_id": "call-2"}, {}, "cats"),
            ({"tool_call_id": "call-1"}, {"asked": "other"}, "cats"),
            ({}, {}, "cats"),
            ({"tool_call_id": "call-1"}, {"given": '{"query": "dogs"}'}, {"query": "dogs"}),
        ],
    )
    def test_arguments_are_those_of_the_tool_where_no_model_asked_for_the_call(self, fields, options, given):
        call = self.exchange({"data": {"type": "tool", "content": "x"} | fields}, **options)
        assert (call.input, call.output) == (given, "x")

    @pytest.mark.parametrize("output", [{"type": "human", "content": "x"}, {"data": 3}, ["x"], "x"])
    def test_what_is_no_message_of_a_tool_is_its_result(self, output):
        call = self.exchange(output)
        assert (call.input, call.output) == ("cats", json.dumps(output) if output == "x" else output)

    @pytest.mark.parametrize("metadata", ["no json", "[]", '{"langgraph_checkpoint_ns": 3}', '{"x": 1}', 7])
    def test_other_metadata_is_no_place(self, metadata):
        assert read(span("a", {"openinference.span.kind": "CHAIN", "metadata": metadata})).agents == ()
