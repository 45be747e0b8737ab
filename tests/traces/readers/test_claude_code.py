"""Claude Code: each agent gets its turns, calls and messages."""

import json

import pytest

from tests.traces.readers.claude_events import (
    STREAM,
    TRANSCRIPT,
    assistant,
    end,
    message_tuples,
    result,
    says,
    spans,
    stamped,
    trace_of,
    use,
    user,
    write,
)
from trivium.errors import TraceError
from trivium.traces.outcome import asked_in, said_in, stated_usage
from trivium.traces.process.totals import trace_facts
from trivium.traces.readers.claude_code import read_traces, sniff
from trivium.traces.readers.collection import read_path, read_trace_file
from trivium.traces.trace import SpanUsage


def test_a_sub_agent_works_below_the_call_that_started_it():
    trace = trace_of(*STREAM)
    assert [(s.name, s.agent, s.ok) for s in spans(trace, "tool")] == [
        ("Task", "main", True),
        ("Read", "Explore", True),
        ("Bash", "Explore", False),
    ]
    explore = next(span for span in spans(trace, "agent") if span.name == "Explore")
    assert (explore.parent, explore.input, explore.output) == ("t1", "Find it.", "Found.\nTwice.")
    assert message_tuples(trace) == [
        ("main", "Explore", "task_request"),
        ("Explore", "main", "result_delivery"),
    ]
    assert trace.problems == ()
    assert trace_facts([trace]).max_depth == 4


def test_a_turn_split_over_events_is_one_model_call():
    turns = spans(trace_of(*STREAM), "llm")
    assert [turn.id for turn in turns] == ["m1", "m2", "m3"]
    assert [turn.usage.input_tokens for turn in turns] == [40, 40, 40]


def test_output_tokens_from_the_start_of_a_turn_are_not_its_count():
    turn = spans(trace_of(*STREAM), "llm")[0]
    assert turn.usage.output_tokens is None
    assert turn.attributes == {"output_tokens_at_start": 5}


def test_output_tokens_count_once_the_turn_has_a_reason_to_stop():
    trace = trace_of(assistant(says("a"), output=3), assistant(says("b"), output=90, stop_reason="end_turn"))
    assert spans(trace, "llm")[0].usage.output_tokens == 90
    partial = [
        {
            "type": "stream_event",
            "session_id": "s",
            "event": {"type": "message_start", "message": {"id": "m1"}},
        },
        assistant(says("a"), output=3),
        {
            "type": "stream_event",
            "session_id": "s",
            "event": {"type": "message_delta", "usage": {"output_tokens": 77}},
        },
    ]
    assert spans(trace_of(*partial), "llm")[0].usage.output_tokens == 77


def test_the_result_counts_for_the_lead_and_the_whole_session():
    more = end(duration_ms=500, total_cost_usd=0.7, usage={"output_tokens": 11}, result="Bye.")
    trace = trace_of(*STREAM, more)
    lead = trace.spans[0]
    assert (lead.usage.input_tokens, lead.usage.output_tokens) == (10, 711)
    assert trace.metadata["usage"] == {"input_tokens": 10, "output_tokens": 900, "cost_usd": 0.7}
    assert (trace.metadata["seconds"], trace.metadata["results"]) == (2.0, 2)
    assert (lead.ok, lead.output) == (True, "Bye.")


def test_without_usage_by_model_the_tokens_are_counted_and_the_stated_cost_is_used():
    cached = {"cache_read_input_tokens": 1000, "cache_creation_input_tokens": 100, "input_tokens": 3}
    result = end(total_cost_usd=0.01, usage={**cached, "output_tokens": 9})
    result.pop("modelUsage", None)
    trace = trace_of(assistant(says("a")), result)
    assert trace.spans[0].usage == SpanUsage(
        input_tokens=1103, output_tokens=9, cache_read_tokens=1000, cache_write_tokens=100
    )
    stated = stated_usage(trace)
    assert (stated.input_tokens, stated.output_tokens, stated.cost_usd) == (1103, 9, 0.01)


@pytest.mark.parametrize(
    ("ends", "ok"),
    [([], None), ([end(subtype="error_max_turns")], False), ([end(is_error=True)], False), ([end()], True)],
)
def test_the_result_event_states_how_a_session_ended(ends, ok):
    assert trace_of(*STREAM[:-1], *ends).spans[0].ok is ok


def test_a_call_without_an_answer_neither_succeeded_nor_failed():
    trace = trace_of(assistant(use("t", "Bash")), user(result("other")))
    assert spans(trace, "tool")[0].ok is None
    assert [problem.kind for problem in trace.problems] == ["unfinished", "orphan_result"]


