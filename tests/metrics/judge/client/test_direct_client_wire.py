"""The fast way to read an answer reads the usual ones as they are and leaves all others to another client."""

import json

import pytest

from trivium.metrics.judge.client.direct_client import chat_response, message_response
from trivium.metrics.judge.client.request import MAX_TOKENS, ModelResponse

USUAL = ModelResponse(
    text='{"a": 1}',
    finish="stop",
    model="m",
    logprobs=None,
    input_tokens=11,
    output_tokens=7,
    cached_tokens=3,
    cost_usd=None,
)


def chat(*, usage=None, choices=None, finish="stop", logprobs=None, **message):
    message_fields = {"role": "assistant", "content": '{"a": 1}', **message}
    choice = {"index": 0, "message": message_fields, "finish_reason": finish, "logprobs": logprobs}
    usage_counts = {
        "prompt_tokens": 11,
        "completion_tokens": 7,
        "prompt_tokens_details": {"cached_tokens": 3},
    }
    usage_counts = usage_counts if usage is None else usage
    body = {"model": "m", "choices": [choice] if choices is None else choices, "usage": usage_counts}
    return chat_response(json.dumps(body).encode())


def message(*blocks, usage=None, stop="end_turn"):
    usage_counts = {"input_tokens": 6, "cache_read_input_tokens": 3, "cache_creation_input_tokens": 2}
    usage_counts = usage_counts | {"output_tokens": 7} if usage is None else usage
    content = list(blocks) or [{"type": "text", "text": '{"a": 1}'}]
    body = {"model": "m", "content": content, "stop_reason": stop, "usage": usage_counts}
    return message_response(json.dumps(body).encode())


def response_fields(**fields):
    return {name: getattr(USUAL, name) for name in USUAL.__struct_fields__} | fields


def read(reply):
    return None if reply is None else {name: getattr(reply, name) for name in reply.__struct_fields__}


def test_usual_answers_are_read():
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
    assert read(chat()) == response_fields()
    assert read(chat(content=None, tool_calls=[call], finish="tool_calls")) == response_fields(
        finish="tool_call"
    )
    assert read(chat(finish="length")) == response_fields(finish="length")
    tool = {"type": "tool_use", "id": "t", "name": "f", "input": {"a": 1}}
    assert read(message()) == response_fields(cache_write_tokens=2)
    assert read(message(tool, stop="tool_use")) == response_fields(finish="tool_call", cache_write_tokens=2)
    assert read(message(stop="max_tokens")) == response_fields(finish="length", cache_write_tokens=2)


@pytest.mark.parametrize(
    "usage",
    [
        {"prompt_tokens": 0, "completion_tokens": 0},
        {"prompt_tokens": 0, "completion_tokens": 0, "prompt_tokens_details": {"cached_tokens": None}},
        {"prompt_tokens": MAX_TOKENS, "completion_tokens": 0, "prompt_tokens_details": {"cached_tokens": 0}},
    ],
)
def test_counts_may_be_nothing_and_as_many_as_any_model_takes(usage):
    expected = response_fields(input_tokens=usage["prompt_tokens"], output_tokens=0, cached_tokens=0)
    assert read(chat(usage=usage)) == expected
    usage_counts = {"input_tokens": usage["prompt_tokens"], "output_tokens": 0}
    assert read(message(usage=usage_counts)) == expected


@pytest.mark.parametrize(
    "body",
    [b"{}", b'{"choices": []}', b'{"choices": null}', b"[" * 100_000, b"\xff", b"", b'{"choices": [{}]}'],
)
def test_what_is_no_answer_is_left_to_others(body):
    assert chat_response(body) is message_response(body) is None


def test_what_is_unusual_is_left_to_others():
    choice = {"message": {"content": "{}"}, "finish_reason": "stop"}
    assert chat(choices=[choice, choice]) is None
    assert chat(content="") is None
    assert chat(content=None) is None
    assert chat(content="<think>so</think>{}") is None
    assert chat(content=" " * 195 + "<think>so</think>{}") is not None
    assert chat(refusal="no") is None
    assert chat(finish="content_filter") is None
    assert chat(usage={"prompt_tokens": -1, "completion_tokens": 0}) is None
    assert chat(usage={"prompt_tokens": MAX_TOKENS + 1, "completion_tokens": 0}) is None
    text = {"type": "text", "text": "{}"}
    assert message(text, text) is None
    assert message({"type": "text", "text": ""}) is None
    assert message({"type": "thinking", "text": "{}"}) is None
    assert message({"type": "tool_use", "input": [1]}) is None
    assert message({"type": "other", "input": {"a": 1}}) is None
    assert message(stop="refusal") is None
    assert message(usage={"input_tokens": -1, "output_tokens": 0}) is None


def test_log_probabilities_are_there_where_their_tokens_spell_the_answer():
    def tokens(*pieces):
        return {"content": [{"token": each, "logprob": -0.5, "top_logprobs": []} for each in pieces]}

    assert [each.token for each in chat(logprobs=tokens('{"a"', ": 1}")).logprobs] == ['{"a"', ": 1}"]
    assert chat(logprobs={"content": []}).logprobs is None
    assert chat(logprobs={"content": None}).logprobs is None
    assert read(chat(logprobs={"content": [{"token": 3}]})) == response_fields()


def test_fields_that_are_not_reported_are_none():
    choice = {"message": {"content": "{}"}, "finish_reason": "stop"}
    untold = response_fields(text="{}", model="", input_tokens=0, output_tokens=0, cached_tokens=0)
    assert read(chat_response(json.dumps({"choices": [choice]}).encode())) == untold
    body = {"content": [{"type": "text", "text": "{}"}], "stop_reason": "end_turn"}
    assert read(message_response(json.dumps(body).encode())) == untold


def test_tokens_that_are_pieces_of_a_character_have_their_bytes():
    pieces = [b'{"a":"', b"\xf0\x9f", b"\x98\x80", b'"}']
    content = [{"token": "?", "logprob": -0.5, "bytes": list(each), "top_logprobs": []} for each in pieces]
    found = chat(content='{"a":"\U0001f600"}', logprobs={"content": content}).logprobs
    assert [bytes(each.bytes) for each in found[1:3]] == pieces[1:3]
    whole = [{"token": '{"a": 1}', "logprob": -0.5, "bytes": [1], "top_logprobs": []}]
    assert chat(logprobs={"content": whole}).logprobs[0].bytes is None
