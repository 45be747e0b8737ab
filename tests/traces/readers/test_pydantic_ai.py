"""PydanticAI's message history, against its own library and against counts worked out by hand."""

import asyncio
import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.goldens import data
from tests.strategies import json_values
from trivium.errors import TraceError
from trivium.traces.process.totals import trace_facts
from trivium.traces.readers import read_documents, read_trace
from trivium.traces.readers.collection import read_path, read_paths

WORDS = ["request", "response", "tool-call", "tool-return", "retry-prompt", "text", "2026-01-01"]
KEYS = [
    "kind",
    "parts",
    "part_kind",
    "tool_name",
    "tool_call_id",
    "content",
    "args",
    "usage",
    "timestamp",
    "outcome",
]

AT = "2026-01-01T00:00:{:02d}Z"


def history(*messages):
    """Messages a second apart."""
    return [
        {"kind": kind, "parts": list(parts), "timestamp": AT.format(second), **more}
        for second, (kind, parts, more) in enumerate(messages)
    ]


def of_words(inner):
    return st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=6)


def prompt_of(part):
    return {"kind": "request", "parts": [part, {"part_kind": "user-prompt", "content": part}]}


def answer_of(part):
    return {"kind": "response", "parts": [{"part_kind": "tool-call", "tool_name": part}, part], "usage": part}


def prompt(text="q"):
    return ("request", [{"part_kind": "user-prompt", "content": text}], {})


def answer(*parts, tokens=(5, 2)):
    usage = {"input_tokens": tokens[0], "output_tokens": tokens[1]}
    return ("response", parts, {"model_name": "m", "usage": usage})


def call(name, id="c", **args):
    return {"part_kind": "tool-call", "tool_name": name, "tool_call_id": id, "args": args}


def back(name, id="c", *, at=None, **more):
    part = {"part_kind": "tool-return", "tool_name": name, "tool_call_id": id, "content": f"from {name}"}
    return part | ({"timestamp": AT.format(at)} if at is not None else {}) | more


def text(content):
    return {"part_kind": "text", "content": content}


def test_a_run_with_parallel_calls_that_end_in_another_order():
    trace = read_trace(
        history(
            prompt("why"),
            answer(call("a", "1", n=1), call("b", "2")),
            ("request", [back("b", "2", at=3), back("a", "1", at=9)], {}),
            answer(text("done"), tokens=(7, 3)),
        ),
        "pydantic-ai",
    )
    run, *_ = trace.spans
    assert (run.kind, run.input, run.output) == ("agent", "why", "done")
    assert [(s.name, s.input, s.output, s.ok) for s in trace.tool_calls] == [
        ("a", {"n": 1}, "from a", True),
        ("b", {}, "from b", True),
    ]
    durations = {s.name: s.end - s.start for s in trace.tool_calls}
    assert durations == {"a": 8, "b": 2}
    facts = trace_facts([trace])
    assert (facts.llm_input_tokens, facts.llm_output_tokens, facts.problems) == (12, 5, [])


def test_an_id_that_repeats_answers_the_nearest_call():
    trace = read_trace(
        history(
            prompt(),
            answer(call("a", "c", n=1)),
            ("request", [back("a", "c")], {}),
            answer(call("a", "c", n=2)),
            ("request", [back("a", "c", outcome="failed")], {}),
            answer(text("done")),
        )
    )
    assert [(s.input, s.ok) for s in trace.tool_calls] == [({"n": 1}, True), ({"n": 2}, False)]


@pytest.mark.parametrize(
    "part",
    [
        {"part_kind": "retry-prompt", "tool_name": "a", "tool_call_id": "c", "content": "again"},
        back("a", outcome="retried"),
        back("a", outcome="denied"),
    ],
)
def test_what_a_tool_sends_back_for_another_try_is_a_failed_call(part):
    trace = read_trace(history(prompt(), answer(call("a")), ("request", [part], {})))
    assert [span.ok for span in trace.tool_calls] == [False]


def test_a_call_without_a_return_is_unfinished_and_a_return_without_a_call_left_out():
    trace = read_trace(
        history(prompt(), ("request", [back("ghost", "x")], {}), answer(call("a"))), "pydantic-ai"
    )
    assert [(span.name, span.ok, span.end) for span in trace.tool_calls] == [("a", None, None)]
    assert [problem.kind for problem in trace.problems] == ["orphan_result", "unfinished"]


