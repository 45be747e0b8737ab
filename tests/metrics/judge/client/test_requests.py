"""Requests are those that PydanticAI and the providers' SDKs send, and answers are read as they read them."""

import asyncio
import json
import warnings

import httpx2
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_ai._special_tokens import break_special_tokens, restore_special_tokens
from pydantic_ai.models import infer_model
from pydantic_ai.providers import infer_provider_class

from tests.metrics.judge.client.test_direct_client import SCHEMA, call
from trivium.metrics.judge.client.providers import PROVIDERS, describe_direct, request_headers
from trivium.metrics.judge.client.pydantic_ai_models import PydanticAIClient, describe
from trivium.metrics.judge.client.request import RequestError, schema_prompt
from trivium.metrics.judge.client.wire_formats import FORMATS, broken_up, restored

NAMES = {
    "openai": """
        gpt-4o gpt-4.1-mini gpt-3.5-turbo chatgpt-4o-latest ft:gpt-4o:me o1 o3-mini o4-mini gpt-5
        gpt-5-mini gpt-5-pro gpt-5-chat-latest gpt-5-codex gpt-5.1 gpt-5.1-chat-latest gpt-5.1-codex
        gpt-5.2 gpt-5.2-pro gpt-5.3 gpt-5.3-chat-latest gpt-5.3-codex gpt-5.4 gpt-5.4-pro gpt-5.5
        gpt-5.5-pro gpt-5.6 gpt-6-astra gpt-6-sol gpt-6-luna gpt-6.1-sol gpt-6.1-terra gpt-oss-20b
        my-own qwen/qwen3 openai/gpt-5""",
    "openai-responses": """
        gpt-4o o3-mini gpt-5 gpt-5-chat-latest gpt-5.1 gpt-5.4 gpt-5.5 gpt-5.5-pro gpt-6-sol my-own""",
    "anthropic": """
        claude-3-5-haiku-latest claude-3-7-sonnet-latest claude-sonnet-4-0 claude-opus-4-1
        claude-sonnet-4-5 claude-haiku-4-5 claude-opus-4-5 claude-sonnet-4-6 claude-opus-4-6
        claude-opus-4-7 claude-opus-4-8 claude-opus-5 claude-opus-5-5 claude-sonnet-5
        claude-sonnet-5-5 claude-haiku-5-5 claude-fable-5 claude-fable-5-1 claude-mythos-5 my-own""",
    "deepseek": "deepseek-chat deepseek-reasoner deepseek-v4-pro deepseek-flash",
    "fireworks": "llama-v3p3 qwen-3-coder deepseek-r1 deepseek-v4-pro gpt-oss-20b",
    "ollama": "llama3.2 qwen3 qwen-3-coder deepseek-r1 mistral gpt-oss:20b glm-5.3 phi4 qwen3-cloud",
    "together": """
        openai/gpt-oss-20b meta-llama/Llama-3 Qwen/Qwen3 Qwen/qwen-3-coder Qwen/Qwen3.5-9B
        deepseek-ai/DeepSeek-V3 deepseek-ai/deepseek-v4-pro deepseek-ai/DeepSeek-R1 mistralai/Mixtral
        moonshotai/Kimi-K2.5 google/gemma-3 zai-org/glm-5.3 other""",
    "vllm": """
        meta-llama/Llama-3 Qwen/Qwen3-8B Qwen/Qwen3-Coder-30B Qwen/Qwen3-8B-Thinking qwen-3-coder
        google/gemma-4 deepseek-ai/deepseek-v4-pro deepseek-r1 mistral gpt-oss-20b phi""",
    "litellm": """
        gpt-4o gpt-5 openai/gpt-4o openai/o3 openai/gpt-5.5 anthropic/claude-sonnet-5
        anthropic/claude-3-5-haiku anthropic/claude-sonnet-4-5 deepseek/deepseek-v4-pro
        deepseek/deepseek-r1 meta-llama/llama-3 qwen/qwen3.5 qwen/qwen-3-coder x-ai/grok-2
        mistralai/mixtral moonshotai/kimi-k2.5 openai/gpt-oss-20b google/gemini-2.5-pro
        google/gemini-2.5-flash cohere/command amazon/nova zai/glm-5.3 my-own""",
}
MODELS = [f"{provider}:{name}" for provider, names in NAMES.items() for name in names.split()]
MODELS = [each.replace("fireworks:", "fireworks:accounts/fireworks/models/") for each in MODELS]
SETTINGS = [
    {"case": "A case. ", "turns": ("First.", "", "Again.")},
    {"output": "tool", "turns": ("First.", "{bad", "Again.")},
    {"output": "prompted", "seed": None, "temperature": None, "top_logprobs": 0},
    {"case": "A case. ", "marks": "case", "output": "tool"},
    {"marks": "static"},
    {"limit": "max_tokens", "body": {"mine": [1], "user": "me"}},
    {"limit": "none"},
    *({"reasoning_effort": effort} for effort in ("none", "low", "xhigh")),
    *({"reasoning_effort": effort, "output": "tool"} for effort in ("none", "minimal", "high", "max")),
]


