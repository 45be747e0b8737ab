"""The traces of one conversation, joined in the order of time with their turns numbered."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

import trivium as tv
from tests.traces.opentelemetry.spans import chat, content, span, tool
from trivium.errors import InputError
from trivium.traces.conversations import by_conversation, joined
from trivium.traces.outcome import asked_in, completed, counted_usage, output_of, total_usage
from trivium.traces.readers.collection import TraceFiles
from trivium.traces.trace import Span, SpanUsage, Trace

IDS = [f"{number:032x}" for number in range(1, 9)]


def turn(id, conversation, at, question, answer, **attributes):
    """An OpenTelemetry trace: an agent that calls a tool and a model, with a conversation."""
    asked = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "support"}
    asked |= {"gen_ai.conversation.id": conversation} if conversation else {}
    asked |= {"input.value": question} | ({"output.value": answer} if answer else {}) | attributes
    begins = at * 60
    return (
        span("a", asked, at=(begins, begins + 4), trace=id),
        tool("look", parent="a", at=(begins + 1, begins + 2), trace=id),
        chat("m", (10, 2), parent="a", at=(begins + 2, begins + 3), trace=id),
    )


@pytest.fixture
def files(tmp_path):
    """Two conversations and a trace of none, over two files and in no order."""
    (tmp_path / "1.json").write_bytes(
        content(*turn(IDS[1], "c1", 5, "And when?", "Today."), *turn(IDS[2], "c2", 1, "Hello?", "Hello."))
    )
    (tmp_path / "2.json").write_bytes(
        content(*turn(IDS[0], "c1", 2, "Where is it?", "In Lyon."), *turn(IDS[3], None, 3, "Alone?", "Yes."))
    )
    return str(tmp_path / "1.json"), str(tmp_path / "2.json")


def test_traces_of_one_conversation_are_its_turns_in_the_order_of_time(files):
    alone, first, second = (located.trace for located in by_conversation(TraceFiles(files)))
    assert (alone.trace_id, first.trace_id, second.trace_id) == (IDS[3], "c1", "c2")
    assert asked_in(first) == [
        {"role": "user", "content": "Where is it?"},
        {"role": "assistant", "content": "In Lyon."},
        {"role": "user", "content": "And when?"},
    ]
    assert (output_of(first), asked_in(second), output_of(second)) == ("Today.", "Hello?", "Hello.")
    assert [each.attributes["turn"] for each in first.spans] == [1, 1, 1, 2, 2, 2]
    assert (first.metadata["turns"], second.metadata["turns"]) == (2, 1)
    assert first.seconds == pytest.approx(8)  # the three minutes between the turns are the person's
    assert first.agents == ("support",)
    assert [call.name for call in first.tool_calls] == ["look", "look"]
    assert completed(first) is True


def test_a_last_turn_without_an_answer_has_none_of_an_earlier_one(files, tmp_path):
    (tmp_path / "3.json").write_bytes(content(*turn(IDS[4], "c1", 9, "Are you there?", None)[:1]))
    found = by_conversation(TraceFiles([*files, str(tmp_path / "3.json")]))
    (trace,) = [located.trace for located in found if located.trace.trace_id == "c1"]
    assert (trace.metadata["turns"], output_of(trace)) == (3, None)
    assert asked_in(trace)[-1] == {"role": "user", "content": "Are you there?"}


TURNS = st.lists(
    st.lists(st.tuples(st.floats(0, 5), st.integers(0, 50)), min_size=1, max_size=4), min_size=1, max_size=5
)


@given(TURNS)
def test_joining_loses_and_adds_nothing(turns):
    traces = [
        Trace(
            trace_id=str(number),
            spans=tuple(
                Span(
                    id=str(index),
                    kind="llm",
                    name="m",
                    parent="0" if index else None,
                    start=1e9 + 100 * number + index,
                    end=1e9 + 100 * number + index + seconds,
                    usage=SpanUsage(input_tokens=tokens),
                )
                for index, (seconds, tokens) in enumerate(spans)
            ),
        )
        for number, spans in enumerate(turns)
    ]
    trace = joined(traces, "c")
    assert len({each.id for each in trace.spans}) == sum(map(len, turns))
    assert {each.parent for each in trace.spans if each.parent} <= {each.id for each in trace.spans}
    used = total_usage(usage for _, usage in counted_usage(trace))
    assert used.input_tokens == sum(tokens for spans in turns for _, tokens in spans)
    assert trace.seconds == pytest.approx(sum(each.seconds for each in traces), abs=1e-4)
    assert [each.start for each in trace.spans] == sorted(each.start for each in trace.spans)


def test_conversations_are_scored_as_one_attempt_each(files, tmp_path):
    store = f"sqlite:///{tmp_path / 's.db'}"
    by_trace = tv.score_traces(files, store=store)
    report = tv.score_traces(files, by="conversation", store=store)
    assert (by_trace.traces, report.traces) == (4, 3)
    assert report.tokens.input_tokens == by_trace.tokens.input_tokens == 40
    run = tv.Run.load(report.run, store=store)
    cases = {case.id: case for case in run.cases()}
    assert cases["c1"].input_text.startswith("user: Where is it?")
    attempts = {each.case: each for each in run.attempts()}
    assert (attempts["c1"].output, attempts["c1"].seconds) == ("Today.", pytest.approx(8))
    with pytest.raises(InputError, match='by: found "session", expected one of: trace, conversation'):
        tv.score_traces(files, by="session", store=store)


def test_conversations_are_attempts_of_the_cases_that_have_their_ids(files, tmp_path):
    turns = [
        "Where is it?",
        {"user": "And when?", "expect": {"contains": "today", "tools": [{"name": "look"}]}},
    ]
    cases = [
        {"id": "c1", "turns": turns, "references": ["Today."]},
        {"id": "c2", "input": "Hello?", "references": ["Goodbye."]},
    ]
    run = tv.evaluate(
        cases,
        outputs=f"conversations:{tmp_path}",
        metrics=["success", "turn_success"],
        success={"exact": True},
        store=f"sqlite:///{tmp_path / 's.db'}",
    )
    scores = {each.case: each.scores["success"].value for each in run.evaluations()}
    assert scores == {"c1": 1, "c2": 0}
    by_case = {each.case: each for each in run.attempts()}
    assert [(each.turn, each.role, each.content) for each in by_case["c1"].messages] == [
        (1, "user", "Where is it?"),
        (1, "assistant", "In Lyon."),
        (2, "user", "And when?"),
        (2, "assistant", "Today."),
    ]
    assert by_case["c2"].messages == ()
    assert next(run.evaluations()).scores["turn_success"].value == 1


def test_a_recorded_chat_is_a_conversation_of_its_own(tmp_path):
    said = [("user", "a"), ("assistant", "b"), ("user", "c"), ("assistant", "d")]
    messages = [{"role": role, "content": text} for role, text in said]
    (tmp_path / "chats.jsonl").write_text(json.dumps({"id": "chat", "messages": messages}) + "\n")
    store = f"sqlite:///{tmp_path / 's.db'}"
    report = tv.score_traces(str(tmp_path / "chats.jsonl"), by="conversation", store=store)
    run = tv.Run.load(report.run, store=store)
    assert next(run.cases()).input == messages[:3]
    assert next(run.attempts()).output == "d"


def test_threads_of_langsmith_are_conversations(tmp_path):
    def run(number, question, answer):
        moment = f"2026-11-01T10:0{number}"
        return {
            "id": f"r{number}",
            "run_type": "chain",
            "name": "support",
            "start_time": f"{moment}:00",
            "end_time": f"{moment}:02",
            "inputs": {"input": question},
            "outputs": {"output": answer},
            "extra": {"metadata": {"session_id": "th"}},
        }

    (tmp_path / "runs.json").write_text(
        json.dumps([run(2, "And when?", "Today."), run(1, "Where?", "Here.")])
    )
    (located,) = by_conversation(TraceFiles([str(tmp_path / "runs.json")]))
    assert [each["content"] for each in asked_in(located.trace)] == ["Where?", "Here.", "And when?"]
    assert located.trace.seconds == pytest.approx(4)