@pytest.mark.parametrize(
    ("cost", "read"), [(0.5, 0.5), (0, 0.0), (-0.5, None), (True, None), (float("nan"), None), ("0.5", None)]
)
def test_a_cost_is_a_number_of_at_least_0(cost, read):
    priced = ("response", [text("x")], {"model_name": "m", "usage": {"input_tokens": 5, "cost": cost}})
    (span,) = [span for span in read_trace(history(prompt(), priced)).spans if span.kind == "llm"]
    assert (span.usage.input_tokens, span.usage.cost_usd) == (5, read)


def test_a_history_without_times_has_none():
    messages = history(prompt(), answer(call("a")), ("request", [back("a")], {}), answer(call("b")))
    trace = read_trace([{k: v for k, v in message.items() if k != "timestamp"} for message in messages])
    assert trace.seconds is None
    assert [(span.name, span.ok) for span in trace.tool_calls] == [("a", True), ("b", None)]
    assert [problem.kind for problem in trace.problems] == ["unfinished"]


def test_a_history_of_several_runs_is_split_at_their_ids(tmp_path):
    one, two = (history(prompt(), answer(text("x"))) for _ in "12")
    for messages, run in ((one, "r1"), (two, "r2")):
        for message in messages:
            message["run_id"] = run
    for name, value in {
        "joined": one + two,
        "listed": [one, two],
        "object": {"messages": one + two},
    }.items():
        path = tmp_path / f"{name}.json"
        path.write_text(json.dumps(value))
        found, traces = read_path(path)
        assert (found, [trace.trace_id for trace in traces]) == ("pydantic-ai", ["r1", "r2"])
    lines = tmp_path / "lines.jsonl"
    lines.write_text("\n".join(json.dumps(message) for message in one))
    assert [len(trace.spans) for trace in read_path(lines)[1]] == [2]


def test_what_the_library_itself_writes_is_read():
    pydantic_ai = pytest.importorskip("pydantic_ai")
    from pydantic_ai.models.test import TestModel

    agent = pydantic_ai.Agent(TestModel(), name="a")

    @agent.tool_plain
    def look(word: str) -> str:
        return word

    result = asyncio.run(agent.run("q"))
    trace = read_trace(json.loads(result.all_messages_json()))
    usage = result.usage
    facts = trace_facts([trace])
    assert (facts.kinds, facts.tools) == ({"agent": 1, "llm": usage.requests, "tool": 1}, {"look": 1})
    assert (facts.llm_input_tokens, facts.llm_output_tokens) == (usage.input_tokens, usage.output_tokens)
    assert trace.problems == ()


def test_the_histories_of_a_real_run_have_the_counts_worked_out_by_hand():
    folder = data("traces/pydantic-ai")
    expected = json.loads((folder / "expected.json").read_text())
    paths = sorted(folder.glob("messages_*.json"))
    found, traces = read_paths(paths)
    assert found == "pydantic-ai"
    for path, trace in zip(paths, traces, strict=True):
        facts = trace_facts([trace])
        assert facts.kinds["llm"] == expected[path.name]["model_requests"]
        assert facts.kinds.get("tool", 0) == expected[path.name]["parts"].get("tool-call", 0)
        assert facts.llm_input_tokens == expected[path.name]["input_tokens"]
    whole, of_spans = trace_facts(traces), expected["otlp_v6.json"]
    assert (whole.tools, whole.failed_tool_spans) == (of_spans["tools"], of_spans["failed_tool_spans"])
    assert whole.llm_output_tokens == of_spans["llm_output_tokens"]


@given(st.recursive(json_values | st.sampled_from(WORDS), of_words, max_leaves=25))
def test_messages_of_any_content_are_read_or_refused(message):
    """An unhashable kind was a find of atheris."""
    for history in ([message], [prompt_of(message), message], [answer_of(message)]):
        try:
            _, traces = read_documents([history], source="x", format="pydantic-ai")
        except TraceError:
            continue
        for trace in traces:
            msgspec.json.encode(trace_facts([trace]))
            msgspec.json.encode(trace)