@pytest.fixture(autouse=True)
def _environment(monkeypatch):
    for provider in ("OPENAI", "ANTHROPIC", "DEEPSEEK", "FIREWORKS", "TOGETHER"):
        monkeypatch.setenv(f"{provider}_API_KEY", "sk-not-a-real-key-1234567890")
        monkeypatch.delenv(f"{provider}_BASE_URL", raising=False)
    monkeypatch.setenv("OLLAMA_BASE_URL", "http://127.0.0.1:11434/v1")
    monkeypatch.setenv("VLLM_BASE_URL", "http://127.0.0.1:8000/v1")


@pytest.fixture(scope="module", autouse=True)
def runner():
    """One event loop for all tests here: each would start threads of its own."""
    with asyncio.Runner() as Peer.runner:
        yield


class Peer:
    """PydanticAI with a transport that records requests, and answers each with the same body."""

    def __init__(self, name, body=None):
        provider, _, model = name.partition(":")
        self.name, self.sent = name, []
        answer = httpx2.Response(404, json={}) if body is None else httpx2.Response(200, content=body)
        transport = httpx2.MockTransport(lambda request: self.sent.append(request) or answer)
        kind = infer_provider_class("openai" if provider.startswith("openai") else provider)
        provider = "openai-chat" if provider == "openai" else provider
        client = httpx2.AsyncClient(transport=transport)
        self.model = infer_model(f"{provider}:{model}", lambda _: kind(http_client=client))

    def body(self, request):
        """The request as it is sent."""
        self.sent.clear()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it says what it leaves out
            with pytest.raises(RequestError):
                self.answer(request)
        return json.loads(self.sent[0].content)

    def answer(self, request):
        return self.runner.run(PydanticAIClient(self.model, self.name).send(request))


def as_built_here(provider, theirs, request):
    """A request of PydanticAI with the differences that are meant."""
    built = dict(theirs)
    # What serves later turns of an agent: encrypted thoughts, all thoughts, and what <system> blocks mean.
    if include := built.pop("include", None):
        kept = [each for each in include if each != "reasoning.encrypted_content" and "top_logprobs" in built]
        built |= {"include": kept} if kept else {}
    if reasoning := {key: value for key, value in built.pop("reasoning", {}).items() if key != "context"}:
        built["reasoning"] = reasoning
    if isinstance(built.get("system"), list):
        built["system"] = built["system"][-1:]
    # Anthropic's SDK drops the type of values that are listed, which says nothing more.
    if "format" in built.get("output_config", {}):
        built["output_config"] = built["output_config"] | {
            "format": {"type": "json_schema", "schema": request.schema}
        }
    if provider == "anthropic":
        # A request that has no limit gets the suite's. Answers are not streamed, however long they may be.
        built |= {"stream": False, "max_tokens": request.max_tokens if request.limit else built["max_tokens"]}
    if provider == "ollama" and request.reasoning_effort is not None:
        built["reasoning_effort"] = request.reasoning_effort  # PydanticAI knows no such model that reasons
    if provider == "vllm" and request.output == "native":  # the schema's introduction in the prompt
        system = {"role": "system", "content": request.instructions + schema_prompt(request.schema)}
        built["messages"] = [system, *built["messages"][1:]]
    return built


