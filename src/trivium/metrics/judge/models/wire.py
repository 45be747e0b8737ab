"""Wire: the usual answers of the two wire formats, read fast; None for any that is not usual."""

from typing import Annotated, Any, Generic, TypeVar

import msgspec

from trivium.metrics.judge.models.call import MOST_TOKENS, Alternative, Reply, Token
from trivium.metrics.judge.models.usual import thinned

_Count = Annotated[int, msgspec.Meta(ge=0, le=MOST_TOKENS)]


class _Told(msgspec.Struct, gc=False):
    token: str
    logprob: float
    top_logprobs: list[Alternative] | None = None


class _Logprobs(msgspec.Struct):
    content: list[_Told] | None = None


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


class _LoggedChoice(_Choice):
    logprobs: _Logprobs | None = None


C = TypeVar("C", bound=_Choice)


class _PromptDetails(msgspec.Struct):
    cached_tokens: _Count | None = None


class _ChatUsage(msgspec.Struct):
    prompt_tokens: _Count
    completion_tokens: _Count
    prompt_tokens_details: _PromptDetails | None = None


class _Chat(msgspec.Struct, Generic[C]):
    choices: list[C]
    model: str | None = None
    usage: _ChatUsage | None = None


class _Block(msgspec.Struct):
    type: str
    text: str = ""
    input: msgspec.Raw = msgspec.Raw(b"null")


class _MessageUsage(msgspec.Struct):
    input_tokens: _Count
    output_tokens: _Count
    cache_creation_input_tokens: _Count | None = None
    cache_read_input_tokens: _Count | None = None


class _MessageBody(msgspec.Struct):
    content: list[_Block]
    stop_reason: str
    model: str | None = None
    usage: _MessageUsage | None = None


_LOGGED = msgspec.json.Decoder(_Chat[_LoggedChoice])
_CHAT = msgspec.json.Decoder(_Chat[_Choice])
_MESSAGE = msgspec.json.Decoder(_MessageBody)
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

_CHAT_FINISH = {"stop": "stop", "length": "length", "tool_calls": "tool_call"}
_MESSAGE_FINISH = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "tool_use": "tool_call",
}


def chat_reply(body: bytes) -> Reply | None:
    """A chat completion as OpenAI and its likes write it."""
    chat: _Chat[Any]
    try:
        chat = _LOGGED.decode(body)
    except _UNREADABLE:
        try:
            chat = _CHAT.decode(body)  # log-probabilities that are none cost the answer nothing
        except _UNREADABLE:
            return None
    if len(chat.choices) != 1:
        return None
    choice = chat.choices[0]
    message, finish = choice.message, _CHAT_FINISH.get(choice.finish_reason)
    text = message.tool_calls[0].function.arguments if message.tool_calls else message.content
    # Thoughts between tags, refusals and empty answers are left to those who know them all.
    if finish is None or message.refusal or not text or "<think" in text[:200]:
        return None
    usage = chat.usage or _ChatUsage(prompt_tokens=0, completion_tokens=0)
    details = usage.prompt_tokens_details
    return Reply(
        text=text,
        finish=finish,
        model=chat.model or "",
        logprobs=_logprobs(getattr(choice, "logprobs", None), text, body),
        input_tokens=usage.prompt_tokens,
        output_tokens=usage.completion_tokens,
        cached_tokens=(details and details.cached_tokens) or 0,
        cost_usd=None,
    )


def _logprobs(found: _Logprobs | None, text: str, body: bytes) -> list[Token] | None:
    """Log-probabilities of the tokens of a text."""
    if found is None or not found.content:
        return None
    if text in "".join([told.token for told in found.content]):
        return [Token(told.token, told.logprob, told.top_logprobs) for told in found.content]
    # Some token is a piece of a character, which its bytes tell.
    return thinned(msgspec.json.decode(body)["choices"][0]["logprobs"]["content"])


def message_reply(body: bytes) -> Reply | None:
    """A message as Anthropic writes it."""
    try:
        message = _MESSAGE.decode(body)
    except _UNREADABLE:
        return None
    finish = _MESSAGE_FINISH.get(message.stop_reason)
    if finish is None or len(message.content) != 1:
        return None
    block = message.content[0]
    called = bytes(block.input)
    if block.type == "tool_use" and called.startswith(b"{"):
        text = called.decode(errors="replace")  # as it stands: what is said twice has to be seen
    elif block.type == "text" and block.text:
        text = block.text
    else:
        return None
    usage = message.usage or _MessageUsage(input_tokens=0, output_tokens=0)
    cached, put = usage.cache_read_input_tokens or 0, usage.cache_creation_input_tokens or 0
    return Reply(
        text=text,
        finish=finish,
        model=message.model or "",
        logprobs=None,
        input_tokens=usage.input_tokens + cached + put,
        output_tokens=usage.output_tokens,
        cached_tokens=cached,
        cache_write_tokens=put,
        cost_usd=None,
    )
