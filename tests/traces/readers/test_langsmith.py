"""LangSmith: runs nested or flat, in any order, from several traces; usage wherever it was kept."""

import json
from typing import Any

import pytest

from trivium.agents.attempt import Attempt
from trivium.agents.contexts import Context, contexts_of
from trivium.errors import TraceError
from trivium.traces.process.totals import trace_facts
from trivium.traces.readers import read_documents
from trivium.traces.readers.collection import read_path
from trivium.traces.trace import SpanUsage


def run(id: str, run_type: str = "chain", parent: str | None = None, **fields: Any) -> dict[str, Any]:
    return {
        "id": id,
        "name": id,
        "run_type": run_type,
        "trace_id": "t",
        "parent_run_id": parent,
        "start_time": "2026-01-02T03:04:05Z",
        "end_time": "2026-01-02 03:04:06+00:00",
        "error": None,
    } | fields


def read_all(*runs: Any):
    return read_documents(list(runs), source="runs", format="langsmith")[1]


def one(*runs: Any):
    (trace,) = read_all(*runs)
    return trace


FLAT = [run("r"), run("c", parent="r"), run("x", "tool", "c"), run("m", "llm", "c")]


def nested() -> dict[str, Any]:
    r, c, x, m = FLAT
    return r | {"child_runs": [c | {"child_runs": [x | {"child_runs": None}, m | {"child_runs": []}]}]}


@pytest.mark.parametrize(
    "documents",
    [
        [nested()],
        [[nested()]],
        FLAT,
        [FLAT],
        [FLAT[::-1]],
        [{"runs": FLAT, "cursors": {}}],
        [{"post": FLAT[:2], "patch": FLAT[2:]}],
    ],
)
def test_every_shape_is_recognised_and_means_the_same(tmp_path, documents):
    path = tmp_path / "runs.jsonl"
    path.write_text("\n".join(json.dumps(document) for document in documents))
    found, (trace,) = read_path(path)
    assert (found, trace.trace_id) == ("langsmith", "t")
    assert {span.id: (span.parent, span.kind) for span in trace.spans} == {
        "r": (None, "other"),
        "c": ("r", "other"),
        "x": ("c", "tool"),
        "m": ("c", "llm"),
    }


def test_nesting_gives_parents_and_traces_that_runs_leave_out():
    document = nested()
    stack = [document]
    while stack:
        inner = stack.pop()
        del inner["parent_run_id"]
        if inner is not document:
            del inner["trace_id"]
        stack += inner["child_runs"] or []
    trace = one(document)
    assert [(span.id, span.parent) for span in trace.spans] == [
        ("r", None),
        ("c", "r"),
        ("x", "c"),
        ("m", "c"),
    ]


def test_the_dotted_order_gives_parent_trace_id_and_start():
    dotted = "20260102T030405250000Zroot.20260102T030406000Zmid.20260102T030407500Zleaf"
    bare = {"name": "n", "run_type": "tool", "dotted_order": dotted, "end_time": "2026-01-02T03:04:08Z"}
    trace = one(bare, {"name": "top", "run_type": "chain", "dotted_order": dotted.split(".", 1)[0]})
    (leaf, top) = trace.spans
    assert trace.trace_id == "root"
    assert (leaf.id, top.id, top.parent) == ("leaf", "root", None)
    assert leaf.start is not None
    assert (leaf.end or 0) - leaf.start == pytest.approx(0.5)
    assert leaf.start - (top.start or 0) == pytest.approx(2.25)
    assert [(problem.kind, problem.span) for problem in trace.problems] == [
        ("orphan", "leaf"),
        ("unfinished", "root"),
    ]
    (odd,) = read_all({"run_type": "chain", "dotted_order": "nonsense", "trace_id": "t"})
    assert odd.spans[0].start is None


def test_a_run_that_names_no_trace_is_in_that_of_the_runs_above_it():
    runs = [run("a", trace_id=None), run("b", parent="a", trace_id=None), run("c", parent="b", trace_id=None)]
    assert [trace.trace_id for trace in read_all(*runs[::-1])] == ["a"]
    assert [trace.trace_id for trace in read_all(runs[2], runs[1], runs[0] | {"trace_id": "t"})] == ["t"]
    loop = [run("a", parent="b", trace_id=None), run("b", parent="a", trace_id=None)]
    assert sum(len(trace.spans) for trace in read_all(*loop)) == 2
    orphan = run("z", trace_id=None, parent=None, parent_run_ids=["x", "y"])
    assert [trace.trace_id for trace in read_all(orphan)] == ["y"]


