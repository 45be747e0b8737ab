"""ATIF written: by the rules of the format, and read back as it was."""

import json

from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import traces
from tests.traces.readers.test_atif import TRAJECTORY
from tests.traces.writers.test_otlp import rich_traces
from trivium.traces.outcome import input_of, output_of
from trivium.traces.readers import read_documents
from trivium.traces.readers.collection import read_path
from trivium.traces.trace import Trace
from trivium.traces.writers.atif import lines
from trivium.traces.writers.otlp import TraceToExport, traces_to_export

AGENT_ONLY = {"model_name", "reasoning_effort", "reasoning_content", "tool_calls", "metrics"}


def without_trace(document):
    return document | {"extra": {}}


def checked(document):
    """Check the rules that Harbor's own models check."""
    assert {"schema_version", "agent", "steps"} <= document.keys()
    assert {"name", "version"} <= document["agent"].keys()
    assert [step["step_id"] for step in document["steps"]] == list(range(1, len(document["steps"]) + 1))
    assert document["steps"]
    for step in document["steps"]:
        assert step["source"] == "agent" or not AGENT_ONLY & step.keys()
        assert step.get("llm_call_count") != 0 or "metrics" not in step
        assert isinstance(step["message"], str)
        calls = {call["tool_call_id"] for call in step.get("tool_calls", [])}
        assert all(isinstance(call["arguments"], dict) for call in step.get("tool_calls", []))
        for result in step.get("observation", {}).get("results", []):
            assert result.get("source_call_id", None) in {None, *calls}
    below = document.get("subagent_trajectories", [])
    assert len({each["trajectory_id"] for each in below}) == len(below)
    return [document, *(inner for each in below for inner in checked(each))]


@given(written=st.lists(rich_traces() | traces(), min_size=1, max_size=3))
def test_what_is_read_back_is_what_was_written(tmp_path_factory, written):
    path = tmp_path_factory.mktemp("atif") / "file.jsonl"
    path.write_bytes(b"".join(lines(traces_to_export(written))))
    found, back = read_path(path)
    assert found == "atif"
    for trace, its in zip(written, back, strict=True):
        if trace != Trace():
            assert its == trace


@given(trace=rich_traces() | traces())
def test_the_steps_alone_hold_every_agent_request_and_call(trace):
    (document,) = [json.loads(line) for line in lines(traces_to_export([trace]))]
    checked(document)
    _, (its,) = read_documents([without_trace(document)], source="file")
    for kind in ("llm", "tool"):
        assert sorted(span.name for span in its.spans if span.kind == kind) == sorted(
            span.name for span in trace.spans if span.kind == kind
        )
    agents = [span for span in its.spans if span.kind == "agent"]
    ours = [span for span in trace.spans if span.kind == "agent"]
    assert len(agents) - len(ours) in {0, 1}  # one more stands above what no agent did


def test_a_trajectory_of_harbor_is_the_same_after_a_round_trip_by_way_of_its_steps():
    _, (trace,) = read_documents([TRAJECTORY], source="file")
    (document,) = [json.loads(line) for line in lines(traces_to_export([trace]))]
    checked(document)
    _, (its,) = read_documents([without_trace(document)], source="file")
    assert (input_of(its), output_of(its)) == (input_of(trace), output_of(trace))
    assert [(call.name, call.agent, call.input, call.output, call.ok) for call in its.tool_calls] == [
        (call.name, call.agent, call.input, call.output, call.ok) for call in trace.tool_calls
    ]
    assert [span.usage for span in its.spans if span.kind == "llm"] == [
        span.usage for span in trace.spans if span.kind == "llm"
    ]


def test_steps_that_were_changed_since_count():
    _, (trace,) = read_documents([TRAJECTORY], source="file")
    (document,) = [json.loads(line) for line in lines(traces_to_export([trace]))]
    document["steps"][-1]["message"] = "Three."
    _, (its,) = read_documents([document], source="file")
    assert output_of(its) == "Three."


def test_an_attempt_without_a_trace_has_its_input_output_and_scores():
    events = [
        ("e", {"gen_ai.evaluation.name": "cosine", "gen_ai.evaluation.score.value": 0.25}),
        ("e", {"gen_ai.evaluation.name": "jaccard", "gen_ai.evaluation.score.label": "skipped"}),
    ]
    attributes = {"trivium.case.id": "c", "trivium.repeat": 1}
    entry = TraceToExport(trace=Trace(), key="k", input="?", output="!", events=events, attributes=attributes)
    (document,) = [json.loads(line) for line in lines([entry])]
    checked(document)
    assert [(step["source"], step["message"]) for step in document["steps"]] == [
        ("user", "?"),
        ("agent", "!"),
    ]
    assert document["final_metrics"]["extra"] == {"scores": {"cosine": 0.25}}
    _, (its,) = read_documents([document], source="file")
    assert (its.metadata["case"], input_of(its), output_of(its)) == ("c", "?", "!")
