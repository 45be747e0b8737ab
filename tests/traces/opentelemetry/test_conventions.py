"""What spans are read as, convention by convention."""

import json

import pytest

from tests.traces.opentelemetry.spans import agent, attributes, chat, request, span, span_id, tool
from tests.traces.samples import kinds
from trivium.traces.facts import trace_facts
from trivium.traces.readers import read_documents, read_trace
from trivium.traces.trace import SpanUsage


def read(*spans):
    return read_trace(request(*spans), "otlp")


def one(attrs, **rest):
    """One span, read."""
    (found,) = read(span("s", attrs, **rest)).spans
    return found


def seen(attrs, **rest):
    found = one(attrs, **rest)
    return found.kind, found.name, found.agent


def asked(trace):
    return [(m.sender, m.receiver, m.type) for m in trace.messages if m.type != "result_delivery"]


@pytest.mark.parametrize(
    ("operation", "kind"),
    [
        ("invoke_agent", "agent"),
        ("execute_tool", "tool"),
        ("retrieval", "tool"),
        ("chat", "llm"),
        ("generate_content", "llm"),
        ("text_completion", "llm"),
        ("embeddings", "llm"),
        ("create_agent", "other"),
        ("invoke_workflow", "other"),
        ("plan", "other"),
        ("something_new", "other"),
    ],
)
def test_operations_of_the_genai_conventions(operation, kind):
    assert one({"gen_ai.operation.name": operation, "gen_ai.request.model": "m"}).kind == kind


