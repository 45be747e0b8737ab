"""What spans are read as, convention by convention."""

import json
import re
from pathlib import Path

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tests.traces.opentelemetry.reading import asked, one, read, seen
from tests.traces.opentelemetry.spans import agent, chat, request, span, span_id, tool
from tests.traces.samples import kinds
from trivium.agents.attempt import Attempt
from trivium.agents.contexts import Context, contexts_of
from trivium.traces.opentelemetry.semconv import MOST_DOCUMENTS, READ_AS
from trivium.traces.outcome import thread_of
from trivium.traces.process.totals import trace_facts
from trivium.traces.readers import read_documents, read_trace
from trivium.traces.trace import SpanUsage


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
        ("something_new", "llm"),  # by the model that it names
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
        # an operation that nobody knows
        (
            {"gen_ai.operation.name": "tool.execute", "gen_ai.tool.name": "add"},
            "x",
            ("tool", "add", None),
        ),
        ({"gen_ai.operation.name": "agent.run", "gen_ai.agent.id": "a1"}, "x", ("agent", "a1", "a1")),
        ({"gen_ai.operation.name": "search_memory", "gen_ai.agent.id": "a1"}, "x", ("other", "x", "a1")),
        ({"gen_ai.operation.name": "create_agent", "gen_ai.agent.name": "Ann"}, "x", ("other", "x", None)),
        # the AI SDK: a function with a name is an agent
        (
            {"ai.operationId": "ai.streamText", "ai.telemetry.functionId": "Ann"},
            "ai.streamText",
            ("agent", "Ann", "Ann"),
        ),
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
        ({"gen_ai.usage.input_tokens": 3, "operation.cost": -0.5}, (3, None, None)),
        ({"gen_ai.usage.input_tokens": 3, "operation.cost": True}, (3, None, None)),
        ({"gen_ai.usage.input_tokens": 3.0, "gen_ai.usage.output_tokens": 0}, (3, 0, None)),
    ],
)
def test_tokens_of_model_requests(attrs, usage):
    found = one({"gen_ai.operation.name": "chat"} | attrs).usage
    assert found == SpanUsage(input_tokens=usage[0], output_tokens=usage[1], cost_usd=usage[2])


@pytest.mark.parametrize(
    ("attrs", "field"),
    [
        ("gen_ai.usage.cache_read.input_tokens", "cache_read_tokens"),
        ("gen_ai.usage.cache_read_input_tokens", "cache_read_tokens"),
        ("llm.token_count.prompt_details.cache_read", "cache_read_tokens"),
        ("ai.usage.cachedInputTokens", "cache_read_tokens"),
        ("gen_ai.usage.cache_creation.input_tokens", "cache_write_tokens"),
        ("llm.token_count.prompt_details.cache_write", "cache_write_tokens"),
        ("gen_ai.usage.reasoning.output_tokens", "reasoning_tokens"),
        ("gen_ai.usage.details.reasoning_tokens", "reasoning_tokens"),
        ("llm.token_count.completion_details.reasoning", "reasoning_tokens"),
        ("llm.token_count.prompt_details.audio", "input_audio_tokens"),
        ("llm.token_count.completion_details.audio", "output_audio_tokens"),
    ],
)
def test_classes_of_tokens_are_parts_of_all_of_them(attrs, field):
    counts = {"gen_ai.usage.input_tokens": 30, "gen_ai.usage.output_tokens": 20}
    found = one({"gen_ai.operation.name": "chat", **counts, attrs: 7}).usage
    assert found == SpanUsage(input_tokens=30, output_tokens=20, **{field: 7})
    wrong = one({"gen_ai.operation.name": "chat", **counts, attrs: -7}).usage
    assert wrong == SpanUsage(input_tokens=30, output_tokens=20)


def test_cached_tokens_that_are_not_in_the_input_tokens_are_added():
    attrs = {"gen_ai.usage.input_tokens": 3, "gen_ai.usage.cache_read.input_tokens": 1000}
    found = one({"gen_ai.operation.name": "chat", **attrs}).usage
    assert found == SpanUsage(input_tokens=1003, cache_read_tokens=1000)


@pytest.mark.parametrize(
    ("attrs", "cost"),
    [
        ({"gen_ai.cost.total_cost": 0.5, "gen_ai.cost.input_cost": 0.1}, 0.5),
        ({"gen_ai.cost.input_cost": 0.1, "gen_ai.cost.output_cost": 0.25}, 0.35),
        ({"llm.cost.prompt": 0.25}, 0.25),
        ({"gen_ai.cost.input_cost": "much"}, None),
    ],
)
def test_a_stated_cost_is_used(attrs, cost):
    found = one({"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": 3, **attrs}).usage
    assert found.cost_usd == pytest.approx(cost)


@pytest.mark.parametrize("tokens", [-1, True, "many", 1.5, [1], {"a": 1}, 2**60, float("nan"), ""])
def test_what_is_no_number_of_tokens_is_none(tokens):
    assert one({"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": tokens}).usage is None