def test_a_run_that_was_posted_and_patched_is_one_run():
    posted = run("a", "llm", end_time=None, inputs={"x": 1}, outputs=None)
    patched = {
        "id": "a",
        "trace_id": "t",
        "run_type": "llm",
        "end_time": 1_767_323_046_000,
        "outputs": {"y": 2},
    }
    for order in ((posted, patched), (patched, posted)):
        (span,) = one(*order).spans
        assert (span.input, span.output, span.ok) == ({"x": 1}, {"y": 2}, True)


def test_several_traces_in_one_file_are_several():
    first, second = read_all(run("a"), run("b", trace_id="u"), run("c", parent="a"))
    assert [len(first.spans), len(second.spans)] == [2, 1]


def test_kinds_follow_the_types_of_runs():
    types = ["llm", "embedding", "tool", "retriever", "chain", "prompt", "parser", "of tomorrow"]
    kinds = [span.kind for span in one(*(run(type_, type_) for type_ in types)).spans]
    assert kinds == ["llm", "llm", "tool", "tool", "other", "other", "other", "other"]


def test_what_failed_what_paused_and_what_only_handed_over():
    runs = [
        run("raised", error="ValueError('no')Traceback …"),
        run("status", status="error"),
        run("handed", error="ParentCommand(Command(graph='__parent__', goto='bob'))Traceback …"),
        run("paused", error="GraphInterrupt((Interrupt(value='?'),))"),
        run("pending", end_time=None),
        run("waits", status="pending"),
        run("halted", status="interrupted"),
        run("zero", end_time="0001-01-01T00:00:00"),
        run("fine", error=""),
        run("told", "tool", outputs={"output": {"content": "bad", "status": "error", "type": "tool"}}),
        run("lc", "tool", outputs={"output": {"lc": 1, "kwargs": {"content": "bad", "status": "error"}}}),
        run("well", "tool", outputs={"output": {"content": "good", "status": "success", "type": "tool"}}),
    ]
    spans = {span.id: span for span in one(*runs).spans}
    assert {name: span.ok for name, span in spans.items()} == {
        "raised": False,
        "status": False,
        "handed": True,
        "paused": None,
        "pending": None,
        "waits": None,
        "halted": None,
        "zero": None,
        "fine": True,
        "told": False,
        "lc": False,
        "well": True,
    }
    assert (spans["well"].output, spans["lc"].attributes["error"]) == ("good", "bad")


def test_arguments_are_objects_even_where_they_were_written_as_text():
    spans = one(
        run("a", "tool", inputs={"input": '{"q": "MT"}'}),
        run("b", "tool", inputs={"q": "MT"}),
        run("c", "tool", inputs={"input": "{'q': 'MT'}"}),
    ).spans
    assert [span.input for span in spans] == [{"q": "MT"}, {"q": "MT"}, "{'q': 'MT'}"]


def generations(*usages: Any) -> dict[str, Any]:
    return {"generations": [[{"message": {"kwargs": {"usage_metadata": usage}}}] for usage in usages]}


