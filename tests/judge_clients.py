"""The real clients, as tests of the loopback provider speak through them.

They take two seconds to import, so that each is imported where it is used, and not by all who collect tests.
"""

import asyncio
from typing import Any

from pydantic import BaseModel, Field

from tests.judge_server import JudgeServer

CLAUDE = "claude-sonnet-5"


class Clarity(BaseModel):
    reason: str
    evidence_quotes: list[str]
    score: int = Field(ge=3, le=4)
    confidence: float = Field(gt=0.5, lt=0.6)


GOOD = {"reason": "plain words", "evidence_quotes": ["the sea"], "score": 4, "confidence": 0.55}


def chat(server: JudgeServer, **options: Any) -> Any:
    from openai import OpenAI

    with OpenAI(base_url=server.openai_url, api_key="sk-openai", max_retries=0) as client:
        messages = [{"role": "user", "content": "Is this clear?"}]
        return client.chat.completions.create(model="gpt-4o", messages=messages, **options)


def claude(server: JudgeServer, **options: Any) -> Any:
    from anthropic import Anthropic

    with Anthropic(base_url=server.anthropic_url, api_key="sk-anthropic", max_retries=0) as client:
        messages = [{"role": "user", "content": "Is this clear?"}]
        return client.messages.create(model=CLAUDE, max_tokens=500, messages=messages, **options)


def through(server: JudgeServer, kind: str, output: str) -> Any:
    """A structured answer by way of PydanticAI; ``output`` is how it is asked for: "tool" or "native"."""
    from pydantic_ai import Agent, NativeOutput, ToolOutput

    wanted = (ToolOutput if output == "tool" else NativeOutput)(Clarity)

    async def run() -> Any:
        async with Connected(server, kind) as model:
            return await Agent(model, output_type=wanted).run("How clear is this text about the sea?")

    return asyncio.run(run())


class Connected:
    """A model whose connections end with the test."""

    def __init__(self, server: JudgeServer, kind: str) -> None:
        self.server, self.kind = server, kind

    async def __aenter__(self) -> Any:
        from pydantic_ai.models.anthropic import AnthropicModel
        from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
        from pydantic_ai.providers.anthropic import AnthropicProvider
        from pydantic_ai.providers.openai import OpenAIProvider

        if self.kind == "messages":
            self.client: Any = AnthropicProvider(base_url=self.server.anthropic_url, api_key="sk-anthropic")
            return AnthropicModel(CLAUDE, provider=self.client)
        self.client = OpenAIProvider(base_url=self.server.openai_url, api_key="sk-openai")
        return (OpenAIChatModel if self.kind == "chat" else OpenAIResponsesModel)(
            "gpt-4o", provider=self.client
        )

    async def __aexit__(self, *_: object) -> None:
        await self.client.client.close()
