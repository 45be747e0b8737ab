"""Answers are read as PydanticAI and the providers' SDKs read them."""

import json

import msgspec
import pytest

from tests.metrics.judge.client.test_direct_client import call
from tests.metrics.judge.client.test_requests import Peer, runner  # noqa: F401
from trivium.metrics.judge.client.providers import PROVIDERS
from trivium.metrics.judge.client.request import MAX_TOKENS
from trivium.metrics.judge.client.wire_formats import FORMATS


@pytest.fixture(autouse=True)
def _keys(monkeypatch):
    for provider in ("OPENAI", "ANTHROPIC"):
        monkeypatch.setenv(f"{provider}_API_KEY", "sk-not-a-real-key-1234567890")


FUNCTION = {"id": "c", "type": "function", "function": {"name": "judgement", "arguments": '{"a": 1}'}}
USAGE = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}
CACHED = {"prompt_tokens_details": {"cached_tokens": 3, "cache_write_tokens": 2}}


def chat(*, usage=USAGE, finish="stop", logprobs=None, top=None, **message):
    message = {"role": "assistant", "content": '{"a": 1}'} | message
    choice = {"index": 0, "message": message, "finish_reason": finish, "logprobs": logprobs}
    body = {
        "id": "1",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [choice],
        "usage": usage,
    }
    return body | (top or {})


def tokens(*pieces):
    found = [
        {"token": "?" if b"\xf0" in each or b"\x98" in each else each.decode(), "bytes": list(each)}
        for each in pieces
    ]
    top = [{"token": "x", "bytes": [120], "logprob": -2.5}]
    return [each | {"logprob": -0.5, "top_logprobs": top} for each in found]


CHATS = {
    "ordinary": chat(),
    "tool call": chat(content=None, tool_calls=[FUNCTION], finish="tool_calls"),
    "truncated": chat(content='{"a', finish="length"),
    "refusal": chat(content=None, refusal="no"),
    "filtered": chat(content="", finish="content_filter"),
    "an unknown end": chat(finish="guardrail_intervened"),
    "no end": chat(finish=None),
    "empty": chat(content=""),
    "null": chat(content=None),
    "parts": chat(content=[{"type": "text", "text": '{"a"'}, {"type": "text", "text": ": 1}"}]),
    "reasoning": chat(
        reasoning_content="so", usage=USAGE | {"completion_tokens_details": {"reasoning_tokens": 5}}
    ),
    "cached": chat(usage=USAGE | CACHED),
    "no usage": chat(usage=None),
    "impossible usage": chat(usage=USAGE | {"prompt_tokens": MAX_TOKENS + 1}),
    "log-probabilities": chat(logprobs={"content": tokens(b'{"a"', b": 1}"), "refusal": None}),
    "pieces of a character": chat(
        content='{"a":"\U0001f600"}',
        logprobs={"content": tokens(b'{"a":"', b"\xf0\x9f", b"\x98\x80", b'"}'), "refusal": None},
    ),
    "lone surrogates": chat(content="\ud800 {}"),
    "two choices": chat(top={"choices": [chat()["choices"][0], chat(content="2")["choices"][0]]}),
}


def message(*blocks, usage=None, stop="end_turn"):
    counts = {
        "input_tokens": 6,
        "cache_read_input_tokens": 3,
        "cache_creation_input_tokens": 2,
        "output_tokens": 7,
    }
    content = list(blocks) or [{"type": "text", "text": '{"a": 1}'}]
    body = {"id": "1", "type": "message", "role": "assistant", "model": "m", "content": content}
    return body | {"stop_reason": stop, "stop_sequence": None, "usage": counts if usage is None else usage}


TOOL = {"type": "tool_use", "id": "t", "name": "judgement", "input": {"a": 1}}
THOUGHT = {"type": "thinking", "thinking": "so", "signature": "s"}
TEXT = {"type": "text", "text": '{"a": 1}'}
MESSAGES = {
    "ordinary": message(),
    "tool call": message(TOOL, stop="tool_use"),
    "words and tool call": message({"type": "text", "text": "So."}, TOOL, stop="tool_use"),
    "truncated": message({"type": "text", "text": '{"a'}, stop="max_tokens"),
    "full": message({"type": "text", "text": '{"a'}, stop="model_context_window_exceeded"),
    "refusal": message(stop="refusal"),
    "thought": message(THOUGHT, TEXT),
    "only thought": message(THOUGHT, stop="max_tokens"),
    "two texts": message({"type": "text", "text": '{"a"'}, {"type": "text", "text": ": 1}"}),
    "no cache": message(usage={"input_tokens": 6, "output_tokens": 7}),
    "lone surrogates": message({"type": "text", "text": "\ud800 {}"}),
}


