"""Trajectories of ATIF: what each step says becomes a span, and nothing that no step says."""

from typing import Any

import msgspec
import pytest

from trivium.errors import TraceError
from trivium.traces.outcome import completed, input_of, output_of, started, stated_usage
from trivium.traces.process.totals import process_totals
from trivium.traces.readers import read_documents, sniff_format
from trivium.traces.trace import SpanUsage, wall_seconds


def step(number: int, source: str, message: Any = "", **fields: Any) -> dict[str, Any]:
    return {"step_id": number, "source": source, "message": message, **fields}


def call(id: str, name: str, **arguments: Any) -> dict[str, Any]:
    return {"tool_call_id": id, "function_name": name, "arguments": arguments}


def observed(*results: dict[str, Any]) -> dict[str, Any]:
    return {"results": list(results)}


HELPER = {
    "schema_version": "ATIF-v1.7",
    "trajectory_id": "sub",
    "agent": {"name": "helper", "version": "1"},
    "steps": [step(1, "user", "count"), step(2, "agent", "two", llm_call_count=1)],
}
TRAJECTORY = {
    "schema_version": "ATIF-v1.7",
    "session_id": "run-1",
    "trajectory_id": "T",
    "agent": {"name": "lead", "version": "2.0", "model_name": "m-large"},
    "steps": [
        step(1, "system", "be brief", timestamp="2026-01-02T03:04:05Z"),
        step(
            2, "user", [{"type": "text", "text": "how many?"}, {"type": "image", "source": {"path": "a.png"}}]
        ),
        step(
            3,
            "agent",
            "I look.",
            reasoning_content="hm",
            tool_calls=[call("a", "look", at="door"), call("b", "ask", whom="helper"), call("c", "wait")],
            observation=observed(
                {"source_call_id": "a", "content": "Error: locked"},
                {
                    "source_call_id": "b",
                    "content": "two",
                    "subagent_trajectory_ref": [{"trajectory_id": "sub"}],
                },
                {"content": "the screen"},
            ),
            metrics={"prompt_tokens": 10, "completion_tokens": 4, "cached_tokens": 6, "cost_usd": 0.5},
        ),
        step(4, "agent", "old", is_copied_context=True, metrics={"prompt_tokens": 99}),
        step(5, "agent", "", llm_call_count=0, tool_calls=[call("d", "look")], observation=observed()),
        step(6, "agent", "Two.", model_name="m-small", timestamp="2026-01-02T03:04:15.500Z"),
    ],
    "final_metrics": {"total_prompt_tokens": 30, "total_completion_tokens": 8, "total_cost_usd": 0.75},
    "subagent_trajectories": [HELPER],
}


def read(*documents: Any) -> list[Any]:
    return read_documents(documents, source="file")[1]


def test_steps_become_spans():
    (trace,) = read(TRAJECTORY)
    found = [(span.kind, span.name, span.agent, span.output, span.ok) for span in trace.spans]
    assert found == [
        ("agent", "lead", None, "Two.", True),
        ("llm", "m-large", "lead", "I look.", True),
        ("tool", "look", "lead", "Error: locked", False),
        ("tool", "ask", "lead", "two", True),
        ("tool", "wait", "lead", None, None),
        ("other", "observation", "lead", "the screen", True),
        ("other", "step", "lead", "", True),
        ("tool", "look", "lead", None, None),
        ("llm", "m-small", "lead", "Two.", True),
        ("agent", "helper", None, "two", True),
        ("llm", "assistant", "helper", "two", True),
    ]
    tools = {span.id: span for span in trace.spans}
    assert tools["1-run"].parent == "tool-3-1"
    assert tools["tool-3-0"].input == {"at": "door"}
    assert tools["llm-3"].usage == SpanUsage(
        input_tokens=10, output_tokens=4, cost_usd=0.5, cache_read_tokens=6
    )
    assert tools["llm-3"].attributes == {"reasoning_content": "hm"}


def test_question_answer_times_and_totals_are_those_of_the_trajectory():
    (trace,) = read(TRAJECTORY)
    assert (input_of(trace), output_of(trace), completed(trace)) == ("how many?", "Two.", True)
    assert (started(trace), wall_seconds(trace)) == (1767323045.0, 10.5)
    assert stated_usage(trace) == SpanUsage(input_tokens=30, output_tokens=8, cost_usd=0.75)
    assert (trace.trace_id, trace.metadata["conversation_id"]) == ("T", "run-1")
    assert trace.seconds is None
    assert [problem.what for problem in trace.problems if problem.kind == "unread_parts"] == [
        "parts that are no text are left out: 1 image"
    ]
    assert {message.receiver for message in trace.messages} == {"helper", "lead"}
    assert process_totals([trace]) is not None


@pytest.mark.parametrize("key", ["is_error", "tool_result_is_error"])
def test_a_result_marked_as_an_error_failed(key):
    result = {"source_call_id": "a", "content": "no such file", "extra": {key: True}}
    steps = [step(1, "agent", "", tool_calls=[call("a", "look")], observation=observed(result))]
    (trace,) = read(TRAJECTORY | {"steps": steps})
    assert [span.ok for span in trace.tool_calls] == [False]


def test_what_lies_in_other_files_is_missing():
    reference = {"subagent_trajectory_ref": [{"trajectory_path": "sub.json"}]}
    steps = [step(1, "agent", "x", observation=observed(reference))]
    (trace,) = read(TRAJECTORY | {"steps": steps, "continued_trajectory_ref": "next.json"})
    assert [problem.what for problem in trace.problems if problem.kind == "incomplete"] == [
        "the trajectory of a subagent is in sub.json, which is not read",
        "it continues in next.json, which is not read",
    ]


def test_subagents_of_subagents_may_be_nested_deeply():
    document: dict[str, Any] = HELPER
    for _ in range(150):
        document = HELPER | {"subagent_trajectories": [document]}
    (trace,) = read(document)
    assert sum(span.kind == "agent" for span in trace.spans) == 151


@pytest.mark.parametrize(
    ("document", "said"),
    [
        (TRAJECTORY | {"schema_version": "ATIF-v2.0"}, 'its schema_version is "ATIF-v2.0"'),
        (TRAJECTORY | {"steps": []}, 'a list "steps" that is not empty'),
        (TRAJECTORY | {"steps": "none"}, 'a list "steps" that is not empty'),
    ],
)
def test_other_versions_and_empty_trajectories_are_refused(document, said):
    assert sniff_format([document], source="file") == "atif"
    with pytest.raises(TraceError, match=r"file: \[1\]: ") as error:
        read(TRAJECTORY, document)
    assert said in str(error.value)


def test_lines_and_lists_hold_several():
    assert len(read(TRAJECTORY, HELPER)) == len(read([TRAJECTORY, HELPER])) == 2
    assert msgspec.json.encode(read(TRAJECTORY)[0])