def test_an_id_that_repeats_is_paired_in_order():
    trace = trace_of(
        assistant(use("t", "Bash", n=1)),
        user(result("t", "one")),
        assistant(use("t", "Bash", n=2), id="m2"),
        user(result("t", "two", is_error=True)),
    )
    assert [(s.input["n"], s.output, s.ok) for s in spans(trace, "tool")] == [
        (1, "one", True),
        (2, "two", False),
    ]
    assert "duplicate_id" in {problem.kind for problem in trace.problems}


def test_teammates_go_on_after_their_call_and_get_messages():
    trace = trace_of(
        assistant(use("a", "Agent", name="ann", prompt="p"), use("b", "Agent", name="bob", prompt="q")),
        user(result("a"), tool_use_result={"status": "teammate_spawned", "agent_id": "ann@team"}),
        user(result("b"), tool_use_result={"status": "teammate_spawned"}),
        assistant(use("c", "SendMessage", type="message", recipient="ann", content="Hi"), id="m2"),
        assistant(use("d", "SendMessage", to="*", message="All!"), id="m3"),
        assistant(use("e", "SendMessage", to="bob", message='{"type": "shutdown_request"}'), id="m4"),
        assistant(use("f", "SendMessage", to="nobody", message="?"), id="m5"),
        user(result("f"), tool_use_result={"success": False}),
        user(says('<teammate-message teammate_id="ann" color="red">\nDone.</teammate-message>')),
    )
    assert message_tuples(trace) == [
        ("main", "ann", "task_request"),
        ("main", "bob", "task_request"),
        ("main", "ann", "data_transfer"),
        ("main", "ann", "status_update"),
        ("main", "bob", "status_update"),
        ("main", "bob", "coordination"),
        ("ann", "main", "data_transfer"),
    ]
    assert {span.name: span.ok for span in spans(trace, "agent")} == {"main": None, "ann": None, "bob": None}


def test_a_background_agent_ends_with_its_notification():
    trace = trace_of(
        assistant(use("a", "Agent", subagent_type="Plan", prompt="p")),
        user(result("a"), tool_use_result={"status": "async_launched", "agentId": "x"}),
        {"type": "system", "subtype": "task_notification", "session_id": "s", "task_id": "x",
         "status": "completed", "summary": "Planned."},
    )  # fmt: skip
    assert {span.name: span.ok for span in spans(trace, "agent")}["Plan"] is True
    assert message_tuples(trace)[-1] == ("Plan", "main", "result_delivery")


def test_an_agent_whose_start_was_denied_never_ran():
    trace = trace_of(assistant(use("a", "Task", subagent_type="X")), user(result("a", "no", is_error=True)))
    assert [span.name for span in spans(trace, "agent")] == ["main"]
    assert trace.messages == ()


def test_events_of_an_agent_that_no_call_started_are_orphans():
    trace = trace_of(assistant(use("t", "Read"), parent="gone"))
    assert [(s.name, s.agent) for s in spans(trace, "tool")] == [("Read", "agent-gone")]
    assert trace_facts([trace]).orphans == 1


def test_servers_tools_answer_within_the_turn():
    failed = {"type": "web_search_tool_result_error", "error_code": "max_uses_exceeded"}
    trace = trace_of(
        assistant(
            {"type": "server_tool_use", "id": "w", "name": "web_search", "input": {}},
            {
                "type": "web_search_tool_result",
                "tool_use_id": "w",
                "content": [{"type": "web_search_result"}],
            },
            {"type": "server_tool_use", "id": "v", "name": "web_search", "input": {}},
            {"type": "web_search_tool_result", "tool_use_id": "v", "content": failed},
        )
    )
    assert [span.ok for span in spans(trace, "tool")] == [True, False]


def test_a_transcript_has_times_and_side_chains():
    trace = trace_of(*TRANSCRIPT)
    lead = trace.spans[0]
    assert (lead.input, lead.ok, trace.seconds) == ("Do it.", True, 12.0)
    assert [(s.name, s.agent, s.end - s.start) for s in spans(trace, "tool")] == [
        ("Task", "main", 6.0),
        ("Read", "Explore", 1.0),
    ]
    assert [(s.id, s.end - s.start) for s in spans(trace, "llm")] == [("m1", 2.0), ("n1", 2.0), ("m9", 2.0)]
    assert trace.metadata["compactions"] == 1
    assert trace.problems == ()


def test_a_sidechain_is_known_by_its_agent_too():
    events = [event | ({"agentId": "a9"} if event.get("isSidechain") else {}) for event in TRANSCRIPT]
    for event in events:
        event.pop("parentUuid", None)
    assert [s.agent for s in spans(trace_of(*events), "tool")] == ["main", "Explore"]