@pytest.mark.parametrize(
    ("fields", "tokens"),
    [
        ({"outputs": generations({"input_tokens": 3, "output_tokens": 4})}, (3, 4)),
        ({"outputs": generations({"input_tokens": 3, "output_tokens": 4}, {"input_tokens": 1})}, (4, 4)),
        ({"outputs": {"generations": [{"message": {"usage_metadata": {"input_tokens": 3}}}]}}, (3, None)),
        ({"outputs": {"usage_metadata": {"input_tokens": 3, "output_tokens": 4}}}, (3, 4)),
        ({"extra": {"metadata": {"usage_metadata": {"input_tokens": 3, "output_tokens": 4}}}}, (3, 4)),
        ({"outputs": {"llm_output": {"token_usage": {"prompt_tokens": 3, "completion_tokens": 4}}}}, (3, 4)),
        ({"outputs": {"llm_output": {"tokenUsage": {"promptTokens": 3, "completionTokens": 4}}}}, (3, 4)),
        ({"outputs": {"llm_output": {"usage": {"input_tokens": 3, "output_tokens": 4}}}}, (3, 4)),
        ({"outputs": {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 4}}}, (3, 4)),
        ({"prompt_tokens": 3, "completion_tokens": 4, "outputs": None}, (3, 4)),
        (
            {
                "outputs": {
                    "generations": [[{"message": {"response_metadata": {"usage": {"input_tokens": 3}}}}]]
                }
            },
            (3, None),
        ),
        ({"outputs": {"generations": [[], "x", [None]]}}, (None, None)),
    ],
)
def test_usage_is_read_from_every_known_field(fields, tokens):
    facts = trace_facts([one(run("m", "llm", **fields))])
    assert (facts.llm_input_tokens, facts.llm_output_tokens) == tokens


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (
            {
                "input_tokens": 30, "output_tokens": 20,
                "input_token_details": {"cache_read": 20, "cache_creation": 5, "audio": 1},
                "output_token_details": {"reasoning": 7, "audio": 2},
            },
            {
                "input_tokens": 30, "cache_read_tokens": 20, "cache_write_tokens": 5, "input_audio_tokens": 1,
                "output_tokens": 20, "reasoning_tokens": 7, "output_audio_tokens": 2,
            },
        ),
        (  # OpenAI's
            {
                "prompt_tokens": 30, "prompt_tokens_details": {"cached_tokens": 20},
                "completion_tokens": 20, "completion_tokens_details": {"reasoning_tokens": 7},
            },
            {
                "input_tokens": 30, "cache_read_tokens": 20,
                "output_tokens": 20, "reasoning_tokens": 7,
            },
        ),
        (  # Anthropic's, whose input tokens hold no cached ones
            {"input_tokens": 3, "cache_read_input_tokens": 20, "cache_creation_input_tokens": 5},
            {"input_tokens": 28, "cache_read_tokens": 20, "cache_write_tokens": 5},
        ),
        ({"input_tokens": 3, "input_token_details": "none"}, {"input_tokens": 3}),
    ],
)  # fmt: skip
def test_classes_of_tokens_are_kept_apart(usage, expected):
    found = one(run("m", "llm", outputs={"llm_output": {"usage": usage}})).spans[0].usage
    assert found == SpanUsage(**expected)


def test_tokens_of_a_model_within_a_model_count_once():
    inner = {"input_tokens": 3, "output_tokens": 4, "total_cost": 0.5}
    outputs = {"usage_metadata": inner}
    runs = [
        run("chain", prompt_tokens=3, completion_tokens=4),
        run("outer", "llm", "chain", outputs=outputs),
        run("bare", "llm", "outer"),
        run("between", parent="bare"),
        run("inner", "llm", "between", outputs=outputs, total_cost="0.25"),
    ]
    trace = one(*runs)
    facts = trace_facts([trace])
    assert (facts.llm_input_tokens, facts.llm_output_tokens) == (3, 4)
    spans = {span.id: span for span in trace.spans}
    assert spans["outer"].attributes["usage"] == {"input_tokens": 3, "output_tokens": 4, "cost_usd": 0.5}
    assert spans["inner"].usage is not None
    assert spans["inner"].usage.cost_usd == 0.5


def test_costs_of_the_service_are_decimals_in_text():
    for cost, dollars in (("0.25", 0.25), (0, None), ("x", None), (True, None), (2, 2.0)):
        (span,) = one(run("m", "llm", prompt_tokens=1, total_cost=cost)).spans
        assert span.usage is not None
        assert span.usage.cost_usd == dollars


