"""The loopback provider is spoken to by the real clients, and keeps to the formats that they read."""

import json
import math
import subprocess
import sys
from pathlib import Path

import httpx
import msgspec
import pytest

from tests.judge_clients import CLAUDE, GOOD, Clarity, chat, claude, through
from tests.judge_server import (
    CUT,
    DRIP,
    GARBLED,
    HANG,
    MALFORMED,
    REFUSAL,
    RESET,
    STALL,
    TRUNCATED,
    Answer,
    JudgeServer,
    at,
    failure,
)

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("api", ["chat", "responses", "messages"])
@pytest.mark.parametrize("output", ["tool", "native"])
def test_each_format_gives_pydantic_ai_what_the_test_sets(api, output):
    with JudgeServer(answer=lambda question: GOOD) as server:
        result = through(server, api, output)
    assert result.output == Clarity(**GOOD)
    assert [question.api for question in server.requests] == [api]
    assert server.requests[0].tool == ("final_result" if output == "tool" else None)
    assert result.usage.input_tokens > 0
    assert result.usage.output_tokens > 0


@pytest.mark.parametrize("api", ["chat", "responses", "messages"])
def test_the_default_answer_is_valid_and_the_same_for_the_same_prompt(api):
    with JudgeServer() as server:
        first, second = [through(server, api, "native").output for _ in range(2)]
    assert first == second
    assert 3 <= first.score <= 4
    assert first.evidence_quotes[0] in "How clear is this text about the sea?"


def test_keys_are_seen_where_they_were_sent():
    with JudgeServer() as server:
        chat(server)
        claude(server)
    ours, theirs = [" ".join(question.headers.values()) for question in server.requests]
    assert ("sk-openai" in ours, "sk-anthropic" in ours) == (True, False)
    assert ("sk-openai" in theirs, "sk-anthropic" in theirs) == (False, True)
    assert server.requests[0].prompt == "Is this clear?"


def test_log_probabilities_come_as_they_were_given_and_only_for_text():
    odds = {"score": {"4": 0.7, "3": 0.2, "2": 0.1}}
    native = {
        "type": "json_schema",
        "json_schema": {"name": "clarity", "schema": Clarity.model_json_schema()},
    }
    tool = {"type": "function", "function": {"name": "clarity", "parameters": Clarity.model_json_schema()}}
    with JudgeServer(answer=lambda question: Answer(output=GOOD, odds=odds)) as server:
        first_choice = chat(server, response_format=native, logprobs=True, top_logprobs=2).choices[0]
        unasked = chat(server, response_format=native).choices[0]
        called = chat(server, tools=[tool], tool_choice="required", logprobs=True).choices[0]
    tokens = first_choice.logprobs.content
    assert "".join(token.token for token in tokens) == first_choice.message.content
    [score] = [token for token in tokens if token.token == "4" and len(token.top_logprobs) == 2]
    assert {each.token: math.exp(each.logprob) for each in score.top_logprobs} == pytest.approx(
        {"4": 0.7, "3": 0.2}
    )
    assert math.exp(score.logprob) == pytest.approx(0.7)
    assert unasked.logprobs is None
    assert called.logprobs is None
    assert called.message.tool_calls[0].function.name == "clarity"


def test_the_responses_format_gives_log_probabilities_when_they_are_included():
    from openai import OpenAI

    with JudgeServer() as server, OpenAI(base_url=server.openai_url, api_key="k", max_retries=0) as client:
        included = ["message.output_text.logprobs"]
        response = client.responses.create(model="gpt-4o", input="Clear?", include=included, top_logprobs=1)
        content = response.output[0].content[0]
    assert "".join(token.token for token in content.logprobs) == response.output_text
    assert all(len(token.top_logprobs) == 1 for token in content.logprobs)


@pytest.mark.parametrize(
    ("reaction", "raised"),
    [
        (failure(429, retry_after=3), "RateLimitError"),
        (failure(500), "InternalServerError"),
        (failure(401), "AuthenticationError"),
        (RESET, "APIConnectionError"),
        (CUT, "APIConnectionError"),
        (HANG, "APITimeoutError"),
        (STALL, "APITimeoutError"),
    ],
)
def test_a_fault_is_what_the_openai_client_takes_it_for(reaction, raised):
    import openai

    with JudgeServer(plan=at({0: reaction})) as server:
        with pytest.raises(getattr(openai, raised)) as caught:
            chat(server, timeout=0.2 if reaction in (HANG, STALL) else 60)
        assert chat(server).choices[0].message.content
    if reaction.retry_after is not None:
        assert caught.value.response.headers["retry-after"] == "3"


@pytest.mark.parametrize(
    ("reaction", "raised"),
    [
        (failure(429), "RateLimitError"),
        (failure(529), "InternalServerError"),
        (RESET, "APIConnectionError"),
        (HANG, "APITimeoutError"),
    ],
)
def test_a_fault_is_what_the_anthropic_client_takes_it_for(reaction, raised):
    import anthropic

    with JudgeServer(plan=at({0: reaction})) as server:
        with pytest.raises(getattr(anthropic, raised)) as caught:
            claude(server, timeout=0.2 if reaction is HANG else 60)
        assert claude(server).content[0].text
    if reaction.kind == "failure":
        assert "retry-after" not in caught.value.response.headers


