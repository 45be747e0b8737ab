"""Who&When: speakers, addressees and code that ran; the label of who was at fault is kept."""

import json
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.goldens import data
from trivium.errors import TraceError
from trivium.traces.process.totals import trace_facts
from trivium.traces.readers.collection import read_path
from trivium.traces.readers.who_and_when import read_traces, sniff

GROUP = {
    "question": "How many?",
    "question_ID": "q1",
    "ground_truth": "3",
    "is_correct": False,
    "mistake_agent": "Counter",
    "mistake_step": "1",
    "mistake_reason": "It miscounts.",
    "history": [
        {"role": "assistant", "name": "Planner", "content": "Count them."},
        {"role": "user", "name": "Counter", "content": "```python\nprint(4)\n```"},
        {
            "role": "user",
            "name": "Computer_terminal",
            "content": "exitcode: 1 (execution failed)\nCode output: no",
        },
        {"role": "user", "name": "Counter", "content": "Again."},
        {
            "role": "user",
            "name": "Computer_terminal",
            "content": "exitcode: 0 (execution succeeded)\nCode output: 4",
        },
        {"role": "user", "name": "Computer_terminal", "content": "There is no code to execute."},
        {"role": "user", "name": "Planner", "content": "TERMINATE"},
    ],
}

ORCHESTRATED = {
    "question": "Where?",
    "question_ID": "q2",
    "mistake_agent": "WebSurfer",
    "mistake_step": "4",
    "history": [
        {"role": "human", "content": "Where?"},
        {"role": "Orchestrator (thought)", "content": "Plan (a) -> b"},
        {"role": "Orchestrator (-> WebSurfer)", "content": "Search."},
        {"role": "WebSurfer", "content": "Found A."},
        {"role": "Orchestrator (-> Assistant)", "content": "Explain."},
        {"role": "WebSurfer", "content": "And B."},
        {"role": "Orchestrator (termination condition)", "content": "Done."},
    ],
}


def trace_of(document):
    (trace,) = read_traces([document], "x")
    return trace


def message_tuples(trace):
    return [(m.sender, m.receiver, m.type) for m in trace.messages]


def test_in_a_group_chat_the_next_speaker_is_spoken_to():
    assert message_tuples(trace_of(GROUP)) == [
        ("Planner", "Counter", "data_transfer"),
        ("Counter", "Computer_terminal", "data_transfer"),
        ("Computer_terminal", "Counter", "data_transfer"),
        ("Counter", "Computer_terminal", "data_transfer"),
        ("Computer_terminal", "Planner", "data_transfer"),
    ]


def test_an_orchestrator_addresses_and_an_answer_goes_back_to_it():
    trace = trace_of(ORCHESTRATED)
    assert message_tuples(trace) == [
        ("human", "Orchestrator", "task_request"),
        ("Orchestrator", "WebSurfer", "task_request"),
        ("WebSurfer", "Orchestrator", "result_delivery"),
        ("Orchestrator", "Assistant", "task_request"),
        ("WebSurfer", "Orchestrator", "result_delivery"),
    ]
    assert trace.agents == ("Orchestrator", "WebSurfer", "Assistant")


def test_thoughts_are_work_but_no_messages():
    trace = trace_of(ORCHESTRATED)
    own = [span.output for span in trace.spans if span.kind == "llm" and span.agent == "Orchestrator"]
    assert own == ["Plan (a) -> b", "Search.", "Explain.", "Done."]


def test_code_that_ran_is_a_tool_of_whoever_asked():
    calls = trace_of(GROUP).tool_calls
    assert [(call.name, call.agent, call.ok) for call in calls] == [
        ("Computer_terminal", "Counter", False),
        ("Computer_terminal", "Counter", True),
    ]


def test_the_label_is_metadata():
    assert trace_of(GROUP).metadata["mistake"] == {"agent": "Counter", "step": 1, "reason": "It miscounts."}
    assert trace_of(GROUP).problems == ()


@pytest.mark.parametrize(
    ("step", "says"),
    [
        ("99", "none of the 7"),
        ("-1", "none of the 7"),
        ("second", "none of the 7"),
        ("0", "by Planner, not Counter"),
    ],
)
def test_a_label_that_does_not_fit_is_flagged(step, says):
    (problem,) = trace_of(GROUP | {"mistake_step": step}).problems
    assert problem.kind == "bad_label"
    assert says in problem.what


def test_a_log_without_times_has_none():
    trace = trace_of(GROUP)
    assert trace.seconds is None
    assert trace_facts([trace]).llm_output_tokens is None


def test_messages_without_a_speaker_are_left_out_and_reported():
    trace = trace_of(GROUP | {"history": [None, {"content": "x"}, *GROUP["history"]], "mistake_step": None})
    assert [problem.kind for problem in trace.problems] == ["bad_message", "bad_message"]
    assert trace.spans[-1].id == "step-8"


def test_what_is_no_conversation_is_refused(tmp_path):
    with pytest.raises(TraceError, match=r"\[1\].*history"):
        read_traces([[GROUP, {"history": 3}]], "x")
    assert not sniff({"history": []})
    assert not sniff([])
    content = json.dumps(GROUP).encode()
    for length in range(0, len(content), 50):
        path = tmp_path / "cut.json"
        path.write_bytes(content[:length])
        with pytest.raises(TraceError):
            read_path(path)


def test_fifty_thousand_messages_are_read():
    history = [{"role": f"A{n % 3} (-> A{n % 5})", "content": "x"} for n in range(50_000)]
    assert len(trace_of({"history": history, "mistake_step": "3"}).spans) == 50_003


values = st.none() | st.integers() | st.text(max_size=10) | st.lists(st.text(max_size=3), max_size=2)
turns = st.dictionaries(st.sampled_from(["role", "name", "content", "x"]), values, max_size=4) | values


@given(st.lists(turns, max_size=8), st.dictionaries(st.sampled_from(sorted(GROUP)), values, max_size=6))
def test_no_message_breaks_the_reader(history, fields):
    trace = trace_of(fields | {"history": history})
    trace_facts([trace])


def test_the_real_logs_have_their_true_counts():
    expected = json.loads(data("traces/who-and-when/expected.json").read_text(encoding="utf-8"))
    for name, truth in expected.items():
        document = data(f"traces/who-and-when/{name}")
        format, (trace,) = read_path(document)  # noqa: A001
        steps = {span.id: span for span in trace.spans if span.kind != "agent"}
        people = truth["speakers"].get("human", 0)
        assert format == "who-and-when"
        assert len(steps) + people == truth["steps"]
        spoken = Counter(
            speaker.split(" (")[0] for speaker in truth["speakers"] for _ in range(truth["speakers"][speaker])
        )
        assert Counter(span.name for span in steps.values()) + Counter(human=people) == spoken
        label = trace.metadata["mistake"]
        assert (label["agent"], str(label["step"])) == (truth["mistake_agent"], truth["mistake_step"])
        assert steps[f"step-{label['step']}"].name == truth["speaker_at_mistake_step"].split(" (")[0]
