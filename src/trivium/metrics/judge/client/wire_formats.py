"""The three request formats: OpenAI's chat completions and Responses, and Anthropic's Messages.

Sources: https://platform.openai.com/docs/api-reference, https://platform.claude.com/docs/en/api/messages.
"""

import json
import re
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import msgspec

from trivium.metrics.judge.client.providers import Format, ModelDescription
from trivium.metrics.judge.client.request import (
    NO_ANSWER,
    ModelRequest,
    ModelResponse,
    Token,
    plausible_count,
    schema_prompt,
)
from trivium.safe_text import sanitise

NAME, PURPOSE = "judgement", "Give your judgement."
"""Name of the schema or tool of an answer, and the tool's description."""

_THINKING_TOKENS = {"minimal": 1024, "low": 2048, "medium": 10_000, "high": 16_384}
_MOST_THINKING_TOKENS = 32_768
"""Budget of a Claude model that needs one, by effort, and of every higher effort, as in PydanticAI 2.68."""

_CACHED = {"cache_control": {"type": "ephemeral", "ttl": "5m"}}
"""Marks the end of a part that Anthropic caches."""

Body = dict[str, Any]


class WireFormat(NamedTuple):
    """One request format: ``path`` ends the address, ``read`` returns None if the body holds no answer."""

    path: str
    build: Callable[[ModelRequest, ModelDescription], Body]
    read: Callable[[bytes], ModelResponse | None]


def build_chat(request: ModelRequest, model: ModelDescription) -> Body:
    """Build the body of a chat completion."""
    schema: Body = {"name": NAME} | ({"strict": True} if model.strict else {})
    system = {"role": "system", "content": request.instructions}
    body: Body = {"model": request.model, "stream": False, "messages": [system, *_turns(request, model)]}
    if request.limit != "none":
        usual = "max_completion_tokens" if model.completion_limit else "max_tokens"
        body[request.limit or usual] = request.max_tokens
    if request.seed is not None:
        body["seed"] = request.seed
    if request.reasoning_effort is not None:
        body["reasoning_effort"] = request.reasoning_effort
    if request.output == "native":
        body["response_format"] = {"type": "json_schema", "json_schema": schema | {"schema": request.schema}}
        if model.schema_in_prompt:
            system["content"] += schema_prompt(request.schema)
    elif request.output == "tool":
        function = schema | {"description": PURPOSE, "parameters": request.schema}
        body |= _tool({"type": "function", "function": function}, request, model)
    return body | _sampling(request, model, {"logprobs": True}) | request.body


def build_responses(request: ModelRequest, model: ModelDescription) -> Body:
    """Build the body of a request to the Responses API, which takes no seed."""
    schema = {"name": NAME, "strict": True}
    body: Body = {"model": request.model, "stream": False, "instructions": request.instructions}
    body["input"] = _turns(request, model)
    if request.limit != "none":
        body[request.limit or "max_output_tokens"] = request.max_tokens
    if request.reasoning_effort is not None:
        body["reasoning"] = {"effort": request.reasoning_effort}
    if request.output == "native":
        body["text"] = {"format": {"type": "json_schema", **schema, "schema": request.schema}}
    elif request.output == "tool":
        tool = {"type": "function", **schema, "description": PURPOSE, "parameters": request.schema}
        body |= _tool(tool, request, model)
    return body | _sampling(request, model, {"include": ["message.output_text.logprobs"]}) | request.body


