"""Calls and replies to spend on."""

from trivium.metrics.judge.client.request import ModelRequest, ModelResponse


def call(
    *,
    model: str = "gpt-4o-mini",
    provider: str = "openai-chat",
    text: str = "Judge this.",
    max_tokens: int = 100,
) -> ModelRequest:
    return ModelRequest(
        provider=provider,
        address="http://127.0.0.1/v1",
        model=model,
        instructions="You judge.",
        turns=(text,),
        schema={"type": "object", "properties": {"score": {"type": "integer"}}},
        output="native",
        temperature=0.0,
        seed=None,
        max_tokens=max_tokens,
        top_logprobs=0,
        sample=0,
    )


def reply(read: int, written: int, *, cached: int = 0) -> ModelResponse:
    return ModelResponse(
        text="{}",
        finish="stop",
        model="m",
        logprobs=None,
        input_tokens=read,
        output_tokens=written,
        cost_usd=None,
        cached_tokens=cached,
    )
