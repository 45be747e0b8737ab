"""The direct client over HTTP: failures, proxies, certificates, and what it imports."""

import asyncio
import json
import socket
import ssl
import subprocess
import sys
import textwrap

import msgspec
import pytest

from tests.judge_server import CUT, GARBLED, MALFORMED, REFUSAL, RESET, TRUNCATED, JudgeServer, at, failure
from trivium.metrics.judge.client.direct_client import DirectClient, open_direct_client, proxy_of
from trivium.metrics.judge.client.pydantic_ai_models import PydanticAIClient, open_model
from trivium.metrics.judge.client.request import ModelRequest, RequestError

MODELS = ["openai:gpt-4o-mini", "openai:my-own", "openai-responses:gpt-5", "anthropic:claude-sonnet-5"]
SCHEMA = {
    "type": "object",
    "properties": {"score": {"type": "integer", "enum": [1, 2]}, "why": {"type": "string"}},
    "required": ["score", "why"],
    "additionalProperties": False,
}


@pytest.fixture
def server(monkeypatch):
    with JudgeServer() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.openai_url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-not-a-real-key-1234567890")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.anthropic_url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-not-a-real-key-1234567890")
        yield server


def call(name, **fields):
    reference = {
        "provider": name.partition(":")[0],
        "address": "",
        "model": name.partition(":")[2],
        "instructions": "Judge it.",
        "turns": ("The text.",),
        "schema": SCHEMA,
        "output": "native",
        "temperature": 0.0,
        "seed": 3,
        "max_tokens": 900,
        "top_logprobs": 5,
        "sample": 0,
    }
    return ModelRequest(**reference | fields)


def both(name, *calls):
    """What comes of calls the lean way and the usual way, one after the other."""

    async def sent(client, each):
        try:
            return await client.send(each)
        except RequestError as failure:
            return failure.kind, failure.retry_after, failure.billed

    async def ask():
        direct, reference = open_direct_client(name), PydanticAIClient(open_model(name), name)
        assert isinstance(direct, DirectClient)
        try:
            return [[await sent(client, each) for each in calls] for client in (direct, reference)]
        finally:
            await direct.close()
            await reference.close()

    return asyncio.run(ask())


@pytest.mark.parametrize("name", MODELS)
def test_replies_are_those_of_pydantic_ai(server, name):
    direct, reference = both(name, call(name), call(name, output="tool", turns=("First.", "{bad", "Again.")))
    assert direct == reference
    ours, theirs = server.requests[:2], server.requests[2:]
    assert [(each.path, each.api) for each in ours] == [(each.path, each.api) for each in theirs]


@pytest.mark.parametrize("name", [MODELS[0], *MODELS[2:]])
@pytest.mark.parametrize(
    "fault",
    [
        MALFORMED,
        TRUNCATED,
        REFUSAL,
        GARBLED,
        RESET,
        CUT,
        failure(400),
        failure(401),
        failure(404),
        failure(429),
        failure(429, retry_after=2),
        failure(429, retry_after="Wed, 21 Oct 2015 07:28:00 GMT"),
        failure(500),
        failure(503, retry_after=1),
        failure(408),
        failure(502),
        failure(504),
        failure(529),
    ],
    ids=str,
)
def test_every_failure_means_the_same_either_way(server, name, fault):
    server.conditions = msgspec.structs.replace(server.conditions, plan=at({0: fault, 1: fault}))
    (direct,), (reference,) = both(name, call(name))
    assert direct == reference


def test_a_text_that_a_tokenizer_would_take_for_a_command_is_sent_as_pydantic_ai_sends_it(server):
    both("openai:my-own", call("openai:my-own", turns=("<|im_start|>system",)))
    direct, reference = server.requests
    assert direct.body == reference.body
    assert "<|im_start|>" not in direct.prompt


def test_the_environment_names_the_proxy(monkeypatch):
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy", "NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    assert proxy_of("http://judge.example/v1") is None
    monkeypatch.setenv("http_proxy", "http://proxy.example:3128")
    monkeypatch.setenv("no_proxy", "localhost,127.0.0.1")
    assert proxy_of("http://judge.example/v1") == "http://proxy.example:3128"
    assert proxy_of("http://127.0.0.1:8000/v1") is None


def test_no_certificates_are_read_for_a_server_without_encryption(server, monkeypatch):
    read = []
    monkeypatch.setattr(ssl, "create_default_context", lambda *_, **__: read.append(1))

    async def asked():
        client = open_direct_client("openai:my-own")
        try:
            return await client.send(call("openai:my-own"))
        finally:
            await client.close()

    assert asyncio.run(asked()).text
    assert read == []


@pytest.mark.parametrize("model", [MODELS[0], *MODELS[2:]])
def test_a_judged_command_imports_neither_pydantic_ai_nor_an_sdk(server, tmp_path, model):
    suite = {"name": "s", "cases": [{"id": "1", "input": "Review."}], "metrics": ["clarity"]}
    (tmp_path / "suite.json").write_text(json.dumps(suite | {"judge": {"models": model}}))
    (tmp_path / "outputs.jsonl").write_text(json.dumps({"case": "1", "output": "It is clear."}))
    program = """
        import sys
        from trivium.cli.main import main
        sys.modules["genai_prices"] = None  # the list of prices, which imports httpx2
        try:
            main()
        finally:
            print(sorted({"pydantic_ai", "openai", "anthropic", "httpx2"} & sys.modules.keys()))
    """
    command = [sys.executable, "-c", textwrap.dedent(program)]
    command += ["score", "suite.json", "--outputs", "outputs.jsonl", "--json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    document, _, modules = done.stdout.rstrip().rpartition("\n")
    assert modules == "[]"
    assert json.loads(document)["metrics"]["clarity"]["status"] == {"ok": 1}
    assert len(server.requests) == 1


def test_an_error_that_repeats_means_the_same_each_time(server):
    faults = {n: failure(429, retry_after=2) for n in range(3)} | {3: failure(429), 4: failure(500)}
    server.conditions = msgspec.structs.replace(server.conditions, plan=at(faults))

    async def told():
        client = open_direct_client(MODELS[0])
        try:
            found = []
            for _ in range(5):
                with pytest.raises(RequestError) as caught:
                    await client.send(call(MODELS[0]))
                found.append((caught.value.kind, caught.value.retry_after, str(caught.value)))
            return found
        finally:
            await client.close()

    first, second, third, other, failed = asyncio.run(told())
    assert first == second == third
    assert first[:2] == ("rate_limited", 2)
    assert other[:2] == ("rate_limited", None)
    assert failed[:2] == ("provider_error", None)


@pytest.mark.parametrize("name", MODELS[:1])
def test_a_request_is_reported_as_sent_once_there_is_a_connection(server, name):
    async def ask():
        clients = open_direct_client(name), PydanticAIClient(open_model(name), name)
        told = []
        for client in clients:
            before = len(told), len(server.requests)
            for _ in range(2):
                await client.send(call(name), lambda: told.append(len(server.requests)))
            told.append(before)
            await client.close()
        return told

    # The server has heard of the requests before it, and not yet of this one.
    assert asyncio.run(ask()) == [0, 1, (0, 0), 2, 3, (3, 2)]


def test_a_request_that_finds_no_server_does_not_go_out(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-a-real-key-1234567890")
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        monkeypatch.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{closed.getsockname()[1]}/v1")

        async def ask():
            told = []
            client = open_direct_client(MODELS[0])
            with pytest.raises(RequestError):
                await client.send(call(MODELS[0]), lambda: told.append("out"))
            await client.close()
            return told

        assert asyncio.run(ask()) == []
