"""Messages in the forms of APIs and frameworks, and what was asked and answered in them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trivium.traces.conversation import answer_in, question_in

IMAGE = {"type": "image_url", "image_url": {"url": "data:…"}}


def langchain(name, **fields):
    return {"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", name], "kwargs": fields}


CONVERSATIONS = {
    "OpenAI": [
        {"role": "system", "content": "s"},
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": "a"},
    ],
    "OpenAI, parts": [
        {"role": "user", "content": [{"type": "text", "text": "q"}, IMAGE]},
        {"role": "assistant", "content": [{"type": "text", "text": "a"}]},
    ],
    "OpenAI, responses": [
        {"role": "user", "content": [{"type": "input_text", "text": "q"}]},
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "a"}]},
    ],
    "GenAI": [
        {"role": "user", "parts": [{"type": "text", "content": "q"}]},
        {
            "role": "assistant",
            "parts": [{"type": "reasoning", "content": "hm"}, {"type": "text", "content": "a"}],
        },
    ],
    "Anthropic": {
        "system": "s",
        "messages": [
            {"role": "user", "content": "q"},
            {
                "role": "assistant",
                "content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "a"}],
            },
        ],
    },
    "OpenAI, a part whose type is no text": [
        {"role": "user", "content": [{"type": ["text"], "text": "x"}, {"type": "text", "text": "q"}]},
        {"role": "assistant", "content": [{"type": {}, "text": "x"}, {"type": "text", "text": "a"}]},
    ],
    "Bedrock": [
        {"role": "user", "content": [{"text": "q"}]},
        {"role": "assistant", "content": [{"reasoningContent": {"text": "hm"}}, {"text": "a"}]},
    ],
    "Gemini": {
        "contents": [
            {"role": "user", "parts": [{"text": "q"}]},
            {"role": "model", "parts": [{"text": "hm", "thought": True}, {"text": "a"}]},
        ]
    },
    "Haystack": {
        "messages": [
            {"role": "user", "meta": {}, "content": [{"text": "q"}]},
            {"role": "assistant", "meta": {}, "content": [{"text": "a"}]},
        ]
    },
    "LangChain, pairs": {"messages": [["user", "q"], ("ai", "a")]},
    "LangChain, dicts": [
        {"type": "human", "data": {"content": "q"}},
        {"type": "ai", "data": {"content": "a"}},
    ],
    "LangChain, flat": [{"type": "human", "content": "q"}, {"type": "AIMessageChunk", "content": "a"}],
    "LangChain, objects": [[langchain("HumanMessage", content="q"), langchain("AIMessage", content="a")]],
}


@pytest.mark.parametrize("form", CONVERSATIONS)
def test_the_question_and_the_answer_in_every_form(form):
    assert (question_in(CONVERSATIONS[form]), answer_in(CONVERSATIONS[form])) == ("q", "a")


@pytest.mark.parametrize(
    "response",
    [
        {"choices": [{"message": {"role": "assistant", "content": "a"}, "finish_reason": "stop"}]},
        {"candidates": [{"content": {"role": "model", "parts": [{"text": "a"}]}}]},
        {"generations": [[{"text": "a", "message": langchain("AIMessage", content="a")}]]},
        {"replies": [{"role": "assistant", "content": [{"text": "a"}]}]},
        {
            "output": [
                {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "a"}]}
            ]
        },
    ],
)
def test_responses_of_models_in_every_form(response):
    assert answer_in(response) == "a"


def test_the_last_text_of_the_user_is_the_question():
    messages = [
        {"role": "user", "content": "first"},
        {"role": "assistant", "content": "yes?"},
        {"role": "user", "content": "second"},
        {"role": "user", "content": [{"type": "tool_result", "content": "x"}]},
        {"role": "user", "content": [IMAGE]},
    ]
    assert question_in(messages) == "second"


def test_a_conversation_that_ends_with_tool_calls_has_no_answer():
    calls = {"role": "assistant", "content": None, "tool_calls": [{"id": "c"}]}
    assert answer_in([{"role": "assistant", "content": "let me see"}, calls]) is None
    assert question_in([calls]) is None


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=10,
)


@given(PLAIN)
def test_other_values_are_left_as_they_are(value):
    assert question_in(value) == value
    assert answer_in(value) == value


@given(
    st.lists(
        st.dictionaries(
            st.sampled_from(
                ["role", "type", "content", "parts", "data", "kwargs", "id", "messages", "message"]
            ),
            st.sampled_from(["user", "ai", "text", "", None, 3]) | PLAIN,
        ),
        max_size=4,
    )
)
def test_messages_without_role_or_content_end_nothing(messages):
    for value in (messages, {"messages": messages}):
        for found in (question_in(value), answer_in(value)):
            assert found is None or isinstance(found, str) or found == value