def build_messages(request: ModelRequest, model: ModelDescription) -> Body:
    """Build the body of a request to the Messages API, which needs a limit of tokens and takes no seed."""
    turns = [turn | {"content": [_text(turn["content"])]} for turn in _turns(request, model)]
    if request.marks == "case" and request.case:
        turns[0]["content"] = [_text(request.case) | _CACHED, _text(request.turns[0])]
    marks = _CACHED if request.marks else {}
    body: Body = {"model": request.model, "stream": False, "system": [_text(request.instructions) | marks]}
    body |= {"messages": turns, "max_tokens": request.max_tokens} | _thinking(request.reasoning_effort, model)
    if request.output == "native":
        schema = {"type": "json_schema", "schema": request.schema}
        body["output_config"] = body.get("output_config", {}) | {"format": schema}
    elif request.output == "tool":
        tool = {"name": NAME, "description": PURPOSE, "input_schema": request.schema} | marks
        forced = model.forces_tool(request.reasoning_effort)
        body |= {"tools": [tool], "tool_choice": {"type": "any" if forced else "auto"}}
    if request.temperature is not None and model.samples(request.reasoning_effort):
        body["temperature"] = request.temperature
    return body | request.body


def _turns(request: ModelRequest, model: ModelDescription) -> list[Body]:
    """The messages after the instructions."""
    first, *others = request.turns
    texts = [request.case + first, *(text or NO_ANSWER for text in others)]
    texts = [broken_up(text) for text in texts] if model.screened else texts
    return [{"role": "assistant" if n % 2 else "user", "content": text} for n, text in enumerate(texts)]


def _sampling(request: ModelRequest, model: ModelDescription, logprobs: Body) -> Body:
    """Temperature and log-probabilities, if the model accepts them; ``logprobs`` asks for the latter."""
    fields: Body = {} if request.temperature is None else {"temperature": request.temperature}
    if request.top_logprobs:
        fields |= logprobs | {"top_logprobs": request.top_logprobs}
    return fields if model.samples(request.reasoning_effort) else {}


def _tool(tool: Body, request: ModelRequest, model: ModelDescription) -> Body:
    forced = model.forces_tool(request.reasoning_effort)
    return {"tools": [tool], "tool_choice": "required" if forced else "auto"}


def _text(text: str) -> Body:
    return {"type": "text", "text": text}


def _thinking(effort: str | None, model: ModelDescription) -> Body:
    """The fields that ask a Claude model for a reasoning effort."""
    known = model.efforts
    if effort is None or (effort == "none" and not (known and model.thinks(None))):
        return {}
    if effort == "none" and model.thinking == "default":
        return {"thinking": {"type": "between_tools" if model.forced_tool == "never" else "disabled"}}
    thinking: Body = {"type": "adaptive"}
    if "max" not in known:
        thinking = {"type": "enabled", "budget_tokens": _THINKING_TOKENS.get(effort, _MOST_THINKING_TOKENS)}
    if not known:
        return {"thinking": thinking}
    nearest = known[0] if effort in ("none", "minimal") else known[-1]
    return {"thinking": thinking, "output_config": {"effort": effort if effort in known else nearest}}


class _Logprobs(msgspec.Struct):
    content: list[Token] | None = None


Logprobs = _Logprobs | list[Token] | None


class _Object(msgspec.Struct):
    """Any object of a response, with the fields that are read."""

    model: str | None = None
    usage: dict[str, Any] | None = None
    error: Any = None
    choices: "list[_Object] | None" = None
    message: "_Object | None" = None
    output: "list[_Object] | None" = None
    content: "str | list[_Object] | None" = None
    type: str | None = None
    text: Any = None
    refusal: str | None = None
    tool_calls: "list[_Object] | None" = None
    function: "_Object | None" = None
    arguments: str | None = None
    input: msgspec.Raw = msgspec.Raw()
    logprobs: Logprobs = None
    finish_reason: str | None = None
    stop_reason: str | None = None
    status: str | None = None
    incomplete_details: "_Object | None" = None
    reason: str | None = None


_OBJECT = msgspec.json.Decoder(_Object)
_KINDS = {"usage": dict} | dict.fromkeys(("model", "finish_reason", "stop_reason", "status", "reason"), str)
_TEXTS = ("content", "arguments")
"""Fields of a response that are read if they are of that type, and those that hold an answer as a text."""

_UNREADABLE = (msgspec.DecodeError, ValueError, RecursionError)