def test_the_transcript_of_a_sub_agent_alone_is_its_run():
    events = [event | {"agentId": "a9"} for event in TRANSCRIPT if event.get("isSidechain")]
    trace = trace_of(*events)
    assert [s.name for s in spans(trace, "agent")] == ["agent-a9"]
    assert trace.spans[0].input == "Look."


def test_an_interruption_by_the_user_is_reported():
    trace = trace_of(
        *TRANSCRIPT[:5],
        stamped(8, user(result("t", "x", is_error=True)), uuid="w1"),
        stamped(9, user(says("[Request interrupted by user for tool use]")), uuid="w2"),
    )
    assert {"interrupted", "unfinished"} <= {problem.kind for problem in trace.problems}
    assert trace.spans[0].ok is None
    stopped = trace_of(assistant(use("b", "Bash")), user(result("b"), tool_use_result={"interrupted": True}))
    assert spans(stopped, "tool")[0].ok is None


def test_messages_that_no_model_wrote_are_no_model_calls():
    synthetic = assistant(says("API Error"), id="e1")
    synthetic["message"]["model"] = "<synthetic>"
    assert spans(trace_of(synthetic), "llm") == []
    (failed,) = spans(trace_of(synthetic | {"isApiErrorMessage": True}), "llm")
    assert failed.ok is False


def test_sessions_in_one_file_are_traces_of_their_own():
    other = [event | {"session_id": "z"} for event in STREAM]
    traces = read_traces([{"type": "summary", "leafUuid": "u"}, *STREAM, *other], "x")
    assert [trace.trace_id for trace in traces] == ["s", "z"]
    assert len(traces[0].spans) == len(traces[1].spans)


def test_a_stream_is_recognised_in_each_of_its_shapes(tmp_path):
    lines = write(tmp_path / "a.jsonl", STREAM)
    whole = tmp_path / "b.json"
    whole.write_text(json.dumps(STREAM), encoding="utf-8")
    first, second = read_path(lines), read_path(whole)
    assert first == second
    assert first[0] == "claude-code"
    assert read_path(write(tmp_path / "c.jsonl", TRANSCRIPT))[0] == "claude-code"
    assert not sniff({"type": "user", "content": "hi"})
    assert not sniff([])


def test_an_empty_stream_is_a_session_in_which_nothing_happened(tmp_path):
    (tmp_path / "stream.jsonl").write_bytes(b"")
    (trace,) = read_trace_file(tmp_path / "stream.jsonl")
    assert trace.spans == ()
    (tmp_path / "other.jsonl").write_bytes(b"")
    with pytest.raises(TraceError):
        read_trace_file(tmp_path / "other.jsonl")


def test_the_prompts_of_a_session_are_its_turns():
    trace = trace_of(
        user(says("Find it."), timestamp="2026-11-01T10:00:00Z"),
        assistant(use("t1", "Read", file_path="a"), id="m1", timestamp="2026-11-01T10:00:01Z"),
        user(result("t1"), timestamp="2026-11-01T10:00:02Z"),
        assistant(says("It is in a."), id="m2", timestamp="2026-11-01T10:00:03Z"),
        user(says("<command-name>/cost</command-name>"), timestamp="2026-11-01T10:30:00Z"),
        user(says("Caveat: no prompt"), isMeta=True, timestamp="2026-11-01T10:30:01Z"),
        user(says("Change it."), timestamp="2026-11-01T11:00:00Z"),
        assistant(use("t2", "Edit", file_path="a"), id="m3", timestamp="2026-11-01T11:00:01Z"),
        user(result("t2"), timestamp="2026-11-01T11:00:02Z"),
        user(says("Thanks."), timestamp="2026-11-01T11:00:04Z"),
        assistant(says("Welcome."), id="m4", timestamp="2026-11-01T11:00:05Z"),
    )
    assert [(each["role"], each["content"]) for each in said_in(trace)] == [
        ("user", "Find it."),
        ("assistant", "It is in a."),
        ("user", "Change it."),
        ("user", "Thanks."),
        ("assistant", "Welcome."),
    ]
    assert trace.metadata["turns"] == 3
    assert [(call.name, call.attributes["turn"]) for call in trace.tool_calls] == [("Read", 1), ("Edit", 2)]
    assert [span.attributes["turn"] for span in spans(trace, "llm")] == [1, 1, 2, 3]
    assert trace.agent_messages == ()
    assert [each["turn"] for each in said_in(trace)] == [1, 1, 2, 3, 3]
    assert [each["content"] for each in asked_in(trace)][-2:] == ["Change it.", "Thanks."]


def test_a_session_of_one_prompt_has_no_turns():
    trace = trace_of(user(says("Find it.")), *STREAM)
    assert "turns" not in trace.metadata
    assert "user" not in {message.sender for message in trace.messages}
    assert all("turn" not in span.attributes for span in trace.spans)