def test_the_agents_sdk_s_runs_are_agents_handoffs_and_guardrails():
    agent = {"extra": {"invocation_params": {"tools": [], "handoffs": []}}}
    trace = one(
        run("Agent workflow"),
        run("triage", parent="Agent workflow", **agent),
        run("Handoff", parent="triage", inputs={"from_agent": "triage", "to_agent": "billing"}),
        run("safe", "tool", "triage", extra={"metadata": {"triggered": False}}),
        run("billing", parent="Agent workflow", **agent),
        run("ask", "tool", "billing"),
        run("writer", parent="ask", **agent),
    )
    assert trace_facts([trace]).agent_runs == {"triage": 1, "billing": 1, "writer": 1}
    assert [(m.sender, m.receiver, m.type) for m in trace.messages] == [
        ("triage", "billing", "handoff"),
        ("billing", "writer", "task_request"),
        ("writer", "billing", "result_delivery"),
    ]
    assert [call.name for call in trace.tool_calls] == ["ask"]


def test_agents_by_their_tags_types_and_names():
    root = {"extra": {"metadata": {"ls_agent_type": "root"}}}
    runs = [
        run("conversation", **root),
        run("step", parent="conversation", **root),  # handed down
        run("reviewer", parent="step", extra={"metadata": {"ls_agent_type": "subagent"}}),
        run("middle", "tool", "reviewer", extra={"metadata": {"ls_agent_type": "middleware"}}),
        run("AgentExecutor", parent="reviewer"),
        run("typed", "agent"),
    ]
    kinds = {span.id: span.kind for span in one(*runs).spans}
    assert [name for name, kind in kinds.items() if kind == "agent"] == [
        "conversation",
        "reviewer",
        "AgentExecutor",
        "typed",
    ]
    assert kinds["middle"] == "other"


def test_llm_spans_have_the_model_s_name_and_the_run_s_name_as_attribute():
    spans = one(
        run("a", "llm", extra={"metadata": {"ls_model_name": "m1"}}),
        run("b", "llm", extra={"invocation_params": {"model": "m2"}}),
        run("c", "llm", name=None, serialized={"name": "FakeChat"}, tags=["x"]),
        run("d", "llm", extra={"invocation_params": {"model_name": "m4"}}),
    ).spans
    assert [span.name for span in spans] == ["m1", "m2", "FakeChat", "m4"]
    assert spans[0].attributes["run_name"] == "a"
    assert spans[2].attributes["tags"] == ["x"]


def test_runs_nested_in_each_other_are_walked_without_recursion():
    document = run("0")
    for number in range(1, 10_000):
        document = run(str(number)) | {"child_runs": [document]}
    assert trace_facts(read_all(document)).max_depth == 10_000


def test_a_file_nested_deeper_than_json_is_read_is_refused(tmp_path):
    path = tmp_path / "deep.json"
    path.write_text('{"run_type": "chain", "child_runs": [' * 33_000 + "]}" * 33_000)
    with pytest.raises(TraceError, match="nested too deep"):
        read_path(path)


def test_a_chain_of_15_000_runs_is_read():
    runs = [run(str(n), "llm" if n % 2 else "chain", str(n - 1) if n else None) for n in range(15_000)]
    assert trace_facts(read_all(*reversed(runs))).max_depth == 15_000


def test_other_values_are_left_out_and_reported():
    (problem,) = one(run("a"), {"foo": 1}).problems
    assert "one record is left out: not a run of LangSmith (first: number 2)" in problem.what
    with pytest.raises(TraceError, match="run_type"):
        read_all({"foo": 1})


def test_threads_and_names_are_metadata():
    root = run("r", extra={"metadata": {"thread_id": "th"}}, tags=["demo"], session_id="s")
    assert one(root, run("c", parent="r")).metadata == {
        "name": "r",
        "session_id": "s",
        "tags": ["demo"],
        "thread_id": "th",
    }


@pytest.mark.parametrize(
    "outputs",
    [
        {"output": [{"page_content": "A", "type": "Document", "metadata": {"id": "a"}}]},  # of traceable
        {"documents": [{"id": "a", "metadata": {}, "page_content": "A", "type": "Document"}]},  # of LangChain
        {
            "documents": [
                {"lc": 1, "id": ["Document"], "kwargs": {"page_content": "A", "metadata": {"id": "a"}}}
            ]
        },
    ],
)
def test_documents_of_a_retriever_are_what_was_retrieved(outputs):
    trace = one(run("r"), run("s", parent="r", run_type="retriever", outputs=outputs))
    assert contexts_of(Attempt(case="1", trace=trace)) == (Context(id="a", text="A"),)
