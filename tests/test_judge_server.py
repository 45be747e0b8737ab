"""The loopback provider is spoken to by the real clients, and keeps to the formats that they read."""

import asyncio
from typing import Any

import pytest
from anthropic import Anthropic
from openai import OpenAI
from pydantic import BaseModel, Field
from pydantic_ai import Agent, NativeOutput
from pydantic_ai.models import Model
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider

from tests.judge_server import JudgeServer

CLAUDE = "claude-sonnet-5"


class Clarity(BaseModel):
    reason: str
    evidence_quotes: list[str]
    score: int = Field(ge=3, le=4)
    confidence: float = Field(gt=0.5, lt=0.6)


GOOD = {"reason": "plain words", "evidence_quotes": ["the sea"], "score": 4, "confidence": 0.55}


def chat(server: JudgeServer, **options: Any) -> Any:
    with OpenAI(base_url=server.openai_url, api_key="sk-openai", max_retries=0) as client:
        messages = [{"role": "user", "content": "Is this clear?"}]
        return client.chat.completions.create(model="gpt-4o", messages=messages, **options)


def claude(server: JudgeServer, **options: Any) -> Any:
    with Anthropic(base_url=server.anthropic_url, api_key="sk-anthropic", max_retries=0) as client:
        messages = [{"role": "user", "content": "Is this clear?"}]
        return client.messages.create(model=CLAUDE, max_tokens=500, messages=messages, **options)


def through(server: JudgeServer, kind: str, output: Any) -> Any:
    """A structured answer by way of PydanticAI."""

    async def run() -> Any:
        async with Connected(server, kind) as model:
            return await Agent(model, output_type=output).run("How clear is this text about the sea?")

    return asyncio.run(run())


class Connected:
    """A model whose connections end with the test."""

    def __init__(self, server: JudgeServer, kind: str) -> None:
        self.server, self.kind = server, kind

    async def __aenter__(self) -> Model:
        if self.kind == "messages":
            self.client: Any = AnthropicProvider(base_url=self.server.anthropic_url, api_key="sk-anthropic")
            return AnthropicModel(CLAUDE, provider=self.client)
        self.client = OpenAIProvider(base_url=self.server.openai_url, api_key="sk-openai")
        return (OpenAIChatModel if self.kind == "chat" else OpenAIResponsesModel)(
            "gpt-4o", provider=self.client
        )

    async def __aexit__(self, *_: object) -> None:
        await self.client.client.close()


@pytest.mark.parametrize("api", ["chat", "responses", "messages"])
@pytest.mark.parametrize("output", [Clarity, NativeOutput(Clarity)], ids=["tool", "native"])
def test_each_format_gives_pydantic_ai_what_the_test_said(api, output):
    with JudgeServer(answer=lambda question: GOOD) as server:
        result = through(server, api, output)
    assert result.output == Clarity(**GOOD)
    assert [question.api for question in server.requests] == [api]
    assert result.usage.input_tokens > 0
    assert result.usage.output_tokens > 0


@pytest.mark.parametrize("api", ["chat", "responses", "messages"])
def test_the_default_answer_is_valid_and_the_same_for_the_same_prompt(api):
    with JudgeServer() as server:
        first, second = [through(server, api, NativeOutput(Clarity)).output for _ in range(2)]
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