@pytest.mark.parametrize(
    ("attrs", "name", "is_read_as"),
    [
        # names are attributes first, what the span's name says next
        ({"gen_ai.operation.name": "invoke_agent"}, "invoke_agent Ann", ("agent", "Ann", "Ann")),
        (
            {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.id": "asst_1"},
            "x",
            ("agent", "asst_1", "asst_1"),
        ),
        ({"gen_ai.operation.name": "execute_tool"}, "execute_tool add", ("tool", "add", None)),
        ({"gen_ai.operation.name": "retrieval", "gen_ai.data_source.id": "d"}, "x", ("tool", "d", None)),
        (
            {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m", "gen_ai.response.model": "m-1"},
            "x",
            ("llm", "m-1", None),
        ),
        ({"gen_ai.operation.name": "chat", "gen_ai.agent.name": "Ann"}, "chat", ("llm", "chat", "Ann")),
        # what makes PydanticAI's answer is none of the agent's tools
        (
            {
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": "final_result",
                "logfire.msg": "running output function: final_result",
            },
            "execute_tool final_result",
            ("other", "final_result", None),
        ),
        (
            {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "f"},
            "running output function",
            ("other", "f", None),
        ),
        ({"gen_ai.tool.name": "f"}, "running output function", ("other", "f", None)),
        # without an operation
        ({"gen_ai.tool.name": "add"}, "running tool", ("tool", "add", None)),
        ({"agent_name": "Ann", "model_name": "m"}, "agent run", ("agent", "Ann", "Ann")),
        ({"gen_ai.request.model": "m", "gen_ai.system": "openai"}, "chat m", ("llm", "m", None)),
        ({"llm.request.type": "chat"}, "openai.chat", ("llm", "openai.chat", None)),
        ({"gen_ai.agent.name": "Ann", "http.method": "GET"}, "GET", ("other", "GET", "Ann")),
        ({"ai.toolCall.name": "add"}, "ai.toolCall", ("tool", "add", None)),
        # OpenInference
        ({"openinference.span.kind": "AGENT", "agent.name": "Ann"}, "run", ("agent", "Ann", "Ann")),
        ({"openinference.span.kind": "AGENT", "graph.node.id": "Ann"}, "run", ("agent", "Ann", "Ann")),
        ({"openinference.span.kind": "TOOL", "tool.name": "add"}, "run", ("tool", "add", None)),
        ({"openinference.span.kind": "RETRIEVER"}, "docs", ("tool", "docs", None)),
        ({"openinference.span.kind": "RERANKER"}, "rank", ("tool", "rank", None)),
        ({"openinference.span.kind": "LLM", "llm.model_name": "m"}, "run", ("llm", "m", None)),
        ({"openinference.span.kind": "EMBEDDING", "embedding.model_name": "e"}, "x", ("llm", "e", None)),
        ({"openinference.span.kind": "CHAIN"}, "step", ("other", "step", None)),
        ({"openinference.span.kind": "GUARDRAIL"}, "guard", ("other", "guard", None)),
        # Traceloop
        (
            {"traceloop.span.kind": "agent", "traceloop.entity.name": "Ann"},
            "Ann.agent",
            ("agent", "Ann", "Ann"),
        ),
        ({"traceloop.span.kind": "tool", "traceloop.entity.name": "add"}, "add.tool", ("tool", "add", None)),
        ({"traceloop.span.kind": "workflow"}, "flow", ("other", "flow", None)),
        ({"traceloop.span.kind": "task"}, "task", ("other", "task", None)),
        # other services
        ({"http.request.method": "GET", "db.system": "x"}, "GET /", ("other", "GET /", None)),
        (None, "bare", ("other", "bare", None)),
    ],
)
def test_spans_are_read_by_what_they_carry(attrs, name, is_read_as):
    assert seen(attrs, name=name) == is_read_as


@pytest.mark.parametrize(
    ("attrs", "usage"),
    [
        ({"gen_ai.usage.input_tokens": 3, "gen_ai.usage.output_tokens": 2}, (3, 2, None)),
        ({"gen_ai.usage.prompt_tokens": 3, "gen_ai.usage.completion_tokens": 2}, (3, 2, None)),
        ({"llm.token_count.prompt": 3, "llm.token_count.completion": 2}, (3, 2, None)),
        ({"gen_ai.usage.input_tokens": "3", "operation.cost": 0.5}, (3, None, 0.5)),
        ({"gen_ai.usage.input_tokens": 3.0, "gen_ai.usage.output_tokens": 0}, (3, 0, None)),
    ],
)
def test_tokens_of_model_requests(attrs, usage):
    found = one({"gen_ai.operation.name": "chat"} | attrs).usage
    assert found == SpanUsage(input_tokens=usage[0], output_tokens=usage[1], cost_usd=usage[2])


@pytest.mark.parametrize("tokens", [-1, True, "many", 1.5, [1], {"a": 1}, 2**60, float("nan"), ""])
def test_what_is_no_number_of_tokens_is_none(tokens):
    assert one({"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": tokens}).usage is None


def test_totals_on_agents_are_not_added():
    total = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "a",
        "gen_ai.usage.input_tokens": 30,
        "gen_ai.aggregated_usage.input_tokens": 30,
    }
    trace = read(span("a", total, at=(0, 9)), chat("x", (10, 1), parent="a"), chat("y", (20, 2), parent="a"))
    facts = trace_facts([trace])
    assert (facts.llm_input_tokens, facts.llm_output_tokens) == (30, 3)


def test_a_request_recorded_by_two_instrumentations_counts_once():
    trace = read(
        agent("a", at=(0, 9)),
        chat("outer", (30, 3), parent="a", at=(1, 8)),
        span("http", parent="outer", at=(2, 7)),
        chat("first", (10, 1), parent="http", at=(3, 4)),
        chat("second", (20, 2), parent="http", at=(5, 6)),
    )
    facts = trace_facts([trace])
    assert (facts.llm_input_tokens, facts.llm_output_tokens) == (30, 3)
    untold = read(
        chat("outer", (30, 3), at=(1, 8)), span("in", {"gen_ai.operation.name": "chat"}, parent="outer")
    )
    assert trace_facts([untold]).llm_input_tokens == 30


def test_an_agent_recorded_by_its_caller_and_by_itself_ran_once():
    trace = read(
        agent("boss", at=(0, 9)),
        agent("call", "aide", parent="boss", at=(1, 8)),
        span("http", parent="call", at=(2, 7)),
        agent("serve", "aide", parent="http", at=(3, 6)),
        tool("look", parent="serve", at=(4, 5)),
    )
    facts = trace_facts([trace])
    assert facts.agent_runs == {"boss": 1, "aide": 1}
    assert asked(trace) == [("boss", "aide", "task_request")]
    assert trace.tool_calls[0].agent == "aide"


def test_an_agent_that_asks_itself_through_a_tool_runs_twice():
    trace = read(
        agent("a", at=(0, 9)), tool("t", parent="a", at=(1, 8)), agent("b", "a", parent="t", at=(2, 7))
    )
    assert trace_facts([trace]).agent_runs == {"a": 2}
    assert trace.messages == ()


def test_the_server_s_side_of_an_mcp_call_is_no_second_call():
    mcp = {"mcp.method.name": "tools/call"}
    trace = read(
        tool("outer", "fetch", at=(0, 9)),
        tool("client", "fetch", mcp, parent="outer", at=(1, 8)),
        tool("server", "fetch", mcp, parent="client", at=(2, 7)),
        tool("alone", "fetch", mcp, at=(10, 11)),
    )
    assert trace_facts([trace]).tools == {"fetch": 2}


def test_contents_are_decoded_where_they_are_json_texts():
    found = one(
        {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.call.arguments": '{"q": [1, {"a": null}]}',
            "gen_ai.tool.call.result": "plain {",
        }
    )
    assert (found.input, found.output) == ({"q": [1, {"a": None}]}, "plain {")
    structured = one(
        {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.call.arguments": {"q": [1, 2.5, True, "x"]}}
    )
    assert structured.input == {"q": [1, 2.5, True, "x"]}


@pytest.mark.parametrize(
    ("attrs", "events", "answer"),
    [
        ({"gen_ai.output.messages": '[{"role": "assistant"}]'}, [], [{"role": "assistant"}]),
        ({"gen_ai.completion.0.content": "done"}, [], "done"),
        (
            {},
            [("gen_ai.user.message", {"content": "q"}), ("gen_ai.choice", {"message": '{"c": 1}'})],
            {"c": 1},
        ),
        ({}, [("gen_ai.choice", {"content": "done"})], "done"),
        (
            {"events": '[{"event.name": "gen_ai.choice", "message": {"content": "done"}}]'},
            [],
            {"content": "done"},
        ),
        ({"events": "no list"}, [], None),
        ({"output.value": "done", "openinference.span.kind": "LLM"}, [], "done"),
        ({"traceloop.entity.output": "done"}, [], "done"),
        ({}, [], None),
    ],
)
def test_what_a_model_said_in_every_convention(attrs, events, answer):
    assert one({"gen_ai.operation.name": "chat"} | attrs, events=events).output == answer


@pytest.mark.parametrize(
    ("attrs", "rest", "ok", "error"),
    [
        ({}, {}, True, None),
        ({}, {"failed": "broke"}, False, "broke"),
        (
            {},
            {"failed": True, "events": [("exception", {"exception.type": "E", "exception.message": "m"})]},
            False,
            "E: m",
        ),
        ({}, {"failed": True}, False, None),
        ({"error.type": "timeout"}, {}, False, "timeout"),
        ({}, {"events": [("exception", {"exception.message": "handled"})]}, True, None),
        (
            {},
            {"events": [("exception", {"exception.escaped": "True", "exception.message": "m"})]},
            False,
            "m",
        ),
        ({}, {"events": [("exception", {"exception.escaped": [[]]}), ("log", {})]}, True, None),
        ({}, {"failed": True, "at": (0, None)}, None, None),
    ],
)
def test_failures_in_every_form(attrs, rest, ok, error):
    found = one({"gen_ai.operation.name": "execute_tool"} | attrs, **rest)
    assert (found.ok, found.attributes.get("error")) == (ok, error)


def test_a_retry_is_a_call_of_its_own():
    trace = read(
        agent("a", at=(0, 9)),
        tool("t1", "fetch", {"pydantic_ai.tool.retry.attempt": 1}, parent="a", at=(1, 2), failed=True),
        tool("t2", "fetch", parent="a", at=(3, 4)),
    )
    assert [(call.name, call.ok) for call in trace.tool_calls] == [("fetch", False), ("fetch", True)]


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


def node(id, path, step=None, kind="CHAIN", **rest):
    """A span of LangGraph."""
    inner = path.rpartition("|")[2].partition(":")[0]
    told = {"langgraph_checkpoint_ns": path, "langgraph_node": inner, "langgraph_step": step}
    return span(id, {"openinference.span.kind": kind, "metadata": json.dumps(told)}, **rest)


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

    def test_a_node_that_asks_nobody_is_no_agent(self):
        trace = read(
            node("prepare", "prepare:1", 1, name="prepare", at=(0, 1)),
            node("n0", "a:1", 2, name="a", at=(2, 5)),
            node("m0", "a:1", 2, "LLM", parent="n0", at=(3, 4)),
            node("n1", "b:1", 3, name="b", at=(6, 9)),
            node("sub", "b:1|model:2", 1, parent="n1", name="model", at=(7, 8)),
        )
        assert trace.agents == ("a", "b")
        assert trace.spans[0].kind == "other"

    def test_places_as_traceloop_tells_them(self):
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

    def test_a_message_that_tells_of_an_error_is_one(self):
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


def test_pending_spans_go_when_their_span_is_there_and_stand_for_it_when_it_is_not():
    pending = {"logfire.span_type": "pending_span", "logfire.pending_parent_id": span_id("boss")}
    call = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "t"}
    done = read(
        agent("boss", at=(0, 9)),
        tool("t", parent="boss", at=(1, 2)),
        span("note", pending | call, parent="t", at=(1, 1)),
    )
    assert (len(done.spans), kinds(done)) == (2, [])
    cut = read(agent("boss", at=(0, 9)), span("note", pending | call, parent="t", at=(1, 1)))
    assert [(s.id, s.parent, s.ok) for s in cut.tool_calls] == [(span_id("t"), span_id("boss"), None)]
    root = pending | call | {"logfire.pending_parent_id": "0" * 16}
    assert [s.parent for s in read(span("note", root, parent="t", at=(1, 1))).spans] == [None]


def test_a_span_that_was_sent_twice_is_one():
    first, again = tool("t", at=(1, None)), tool("t", at=(1, 2))
    for spans, told in (
        ((first, again), set()),
        ((again, first), set()),
        ((first, again, again), {"resent"}),
    ):
        trace = read(*spans)
        assert [(s.end, s.ok) for s in trace.spans] == [(1, True)]
        assert {kind for kind, _ in kinds(trace)} == told
    other = read(span("t", name="one"), span("t", name="two", at=(1, 2)))
    assert [kind for kind, _ in kinds(other)] == ["duplicate_id"]
    assert len(other.spans) == 2


def test_clock_skew_and_lost_parents_are_listed_and_the_order_is_by_start():
    trace = read(
        tool("late", parent="boss", at=(5, 6)),
        tool("early", parent="boss", at=(1, 2)),
        tool("lost", parent="gone", at=(3, 4)),
        agent("boss", at=(2, 9)),
    )
    assert [call.name for call in trace.tool_calls] == ["early", "lost", "late"]
    assert dict(kinds(trace)) == {"clock_skew": span_id("early"), "orphan": span_id("lost")}
    assert trace.tool_calls[0].agent == "boss"


def test_parallel_calls_with_one_start_keep_the_order_of_the_file():
    calls = [tool(name, parent="a", at=(1, end)) for name, end in (("x", 4), ("y", 2), ("z", 3))]
    trace = read(*calls, agent("a", at=(0, 9)))
    assert [call.name for call in trace.tool_calls] == ["x", "y", "z"]


def test_spans_of_one_id_in_several_requests_are_one_trace_and_ids_may_repeat_across_traces():
    other = "f" * 32
    requests = [
        request(agent("a", at=(0, 9)), agent("a", trace=other)),
        request(tool("t", parent="a", at=(1, 2)), tool("t", parent="a", at=(0.5, 0.6), trace=other)),
    ]
    _, traces = read_documents(requests, source="")
    assert [len(trace.spans) for trace in traces] == [2, 2]
    assert [trace.problems for trace in traces] == [(), ()]


def test_a_chain_of_16_667_agents_is_read_without_recursion():
    spans = []
    for level in range(16_667):
        above = {"parent": f"{level - 1:07}t"} if level else {}
        ends = 40_000 - level
        spans.append(agent(f"{level:07}a", f"agent {level % 3}", at=(2 * level / 2, ends), **above))
        spans.append(tool(f"{level:07}t", "ask", parent=f"{level:07}a", at=(level + 0.5, ends - 0.4)))
    trace = read(*reversed(spans))
    facts = trace_facts([trace])
    assert (facts.max_depth, facts.problems) == (33_334, [])
    assert sum(n for _, _, n in facts.agent_to_agent) == 16_666