def test_the_documentation_lists_the_attributes_that_are_read_and_no_others():
    page = (Path(__file__).parents[3] / "docs/trace-formats.md").read_text(encoding="utf-8")
    table = page.partition('id="otlp"')[2].partition("\n## ")[0]
    rows = [re.findall(r"`([^`]+)`", row) for row in table.splitlines() if row.startswith("| ")]
    documented = {name for row in rows for name in row}
    read = {re.sub(r"(input_messages|prompt|documents)\.\d+", r"\1.N", key) for key in READ_AS}
    events = {"gen_ai.user.message", "gen_ai.tool.message", "gen_ai.choice", "exception"}
    values = {"application/json", "ai.toolCall.…", "traceloop.entity.…"}
    assert documented - read == events | values | {"gen_ai.client.inference.operation.details"}
    assert read <= documented
    for name in set(READ_AS.values()) & documented:  # the first of those with the same meaning
        same = [each for each, read_as in READ_AS.items() if read_as == name]
        assert any(same == [each for each in row if each in same] for row in rows), name


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
def test_the_output_of_a_model_in_every_convention(attrs, events, answer):
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
    for spans, expected in (
        ((first, again), set()),
        ((again, first), set()),
        ((first, again, again), {"resent"}),
    ):
        trace = read(*spans)
        assert [(s.end, s.ok) for s in trace.spans] == [(1, True)]
        assert {kind for kind, _ in kinds(trace)} == expected
    other = read(chat("t", name="one"), chat("t", name="two", at=(1, 2)))
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


def test_a_chain_of_8_000_agents_is_read_without_recursion():
    spans = []
    for level in range(8_000):
        above = {"parent": f"{level - 1:07}t"} if level else {}
        ends = 40_000 - level
        spans.append(agent(f"{level:07}a", f"agent {level % 3}", at=(2 * level / 2, ends), **above))
        spans.append(tool(f"{level:07}t", "ask", parent=f"{level:07}a", at=(level + 0.5, ends - 0.4)))
    trace = read(*reversed(spans))
    facts = trace_facts([trace])
    assert (facts.max_depth, facts.problems) == (16_000, [])
    assert sum(n for _, _, n in facts.agent_to_agent) == 7_999


def test_the_instrumentation_that_records_the_agents_is_named():
    made = request(span("a", {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "a"}))
    made["resourceSpans"][0]["scopeSpans"][0]["scope"] = {"name": "pydantic-ai", "version": "2"}
    http = request(span("h", {}, parent="a"))["resourceSpans"][0]["scopeSpans"][0] | {
        "scope": {"name": "httpx"}
    }
    made["resourceSpans"][0]["scopeSpans"].append(http)
    assert read_trace(made, "otlp").recorders == ("pydantic-ai",)


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        (
            {"gen_ai.usage.input_tokens": "many", "gen_ai.usage.output_tokens": 2},
            "its input tokens are 'many'",
        ),
        ({"gen_ai.usage.input_tokens": -3}, "its input tokens are -3, which is not a valid count"),
        (
            {"gen_ai.usage.input_tokens": 10, "llm.token_count.prompt": 20},
            "give different token counts; used are 20 input",
        ),
    ],
)
def test_invalid_or_contradictory_token_counts_are_problems(attributes, expected):
    trace = read(span("a", {"gen_ai.operation.name": "chat", **attributes}))
    (problem,) = trace.problems
    assert problem.kind == "bad_tokens"
    assert expected in problem.what
    same = {"gen_ai.usage.input_tokens": 10, "llm.token_count.prompt": 10}
    assert read(span("a", {"gen_ai.operation.name": "chat", **same})).problems == ()


DOCUMENTS = {
    "document.id": ["a", "b"],
    "document.content": ["A text", "B"],
    "document.score": [0.9, 0.2],
    "document.metadata": ['{"page": 3}', None],
}


def numbered(prefix, parts):
    return {
        f"{prefix}.{number}.{part}": value
        for part, values in parts.items()
        for number, value in enumerate(values)
        if value is not None
    }


def retrieved(*spans):
    return contexts_of(Attempt(case="1", trace=read(*spans)))


@pytest.mark.parametrize(
    ("kind", "prefix"), [("RETRIEVER", "retrieval.documents"), ("RERANKER", "reranker.output_documents")]
)
def test_documents_with_attributes_of_their_own_are_what_was_retrieved(kind, prefix):
    attributes = {"openinference.span.kind": kind, "output.value": "2 documents"}
    found = retrieved(span("r", attributes | numbered(prefix, DOCUMENTS)))
    assert found == (Context(id="a", text="A text", score=0.9), Context(id="b", text="B", score=0.2))


def test_a_document_s_id_may_be_in_its_metadata_or_in_the_whole_result():
    inside = numbered(
        "retrieval.documents", {"document.content": ["A"], "document.metadata": ['{"id": "a"}']}
    )
    assert retrieved(span("r", {"openinference.span.kind": "RETRIEVER"} | inside)) == (
        Context(id="a", text="A"),
    )
    whole = json.dumps({"documents": [{"id": "a", "page_content": "A", "type": "Document"}]})
    attributes = {"openinference.span.kind": "RETRIEVER", "output.value": whole}
    text = {"retrieval.documents.0.document.content": "A"}
    assert retrieved(span("r", attributes | text)) == (Context(id="a", text="A"),)


