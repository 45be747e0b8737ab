"""A conversation is one attempt, whoever the agent is."""

import json
import sys
import threading

import msgspec

import trivium as tv
from tests.agents.adapters.test_http import serving
from tests.agents.asked import Waits, asked
from trivium.agents.attempt import ChatMessage, dialogue, numbered
from trivium.agents.conversation import merged_trace
from trivium.suites.agent_settings import AgentSettings
from trivium.suites.case import Case, Turn
from trivium.traces.trace import Span, Trace, TraceProblem

ORDER = Case(id="order", turns=("Where is it?", "Number 42.", "Thanks!"))


def said(attempt):
    return [(message.turn, message.role, message.content) for message in attempt.messages]


def test_the_agent_gets_all_messages_so_far_and_the_last_reply_is_the_output():
    seen = []

    def answer(messages):
        seen.append([(each["role"], each["content"]) for each in messages])
        return f"reply {len(seen)}"

    attempt = asked(answer, case=ORDER)
    assert seen == [
        [("user", "Where is it?")],
        [("user", "Where is it?"), ("assistant", "reply 1"), ("user", "Number 42.")],
        [*seen[1], ("assistant", "reply 2"), ("user", "Thanks!")],
    ]
    assert (attempt.output, attempt.error) == ("reply 3", None)
    assert said(attempt) == [
        (1, "user", "Where is it?"),
        (1, "assistant", "reply 1"),
        (2, "user", "Number 42."),
        (2, "assistant", "reply 2"),
        (3, "user", "Thanks!"),
        (3, "assistant", "reply 3"),
    ]
    assert attempt.shown.startswith(
        "turn 1, user: Where is it?\n\nturn 1, assistant: reply 1\n\nturn 2, user"
    )


def test_messages_before_the_first_turn_come_first_and_have_no_turn():
    system = {"role": "system", "content": "You sell shoes."}
    attempt = asked(lambda messages: messages[0]["content"], case=Case(id="a", input=[system], turns=("Hi",)))
    assert said(attempt)[0] == (0, "system", "You sell shoes.")
    assert attempt.output == "You sell shoes."
    assert dialogue(attempt.messages) == (
        "system: You sell shoes.\n\nturn 1, user: Hi\n\nturn 1, assistant: You sell shoes."
    )


def test_parts_of_a_message_reach_the_agent_as_they_are():
    parts = ({"type": "text", "text": "What is it?"}, {"type": "image_url", "image_url": {"url": "x"}})
    attempt = asked(
        lambda messages: messages[0]["content"][1]["type"], case=Case(id="a", turns=(Turn(user=parts),))
    )
    assert attempt.output == "image_url"
    assert "[image_url]" in attempt.shown


def test_seconds_tokens_and_costs_are_summed_and_metadata_joined():
    def answer(messages):
        turn = (len(messages) + 1) // 2
        usage = {"input_tokens": 10 * turn, "output_tokens": turn, "cost_usd": 0.25}
        found = {"contexts": [f"d{turn}"], "session": turn}
        return {"output": "ok", "seconds": turn, "usage": usage, **found}

    attempt = asked(answer, case=ORDER)
    assert attempt.seconds == 6
    assert (attempt.usage.input_tokens, attempt.usage.output_tokens) == (60, 6)
    assert attempt.usage.cost_usd == 0.75
    assert attempt.metadata == {"contexts": ["d1", "d2", "d3"], "session": 3}


def test_a_sum_with_an_unknown_part_is_unknown():
    def answer(messages):
        return {"output": "ok", "usage": {"input_tokens": 1} if len(messages) > 1 else None}

    assert asked(answer, case=ORDER).usage.input_tokens is None


def test_one_trace_has_the_calls_of_all_turns_with_their_numbers():
    @tv.trace.tool
    def find(number):
        return number

    def answer(messages):
        return find(len(messages)) if len(messages) > 1 else "which?"

    attempt = asked(answer, case=ORDER)
    assert [(call.input, call.attributes["turn"]) for call in attempt.trace.tool_calls] == [
        ({"number": 3}, 2),
        ({"number": 5}, 3),
    ]
    assert not attempt.trace.problems


def test_a_turn_whose_clock_begins_anew_follows_the_one_before():
    turn = Trace(
        spans=(Span(id="a", kind="tool", name="t", start=0.0, end=2.0),),
        problems=(TraceProblem(kind="odd", span="a", what="it is odd"),),
        metadata={"people": ["user"]},
    )
    whole = merged_trace([turn, None, turn])
    assert [(span.id, span.parent, span.start, span.end) for span in whole.spans] == [
        ("turn-1", None, 0.0, 2.0),
        ("1.a", "turn-1", 0.0, 2.0),
        ("turn-3", None, 2.0, 4.0),
        ("3.a", "turn-3", 2.0, 4.0),
    ]
    assert [(each.span, each.what) for each in whole.problems] == [
        ("1.a", "turn 1: it is odd"),
        ("3.a", "turn 3: it is odd"),
    ]
    assert whole.metadata == {"people": ["user"]}
    assert merged_trace([None, None]) is None