_FINISH = {
    "length": ("length", "max_output_tokens", "max_tokens", "model_context_window_exceeded"),
    "stop": ("stop", "completed", "end_turn", "stop_sequence"),
    "tool_call": ("tool_calls", "function_call", "tool_use"),
    "content_filter": ("content_filter", "refusal"),
}
_FINISH_OF = {word: finish for finish, words in _FINISH.items() for word in words}
"""Why an answer ended, by the word of any of the formats."""


def read_chat(body: bytes) -> ModelResponse | None:
    """Read a chat completion; None if it holds no answer."""
    chat = _decoded(body)
    if chat is None or not chat.choices or (message := chat.choices[0].message) is None:
        return None
    choice, called = chat.choices[0], [call.function for call in message.tool_calls or ()]
    text = message.content if isinstance(message.content, str) else _joined(message.content or ())
    if called:
        text = (called[0] and called[0].arguments) or ""
    ended = "refusal" if message.refusal else choice.finish_reason or "stop"
    return _response(chat, text, ended, choice.logprobs, ("prompt_tokens", "completion_tokens"))


def read_responses(body: bytes) -> ModelResponse | None:
    """Read a response of the Responses API; None if it holds no answer."""
    response = _decoded(body)
    if response is None or response.error or response.output is None:
        return None
    calls = [item.arguments or "" for item in response.output if item.type == "function_call"]
    messages = [item.content for item in response.output if item.type == "message"]
    parts = [part for content in messages if isinstance(content, list) for part in content]
    ended = response.incomplete_details.reason if response.incomplete_details else response.status
    if any(part.type == "refusal" for part in parts):
        ended = "refusal"
    logprobs = parts[0].logprobs if len(parts) == 1 and not calls else None
    text = calls[0] if calls else _joined(parts)
    return _response(response, text, ended, logprobs, ("input_tokens", "output_tokens"))


def read_messages(body: bytes) -> ModelResponse | None:
    """Read a message of the Messages API; None if it holds no answer."""
    message = _decoded(body)
    if message is None or not isinstance(message.content, list):
        return None
    # The input of a tool stays undecoded, so that duplicate keys are noticed.
    calls = [bytes(each.input) for each in message.content if each.type == "tool_use"]
    text = (
        calls[0].decode(errors="replace")
        if calls
        else _joined(each for each in message.content if each.type == "text")
    )
    usage = message.usage or {}
    cached, written = (_count(usage, f"cache_{kind}_input_tokens") for kind in ("read", "creation"))
    return ModelResponse(
        text=text,
        finish=_FINISH_OF.get(message.stop_reason or ""),
        model=message.model or "",
        input_tokens=_count(usage, "input_tokens") + cached + written,
        output_tokens=_count(usage, "output_tokens"),
        cached_tokens=cached,
        cache_write_tokens=written,
    )


def _response(
    top: _Object, text: str, ended: str | None, logprobs: Logprobs, counts: tuple[str, str]
) -> ModelResponse:
    """A response of one of OpenAI's formats, which name the counts of tokens differently."""
    usage = top.usage or {}
    details = usage.get(f"{counts[0]}_details")
    details = details if isinstance(details, dict) else {}
    return ModelResponse(
        text="" if ended == "refusal" else text,
        finish=_FINISH_OF.get(ended or ""),
        model=top.model or "",
        logprobs=_tokens(logprobs, text),
        input_tokens=_count(usage, counts[0]),
        output_tokens=_count(usage, counts[1]),
        cached_tokens=_count(details, "cached_tokens"),
        cache_write_tokens=_count(details, "cache_write_tokens"),
    )


def _decoded(body: bytes) -> _Object | None:
    try:
        return _OBJECT.decode(body)
    except _UNREADABLE:
        pass
    try:  # lone surrogates, which can be neither stored nor sent on, are replaced
        found, _ = sanitise(json.loads(body, parse_int=_bounded))
        try:
            return _OBJECT.decode(msgspec.json.encode(found))
        except msgspec.ValidationError:  # what is malformed beside the answer costs no more than itself
            return _OBJECT.decode(msgspec.json.encode(_without_oddities(found)))
    except _UNREADABLE:
        return None


