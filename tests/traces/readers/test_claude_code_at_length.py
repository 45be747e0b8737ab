"""Claude Code's streams cut, shuffled, broken, long and real."""

import json
import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.goldens import data
from tests.traces.readers.claude_events import (
    STREAM,
    TRANSCRIPT,
    assistant,
    result,
    spans,
    trace_of,
    use,
    user,
    write,
)
from trivium.errors import TraceError
from trivium.traces.process.totals import trace_facts
from trivium.traces.readers.claude_code import read_traces
from trivium.traces.readers.collection import read_path, read_trace_file

RUNS = "traces/agents-eval"


def test_a_stream_cut_anywhere_is_read_or_refused(tmp_path):
    content = "\n".join(json.dumps(event) for event in STREAM * 4).encode()
    path = tmp_path / "stream.jsonl"
    read_some = 0
    for length in range(0, len(content), 101):
        path.write_bytes(content[:length])
        try:
            (trace,) = read_trace_file(path)
        except TraceError:
            continue
        read_some += 1
        whole = content[:length].rsplit(b"\n", 1)[-1].strip() in (b"", content.split(b"\n")[0])
        assert whole or length == 0 or trace.problems or content[length - 1 : length] == b"}"
    assert read_some > 30


def test_a_line_broken_amid_others_is_named(tmp_path):
    path = write(tmp_path / "a.jsonl", STREAM)
    lines = path.read_text(encoding="utf-8").split("\n")
    lines[3] = lines[3][:20]
    path.write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(TraceError, match="line 4"):
        read_trace_file(path)


def test_shuffled_events_still_pair_their_calls():
    events = STREAM[1:]
    for seed in range(20):
        mixed = events[:]
        random.Random(seed).shuffle(mixed)
        trace = trace_of(*mixed)
        assert Counter(span.name for span in spans(trace, "tool")) == Counter(["Task", "Read", "Bash"])
        assert {span.name: span.agent for span in spans(trace, "tool")}["Read"] == "Explore"
        assert [span.ok for span in spans(trace, "tool") if span.name == "Bash"] == [False]


def test_twenty_thousand_events_are_read():
    events = [
        event
        for n in range(10_000)
        for event in (assistant(use(f"t{n}", "Read"), id=f"m{n}"), user(result(f"t{n}")))
    ]
    trace = trace_of(*events)
    assert len(spans(trace, "tool")) == len(spans(trace, "llm")) == 10_000


def test_agents_nested_by_the_thousand_are_read_without_recursion():
    events = [
        assistant(use(f"t{n}", "Task", subagent_type=f"a{n}"), id=f"m{n}", parent=f"t{n - 1}" if n else None)
        for n in range(10_000)
    ]
    assert trace_facts([trace_of(*events)]).max_depth == 20_000


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


KEYS = """type message session_id parent_tool_use_id uuid parentUuid isSidechain agentId timestamp usage
modelUsage subtype tool_use_result toolUseResult content id name input task_id tool_use_id status event
stop_reason"""


keys = st.sampled_from(KEYS.split())


@given(st.lists(st.tuples(st.integers(0, len(STREAM + TRANSCRIPT) - 1), keys, json_values), max_size=12))
def test_no_event_breaks_the_reader(changes):
    events = [json.loads(json.dumps(event)) for event in STREAM + TRANSCRIPT]
    for place, key, value in changes:
        target = events[place]
        if (
            isinstance(target, dict)
            and isinstance(target.get("message"), dict)
            and key in {"content", "id", "usage"}
        ):
            target = target["message"]
        if isinstance(target, dict):
            target[key] = value
    for trace in read_traces([*events, *(value for _, _, value in changes)], "x"):
        trace_facts([trace])


def test_the_real_streams_have_their_true_counts():
    expected = json.loads(data(f"{RUNS}/expected.json").read_text(encoding="utf-8"))
    for run, truth in expected.items():
        path = data(f"{RUNS}/{run}") / "stream.jsonl"
        if not run.startswith("cc/"):
            continue
        format, (trace,) = read_path(path)  # noqa: A001
        facts = trace_facts([trace])
        assert format == "claude-code"
        assert facts.kinds.get("llm", 0) == truth["model_calls"]
        assert facts.tools == truth["tool_uses"]
        assert facts.failed_tool_spans == truth["failed_tool_results"]
        assert sum(span.ok is None for span in spans(trace, "tool")) == truth["unanswered_tool_uses"]
        owners = Counter(
            "main" if span.parent == "main" else span.parent.removeprefix("agent:")
            for span in spans(trace, "tool")
        )
        assert owners == truth["tool_uses_by_owner"]
        started = [message.receiver for message in trace.messages if message.type == "task_request"]
        assert started == truth["agents_started"]
        sent = [[m.receiver, m.content] for m in trace.messages if m.type == "coordination"]
        assert [receiver for receiver, _ in sent] == [receiver for receiver, _ in truth["messages_sent"]]
        at_start = sum(span.attributes.get("output_tokens_at_start", 0) for span in spans(trace, "llm"))
        assert at_start == truth["output_tokens_by_message_id"]
        assert facts.llm_output_tokens is None
        assert trace.metadata.get("results", 0) == truth["result_events"]


def test_the_real_result_is_the_count_of_tokens():
    path = data(f"{RUNS}/cc/20260303T165254_cc_teams_unknown") / "stream.jsonl"
    (trace,) = read_trace_file(path)
    assert trace.spans[0].usage.output_tokens == 10_653 + 449
    assert trace.metadata["usage"]["output_tokens"] == 11_102 + 9_502
