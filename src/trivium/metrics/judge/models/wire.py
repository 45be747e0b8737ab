"""Wire: the usual answers of the two wire formats, read fast; None for any that is not usual."""

from typing import Annotated, Any

import msgspec

from trivium.metrics.judge.models.call import MOST_TOKENS, Reply

_Count = Annotated[int, msgspec.Meta(ge=0, le=MOST_TOKENS)]


class _Top(msgspec.Struct):
    logprob: float


class _Token(msgspec.Struct):
    token: str
    logprob: float
    top_logprobs: list[_Top] = []


class _Logprobs(msgspec.Struct):
    content: list[_Token] | None = None


class _Function(msgspec.Struct):
    arguments: str


class _ToolCall(msgspec.Struct):
    function: _Function
    type: str = "function"


class _Message(msgspec.Struct):
    content: str | None = None
    refusal: str | None = None
    tool_calls: list[_ToolCall] | None = None


class _Choice(msgspec.Struct):
    message: _Message
    finish_reason: str
    logprobs: _Logprobs | None = None


class _PromptDetails(msgspec.Struct):
    cached_tokens: _Count | None = None


class _ChatUsage(msgspec.Struct):
    prompt_tokens: _Count
    completion_tokens: _Count
    prompt_tokens_details: _PromptDetails | None = None


class _Chat(msgspec.Struct):
    choices: list[_Choice]
    model: str
    usage: _ChatUsage


class _Block(msgspec.Struct):
    type: str
    text: str = ""
    input: Any = None


class _MessageUsage(msgspec.Struct):
    input_tokens: _Count
    output_tokens: _Count
    cache_creation_input_tokens: _Count | None = None
    cache_read_input_tokens: _Count | None = None


class _MessageBody(msgspec.Struct):
    content: list[_Block]
    model: str
    stop_reason: str
    usage: _MessageUsage


_CHAT = msgspec.json.Decoder(_Chat)
_MESSAGE = msgspec.json.Decoder(_MessageBody)

_CHAT_FINISH = {"stop": "stop", "length": "length", "tool_calls": "tool_call"}
_MESSAGE_FINISH = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "tool_use": "tool_call",
}


def chat_reply(body: bytes) -> Reply | None:
    """A chat completion as OpenAI and its likes write it."""
    try:
        chat = _CHAT.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    if len(chat.choices) != 1:
        return None
    choice = chat.choices[0]
    message, finish = choice.message, _CHAT_FINISH.get(choice.finish_reason)
    text = message.tool_calls[0].function.arguments if message.tool_calls else message.content
    # Thoughts between tags, refusals and empty answers are left to those who know them all.
    if finish is None or message.refusal or not text or "<think" in text[:200]:
        return None
    logprobs = choice.logprobs.content if choice.logprobs else None
    details = chat.usage.prompt_tokens_details
    return Reply(
        text=text,
        finish=finish,
        model=chat.model,
        logprobs=msgspec.to_builtins(logprobs) if logprobs else None,
        input_tokens=chat.usage.prompt_tokens,
        output_tokens=chat.usage.completion_tokens,
        cached_tokens=(details and details.cached_tokens) or 0,
        cost_usd=None,
    )


def message_reply(body: bytes) -> Reply | None:
    """A message as Anthropic writes it."""
    try:
        message = _MESSAGE.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    finish = _MESSAGE_FINISH.get(message.stop_reason)
    if finish is None or len(message.content) != 1:
        return None
    block = message.content[0]
    if block.type == "tool_use" and isinstance(block.input, dict):
        text = msgspec.json.encode(block.input).decode()
    elif block.type == "text" and block.text:
        text = block.text
    else:
        return None
    usage = message.usage
    cached = usage.cache_read_input_tokens or 0
    return Reply(
        text=text,
        finish=finish,
        model=message.model,
        logprobs=None,
        input_tokens=usage.input_tokens + cached + (usage.cache_creation_input_tokens or 0),
        output_tokens=usage.output_tokens,
        cached_tokens=cached,
        cost_usd=None,
    )