def response(*items, status="completed", **top):
    usage = {"input_tokens": 11, "output_tokens": 7, "total_tokens": 18}
    usage |= {"input_tokens_details": {"cached_tokens": 3, "cache_write_tokens": 0}}
    usage |= {"output_tokens_details": {"reasoning_tokens": 5}}
    body = {"id": "r", "object": "response", "created_at": 1, "status": status, "error": None, "model": "m"}
    body |= {"incomplete_details": None, "output": list(items) or [said()], "parallel_tool_calls": True}
    settings = {
        "tools": [],
        "tool_choice": "auto",
        "instructions": "Judge.",
        "text": {"format": {"type": "text"}},
    }
    return body | settings | {"reasoning": {"effort": "low"}, "usage": usage} | top


def part(text='{"a": 1}', **fields):
    return {"type": "output_text", "text": text, "annotations": []} | fields


def said(*parts):
    fields = {"type": "message", "id": "i", "role": "assistant", "status": "completed"}
    return fields | {"content": list(parts) or [part()]}


FUNCTION_CALL = {"type": "function_call", "id": "f", "call_id": "c", "status": "completed"}
FUNCTION_CALL |= {"name": "judgement", "arguments": '{"a": 1}'}
REASONING = {
    "type": "reasoning",
    "id": "r",
    "summary": [],
    "content": [{"type": "reasoning_text", "text": "so"}],
}
CUT = {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
RESPONSES = {
    "ordinary": response(),
    "tool call": response(FUNCTION_CALL),
    "truncated": response(said(part('{"a')), **CUT),
    "refusal": response(said({"type": "refusal", "refusal": "no"})),
    "reasoning": response(REASONING, said()),
    "only reasoning": response(REASONING, **CUT),
    "two parts": response(said(part("{"), part("}"))),
    "no usage": response(usage=None),
    "lone surrogates": response(said(part("\ud800 {}"))),
}


@pytest.mark.parametrize(
    ("name", "body"),
    [
        pytest.param(name, body, id=f"{name}, {what}")
        for name, bodies in (
            ("openai:gpt-4o", CHATS),
            ("anthropic:claude-sonnet-5", MESSAGES),
            ("openai-responses:gpt-4o", RESPONSES),
        )
        for what, body in bodies.items()
    ],
)  # fmt: skip
def test_an_answer_is_read_as_by_pydantic_ai(name, body):
    encoded = json.dumps(body).encode()
    theirs = Peer(name, encoded).answer(call(name, output="tool"))
    ours = FORMATS[PROVIDERS[name.partition(":")[0]].format].read(encoded)
    if '"judgement"' in json.dumps(body):  # PydanticAI writes the arguments of a tool again, without spaces
        assert json.loads(ours.text) == json.loads(theirs.text)
        ours = msgspec.structs.replace(ours, text=theirs.text)
    assert ours == theirs


def test_log_probabilities_of_the_responses_api_are_read():
    """PydanticAI has them at the parts of an answer only."""
    read = FORMATS["responses"].read(
        json.dumps(response(said(part(logprobs=tokens(b'{"a"', b": 1}"))))).encode()
    )
    as_chat = FORMATS["chat"].read(json.dumps(CHATS["log-probabilities"]).encode())
    assert read.logprobs == as_chat.logprobs
    assert [each.token for each in read.logprobs] == ['{"a"', ": 1}"]


@pytest.mark.parametrize(
    "wrong", ["x", ["x"], [{"token": 3}], [{"token": "x", "logprob": "none"}], {"content": "x"}]
)
def test_malformed_log_probabilities_cost_nothing_else(wrong):
    for body, read in (
        (chat(logprobs=wrong), FORMATS["chat"].read),
        (chat(logprobs={"content": wrong}), FORMATS["chat"].read),
        (response(said(part(logprobs=wrong))), FORMATS["responses"].read),
    ):
        found = read(json.dumps(body).encode())
        assert (found.text, found.logprobs) == ('{"a": 1}', None)


@pytest.mark.parametrize("api", FORMATS)
@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"{}", b"[]", b"null", b"\xff", b"[" * 100_000, b'{"choices": []}', b'{"choices": null}'),
        *(b'{"choices": [{}]}', b'{"content": 7}', b'{"content": [{"type": 3}]}', b'{"output": null}'),
        b'{"output": [], "error": {"code": "x"}}',
    ],
)
def test_what_is_no_answer_is_none(api, body):
    assert FORMATS[api].read(body) is None


def test_what_is_not_reported_is_none_or_zero():
    for api, body in (
        ("chat", {"choices": [{"message": {"content": "{}"}}]}),
        ("messages", {"content": [{"type": "text", "text": "{}"}]}),
        ("responses", {"output": [{"type": "message", "content": [{"type": "output_text", "text": "{}"}]}]}),
    ):
        found = FORMATS[api].read(json.dumps(body).encode())
        assert (found.text, found.model, found.logprobs, found.cost_usd) == ("{}", "", None, None)
        assert (
            found.input_tokens == found.output_tokens == found.cached_tokens == found.cache_write_tokens == 0
        )


def test_the_input_of_a_tool_keeps_what_is_there_twice():
    body = json.dumps(MESSAGES["tool call"]).replace('{"a": 1}', '{"a": 1, "a": 2}').encode()
    assert FORMATS["messages"].read(body).text == '{"a": 1, "a": 2}'