def test_a_turn_that_fails_ends_the_conversation_and_is_named():
    def answer(messages):
        if len(messages) == 3:
            raise ValueError("no such number")
        return "ok"

    attempt = asked(answer, case=ORDER)
    assert attempt.error == "turn 2: ValueError: no such number"
    assert attempt.output is None
    assert said(attempt)[-1] == (2, "user", "Number 42.")


def test_only_the_turn_that_failed_for_a_while_is_asked_again():
    calls = []

    def answer(messages):
        calls.append(len(messages))
        if len(calls) == 2:
            raise ConnectionResetError("gone")
        return "ok"

    attempt = asked(answer, case=ORDER, waits=Waits())
    assert calls == [1, 3, 3, 5]
    assert (attempt.error, attempt.metadata["tries"]) == (None, 2)


def test_the_time_limit_holds_for_each_turn():
    hold = threading.Event()

    def answer(messages):
        if len(messages) > 1:
            hold.wait(30)
        return "ok"

    try:
        assert asked(answer, case=ORDER, seconds=0.3, retries=0).error == (
            "turn 2: no answer within 0.3 s (limits.seconds)"
        )
    finally:
        hold.set()


def test_a_conversation_that_grows_too_large_fails():
    attempt = asked(lambda messages: "x" * 400, case=ORDER, output_bytes=1000)
    assert attempt.error == "turn 3: the conversation is larger than 1,000 bytes (limits.output_bytes)"


def test_a_function_that_takes_a_text_is_refused():
    def answer(question: str) -> str:
        return question

    assert asked(answer, case=ORDER).error == (
        "turn 1: the case is a conversation, of which an agent gets the list of messages so far, but "
        f"{answer.__qualname__} takes a text (question: str): have it take a list, and say so"
    )


def test_a_command_is_started_for_each_turn():
    code = (
        "import json, os, sys; found = json.load(sys.stdin); "
        "print(os.environ['TRIVIUM_TURN'], len(found), end='')"
    )
    attempt = asked([sys.executable, "-c", code], case=ORDER)
    assert [content for _, role, content in said(attempt) if role == "assistant"] == ["1 1", "2 3", "3 5"]


def test_an_endpoint_gets_the_messages_or_the_newest_alone():
    bodies = []

    def respond(handler, body):
        bodies.append(json.loads(body))
        handler.reply(200, json.dumps({"output": f"reply {len(bodies)}"}))

    with serving(respond) as server:
        agent = AgentSettings(
            url=server.url, body={"all": "{messages}", "new": "{message}", "turn": "{turn}"}
        )
        assert asked(agent, case=ORDER).output == "reply 3"
    assert [(len(body["all"]), body["new"], body["turn"]) for body in bodies] == [
        (1, "Where is it?", 1),
        (3, "Number 42.", 2),
        (5, "Thanks!", 3),
    ]
    assert bodies[1]["all"][1] == {"role": "assistant", "content": "reply 1"}


def test_an_agent_of_pydantic_ai_keeps_the_calls_of_its_tools():
    from pydantic_ai import Agent
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import FunctionModel

    requests = []

    def model(messages, _info):
        requests.append([part.part_kind for message in messages for part in message.parts])
        if len(requests) == 1:
            return ModelResponse(parts=[ToolCallPart("find", {"number": "42"})])
        return ModelResponse(parts=[TextPart(f"reply {len(requests)}")])

    agent = Agent(FunctionModel(model))

    @agent.tool_plain
    def find(number: str) -> str:
        return number

    attempt = asked(agent, case=Case(id="a", turns=("one", "two")))
    assert (attempt.error, attempt.output) == (None, "reply 3")
    assert requests[-1] == ["user-prompt", "tool-call", "tool-return", "text", "user-prompt"]
    assert [call.attributes["turn"] for call in attempt.trace.tool_calls] == [1]


def test_a_secret_that_was_said_is_masked_where_it_is_stored():
    from trivium.agents.response import masked

    key = "sk-ant-api03-abcdefghij0123456789ABCDEFGHIJKL-ab_cd"
    attempt = masked(asked(lambda messages: f"It is {key}", case=Case(id="a", turns=("Key?", "Again?"))))
    assert key not in str(attempt)
    assert "[masked]" in attempt.messages[1].content


def test_a_turn_of_a_recorded_chat_begins_where_the_user_speaks_after_somebody_else():
    roles = ["system", "user", "user", "assistant", "tool", "assistant", "user", "assistant"]
    found = list(numbered({"role": role, "content": role} for role in roles))
    assert [message.turn for message in found] == [0, 1, 1, 1, 1, 1, 2, 2]
    assert list(numbered([{"role": "user", "content": "x", "turn": 7}])) == [
        ChatMessage(role="user", content="x", turn=7)
    ]


def test_an_exported_conversation_keeps_the_numbers_of_its_turns():
    before = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]
    attempt = asked(lambda messages: "ok", case=Case(id="a", input=before, turns=("one", "two")))
    assert list(numbered(msgspec.to_builtins(attempt.messages))) == list(attempt.messages)
    assert [each.turn for each in attempt.messages] == [0, 0, 1, 1, 2, 2]