@pytest.mark.parametrize("reaction", [MALFORMED, TRUNCATED])
def test_a_broken_output_is_no_json_in_every_format(reaction):
    from openai import OpenAI

    form = {"type": "json_schema", "schema": Clarity.model_json_schema()}
    with JudgeServer(plan=lambda question: reaction) as server:
        first = chat(
            server, response_format={"type": "json_schema", "json_schema": {"name": "c", **form}}
        ).choices[0]
        second = claude(server, output_config={"format": form})
        with OpenAI(base_url=server.openai_url, api_key="k") as client:
            third = client.responses.create(model="gpt-4o", input="?", text={"format": {"name": "c", **form}})
    for text in (first.message.content, second.content[0].text, third.output_text):
        with pytest.raises(json.JSONDecodeError):
            json.loads(text)
    ended = (first.finish_reason, second.stop_reason, third.status)
    whole = ("stop", "end_turn", "completed")
    assert ended == (("length", "max_tokens", "incomplete") if reaction is TRUNCATED else whole)


def test_an_answer_that_drips_comes_whole_though_no_read_waits_long():
    with JudgeServer(
        plan=at({0: msgspec.structs.replace(DRIP, pace=0.0)}), answer=lambda question: "y"
    ) as server:
        url = f"{server.openai_url}/chat/completions"
        response = httpx.post(url, json={}, timeout=60).json()
    assert response["choices"][0]["message"]["content"] == "y"


def test_a_refusal_is_sent_in_each_format():
    from openai import OpenAI

    with JudgeServer(plan=lambda question: REFUSAL) as server:
        assert chat(server).choices[0].message.refusal
        assert claude(server).stop_reason == "refusal"
        with OpenAI(base_url=server.openai_url, api_key="k") as client:
            response = client.responses.create(model="gpt-4o", input="Clear?")
    assert response.output[0].content[0].type == "refusal"


def test_a_body_that_is_no_json_reaches_the_client():
    with JudgeServer(plan=at({0: GARBLED})) as server, pytest.raises(json.JSONDecodeError):
        httpx.post(f"{server.openai_url}/chat/completions", json={}).raise_for_status().json()


def test_an_anthropic_stream_says_the_same_as_the_whole_message():
    from anthropic import Anthropic

    tool = {"name": "clarity", "input_schema": Clarity.model_json_schema()}
    asked = {"tools": [tool], "tool_choice": {"type": "tool", "name": "clarity"}}
    with JudgeServer(answer=lambda question: GOOD) as server:
        whole = claude(server, **asked)
        with Anthropic(base_url=server.anthropic_url, api_key="k", max_retries=0) as client:
            messages = [{"role": "user", "content": "Is this clear?"}]
            with client.messages.stream(model=CLAUDE, max_tokens=500, messages=messages, **asked) as stream:
                streamed = stream.get_final_message()
    assert streamed.content[0].input == whole.content[0].input == GOOD
    assert (streamed.stop_reason, streamed.usage.output_tokens) == ("tool_use", whole.usage.output_tokens)


def test_samples_of_one_request_may_differ():
    form = {"type": "json_schema", "json_schema": {"name": "c", "schema": {"type": "number"}}}
    with JudgeServer() as server:
        response = chat(server, response_format=form, n=5)
    assert len(response.choices) == 5
    assert len({choice.message.content for choice in response.choices}) > 1


def test_answers_vary_between_calls_on_request():
    form = {"type": "json_schema", "json_schema": {"name": "c", "schema": {"type": "number"}}}
    with JudgeServer(vary=True) as server:
        response = {chat(server, response_format=form).choices[0].message.content for _ in range(5)}
    assert len(response) > 1


def test_usage_is_what_the_test_sets():
    with JudgeServer(answer=lambda question: Answer(output="yes", usage=(1000, 20))) as server:
        ours, theirs = chat(server).usage, claude(server).usage
    assert (ours.prompt_tokens, ours.completion_tokens) == (1000, 20)
    assert (theirs.input_tokens, theirs.output_tokens) == (1000, 20)


def test_what_goes_wrong_in_the_answer_of_a_test_fails_the_test():
    def broken(question):
        raise LookupError("the test's own mistake")

    with pytest.raises(LookupError, match="own mistake"), JudgeServer(answer=broken) as server:
        assert httpx.post(f"{server.openai_url}/chat/completions", json={}).status_code == 500


def test_a_path_that_neither_provider_has_is_not_found():
    with JudgeServer() as server:
        assert httpx.post(f"{server.openai_url}/completions", json={}).status_code == 404


def test_a_stream_of_a_chat_is_refused_loudly():
    with pytest.raises(ValueError, match="streams of"), JudgeServer() as server:
        httpx.post(f"{server.openai_url}/chat/completions", json={"stream": True})


def test_it_runs_as_a_process_of_its_own():
    command = [sys.executable, "-m", "tests.judge_server", "--server-error", "1"]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        urls = json.loads(process.stdout.readline())
        assert httpx.post(f"{urls['openai_url']}/chat/completions", json={}).status_code == 500
        stats = httpx.get(f"{urls['anthropic_url']}/stats").json()
        process.stdin.close()
        assert process.wait() == 0
    assert (stats["requests"], stats["failure"]) == (1, 1)