def _bounded(digits: str) -> int | float:
    """A whole number, as a float if it has more digits than JSON's readers take."""
    return int(digits) if len(digits) < 19 else float(digits)


def _without_oddities(node: Any) -> Any:
    """A response without log-probabilities and fields of another kind, its answer as a text."""
    if isinstance(node, list):
        return [_without_oddities(each) for each in node]
    if not isinstance(node, dict):
        return node
    kept = {name: value for name, value in node.items() if isinstance(value, _KINDS.get(name, object))}
    return {
        name: json.dumps(value) if name in _TEXTS and isinstance(value, dict) else _without_oddities(value)
        for name, value in kept.items()
        if name != "logprobs"
    }


def _joined(parts: Iterable[_Object]) -> str:
    return "".join(part.text for part in parts if isinstance(part.text, str))


def _count(usage: Body, name: str) -> int:
    return plausible_count(usage.get(name))


def _tokens(logprobs: Logprobs, text: str) -> list[Token] | None:
    """The log-probabilities of an answer's tokens, or None without any."""
    tokens = logprobs.content if isinstance(logprobs, _Logprobs) else logprobs
    if not tokens:
        return None
    plain = text in "".join([each.token for each in tokens])
    return [
        Token(each.token, each.logprob, each.top_logprobs, None if plain else _own(each)) for each in tokens
    ]


def _own(token: Token) -> Any:
    """The bytes of a token if they are not those of its text, which is lossy for a part of a character."""
    plain = not token.bytes or list(token.token.encode(errors="replace")) == token.bytes
    return None if plain else token.bytes


def read_logprobs(given: Any, text: str) -> list[Token] | None:
    """Read the log-probabilities of a text in PydanticAI's form; None if they are malformed."""
    try:
        return _tokens(msgspec.convert(given, list[Token] | None), text)
    except msgspec.ValidationError:
        return None


_JOINER = "\u200d"
"""Breaks up the special tokens of chat templates that PydanticAI 2.68 breaks up. A model copies the joiner,
or writes another invisible character for it."""

_INVISIBLE = "\u200b-\u200d\u2060\ufeff"
_TAILS = {
    "<": (
        rf'\|[^\s<>|"{_INVISIBLE}]{{1,64}}\|>',  # <|im_start|>
        rf'｜[^\s<>｜"{_INVISIBLE}]{{1,64}}｜>',  # <｜User｜>
        r"\|[a-z_]{1,32}>|[a-z_]{1,32}\|>|(?:start|end)_of_turn>",
    ),
    r"\[": (
        r"\|(?:system|tool|assistant|user|endofturn)\|\]|TOOL_CALLS\]|e~\[",
        r"/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_RESULTS)\]",
    ),
    r"\]": (r"~b\]", r"~!b\["),
}
"""What follows the first character of a token."""

_TOKEN = re.compile("|".join(f"{first}(?={'|'.join(tails)})" for first, tails in _TAILS.items()))
_ESCAPED = r"\\u(?:200[b-dB-D]|2060|[fF][eE][fF]{2})"
_BROKEN = re.compile(
    "|".join(
        rf"(?<={first})(?:[{_INVISIBLE}]|{_ESCAPED})(?={'|'.join(tails)})" for first, tails in _TAILS.items()
    )
)


def broken_up(text: str) -> str:
    """Return a text with a joiner after the first character of each special token."""
    return _TOKEN.sub(lambda match: match[0] + _JOINER, text)


def restored(text: str) -> str:
    """Return an answer, JSON or not, without invisible characters in special tokens."""
    return _BROKEN.sub("", text)


FORMATS: dict[Format, WireFormat] = {
    "chat": WireFormat("/chat/completions", build_chat, read_chat),
    "responses": WireFormat("/responses", build_responses, read_responses),
    "messages": WireFormat("/v1/messages", build_messages, read_messages),
}