@pytest.mark.parametrize("name", MODELS)
def test_a_request_and_what_is_known_of_its_model_are_those_of_pydantic_ai(name):
    provider, _, model = name.partition(":")
    peer, description = Peer(name), describe_direct(name)
    theirs = describe(peer.model, name)
    for field in ("name", "base_url", "native_schema", "completion_limit", "marks_cache"):
        assert getattr(description, field) == getattr(theirs, field), field
    assert description.thinks(None) == theirs.thinks(None)
    assert description.screened == bool(peer.model.profile.get("may_tokenize_special_tokens_in_content"))
    build = FORMATS[PROVIDERS[provider].format].build
    for fields in SETTINGS:
        if fields.get("marks") and provider != "anthropic":
            continue
        output = "native" if description.native_schema else "tool"
        request = call(name, model=model, **{"output": output} | fields)
        ours = json.loads(msgspec.json.encode(build(request, description)))
        assert ours == as_built_here(provider, peer.body(request), request), fields


@pytest.mark.parametrize("name", ["openai:gpt-4o", "openai-responses:gpt-4o", "anthropic:claude-sonnet-5"])
def test_address_and_headers_are_those_of_the_sdk(monkeypatch, name):
    monkeypatch.setenv("OPENAI_ORG_ID", "org-1")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "proj-1")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-One: 1\nx-two : two: 2")
    monkeypatch.setenv("ANTHROPIC_CUSTOM_HEADERS", "X-One: 1")
    peer = Peer(name)
    peer.body(call(name, output="tool"))
    (sent,) = peer.sent
    description = describe_direct(name)
    provider = PROVIDERS[name.partition(":")[0]]
    path = FORMATS[provider.format].path
    assert description.base_url.rstrip("/") + path == str(sent.url)
    theirs = {key: value for key, value in sent.headers.items() if not key.startswith("x-stainless-")}
    for of_the_connection in ("host", "connection", "content-length", "accept-encoding"):
        theirs.pop(of_the_connection)
    ours = request_headers(name, description.base_url, {})
    assert ours | {"user-agent": ""} == theirs | {"user-agent": ""}


@pytest.mark.parametrize(
    "url",
    [
        "http://H.example:80/v1",
        "https://h:443",
        "http://h/",
        "http://h/v1//",
        "http://u:p@h:8/v 1",
        "http://h\u00e9.de/v1?x=1",
        "http://[::1]:8/v1",
    ],
)
def test_an_address_is_written_as_the_sdk_writes_it(monkeypatch, url):
    monkeypatch.setenv("OPENAI_BASE_URL", url)
    assert describe_direct("openai:gpt-4o").base_url == str(Peer("openai:gpt-4o").model.base_url)


TOKENS = [
    "<|im_start|>",
    "<\uff5cUser\uff5c>",
    "<|turn>",
    "<turn|>",
    "[INST]",
    "[/INST]",
    "[|system|]",
    "]~b]",
    "[e~[",
]


@given(
    st.lists(st.one_of(st.sampled_from(TOKENS), st.text(alphabet='<|[]~>ab"\u200d ', max_size=9))).map(
        "".join
    )
)
def test_special_tokens_are_broken_up_and_restored_as_by_pydantic_ai(text):
    assert broken_up(text) == break_special_tokens(text)
    assert restored(text) == restore_special_tokens(text)
    escaped = json.dumps(broken_up(text), ensure_ascii=False).replace("\u200d", "\\u200d")
    assert json.loads(restored(escaped)) == restore_special_tokens(json.loads(escaped))


def test_a_schema_goes_to_a_provider_as_it_is():
    for name in ("openai:gpt-4o", "openai-responses:gpt-4o", "anthropic:claude-sonnet-5"):
        build = FORMATS[PROVIDERS[name.partition(":")[0]].format].build
        assert json.dumps(SCHEMA) in json.dumps(build(call(name), describe_direct(name)))