def test_what_a_reranker_returns_takes_the_place_of_what_was_retrieved_before_it():
    def call(id, at, kind, prefix, *ids):
        documents = numbered(prefix, {"document.id": ids})
        return span(id, {"openinference.span.kind": kind} | documents, at=(at, at + 1))

    def first(id, at, *ids):
        return call(id, at, "RETRIEVER", "retrieval.documents", *ids)

    def second(id, at, *ids):
        return call(id, at, "RERANKER", "reranker.output_documents", *ids)

    spans = [first("r1", 0, "a", "b"), first("r2", 2, "c"), second("s1", 4, "c", "a")]
    assert [each.id for each in retrieved(*spans)] == ["c", "a"]
    spans += [first("r3", 6, "d", "e"), second("s2", 8, "e"), first("r4", 10, "f")]
    assert [each.id for each in retrieved(*spans)] == ["c", "a", "e", "f"]


def test_retrievers_within_a_retriever_do_not_count_beside_it():
    def call(id, *ids, **rest):
        documents = numbered("retrieval.documents", {"document.id": ids})
        return span(id, {"openinference.span.kind": "RETRIEVER"} | documents, **rest)

    inner = [call("p", "a", "b", parent="e", at=(1, 2)), call("q", "c", parent="step", at=(2, 3))]
    inner.append(span("step", {"openinference.span.kind": "CHAIN"}, parent="e", at=(2, 4)))
    found = retrieved(call("e", "c", "a", at=(0, 9)), *inner, call("f", "d", at=(10, 11)))
    assert [each.id for each in found] == ["c", "a", "d"]
    unrecorded = retrieved(call("e", at=(0, 9)), *inner)
    assert [each.id for each in unrecorded] == ["a", "b", "c"]


def test_retrievers_whose_results_were_not_recorded_say_nothing_and_failed_ones_found_nothing():
    kind = {"openinference.span.kind": "RETRIEVER"}
    assert retrieved(span("r", kind)) is None
    assert retrieved(span("r", kind, failed=True)) == ()
    assert retrieved(span("r", kind, failed=True), span("s", kind, at=(2, 3))) is None
    operation = {"gen_ai.operation.name": "retrieval"}
    given = {"gen_ai.retrieval.documents": '[{"id": "a", "score": 0.5}]'}
    assert retrieved(span("r", operation | given)) == (Context(id="a", score=0.5),)


def test_documents_beyond_those_that_are_read_are_told():
    ids = [f"d{number}" for number in range(MOST_DOCUMENTS + 3)]
    documents = numbered("retrieval.documents", {"document.id": ids})
    trace = read(span("r", {"openinference.span.kind": "RETRIEVER"} | documents))
    assert len(trace.tool_calls[0].output) == MOST_DOCUMENTS
    what = "documents after the first 256 that it returned are left out"
    assert what in {each.what for each in trace.problems}
    fewer = numbered("retrieval.documents", {"document.id": ids[:MOST_DOCUMENTS]})
    trace = read(span("r", {"openinference.span.kind": "RETRIEVER"} | fewer))
    assert what not in {each.what for each in trace.problems}


def test_what_langchain_s_instrumentation_records_of_a_retriever_is_read():
    from langchain_core.documents import Document
    from langchain_core.retrievers import BaseRetriever
    from openinference.instrumentation.langchain import LangChainInstrumentor

    class Search(BaseRetriever):
        def _get_relevant_documents(self, query, *, run_manager):
            found = Document(id="a", page_content="A text", metadata={"source": "a.pdf"})
            return [found, Document(page_content="B", metadata={"id": "b"})]

    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    LangChainInstrumentor().instrument(tracer_provider=provider)
    try:
        Search().invoke("which?")
    finally:
        LangChainInstrumentor().uninstrument()
    (recorded,) = exporter.get_finished_spans()
    assert retrieved(span("r", dict(recorded.attributes))) == (
        Context(id="a", text="A text"),
        Context(id="b", text="B"),
    )


@pytest.mark.parametrize(
    ("root", "below", "conversation"),
    [
        ({"gen_ai.conversation.id": "c-1"}, {}, "c-1"),
        ({"session.id": "s-1"}, {}, "s-1"),
        ({"session.id": "s-1", "gen_ai.conversation.id": "c-1"}, {}, "c-1"),
        ({}, {"langfuse.session.id": "l-1"}, "l-1"),
        ({"traceloop.association.properties.session_id": "t-1"}, {"session.id": "s-1"}, "t-1"),
        ({"session.id": 7}, {}, None),
        ({}, {}, None),
    ],
)
def test_a_trace_names_the_conversation_that_it_is_a_turn_of(root, below, conversation):
    trace = read(span("a", root, at=(0, 9)), span("b", below, parent="a", at=(1, 2)))
    assert thread_of(trace) == conversation
