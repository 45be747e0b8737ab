"""Makes the prompt and the message history of a PydanticAI agent from a chat as OpenAI's API has it."""

import binascii
from base64 import b64decode
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from trivium.agents.attempt import AgentFailure
from trivium.suites.case import Case
from trivium.suites.chat import dialogue_text
from trivium.values import JsonObject, dict_, dicts, text_or_json

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage, UserContent

_TEXTS = frozenset({"text", "input_text", "output_text", "refusal"})
_AUDIO = {"mp3": "audio/mpeg"}
_KNOWN = "text, image_url, input_image, input_audio, or file with its data"


def prompt_of(case: Case) -> tuple["list[ModelMessage] | None", "str | list[UserContent]"]:
    """Split an input that is a chat ending with the user into the earlier messages and the prompt.

    Images, sounds and files become PydanticAI's own; calls of tools and their results keep their ids. Any
    other input is one text.

    Raises:
        AgentFailure: If a part of a message can be given to no agent of PydanticAI.
    """
    messages = case.input
    if dialogue_text(messages) is None:
        return None, case.input_text
    if messages[-1]["role"] != "user":
        for place, message in enumerate(messages):
            _text(message, place)
        return None, case.input_text
    names = {
        call.get("id"): str(dict_(call.get("function")).get("name", ""))
        for message in messages
        for call in dicts(message.get("tool_calls"))
    }
    history = [_earlier(message, place, names) for place, message in enumerate(messages[:-1])]
    return history or None, _content(messages[-1], len(messages) - 1)


def _earlier(message: JsonObject, place: int, names: Mapping[Any, str]) -> "ModelMessage":
    from pydantic_ai.messages import (
        ModelRequest,
        ModelResponse,
        SystemPromptPart,
        TextPart,
        ToolCallPart,
        ToolReturnPart,
        UserPromptPart,
    )

    match message["role"]:
        case "assistant":
            calls = [
                ToolCallPart(
                    str(dict_(call.get("function")).get("name", "")),
                    dict_(call.get("function")).get("arguments"),
                    tool_call_id=str(call.get("id", "")),
                )
                for call in dicts(message.get("tool_calls"))
            ]
            text = _text(message, place)
            return ModelResponse(parts=[*([TextPart(text)] if text or not calls else []), *calls])
        case "system" | "developer":
            return ModelRequest(parts=[SystemPromptPart(_text(message, place))])
        case "tool" if message.get("tool_call_id") in names:
            id_ = message["tool_call_id"]
            returned = ToolReturnPart(names[id_], _text(message, place), tool_call_id=str(id_))
            return ModelRequest(parts=[returned])
        case _:
            return ModelRequest(parts=[UserPromptPart(_content(message, place))])


def _text(message: JsonObject, place: int) -> str:
    """The text of a message that can hold nothing else."""
    content = _content(message, place)
    if isinstance(content, str):
        return content
    if all(isinstance(part, str) for part in content):
        return "\n".join(map(str, content))
    who = message["role"]
    raise AgentFailure(
        f"messages[{place}] of the input: an agent of PydanticAI gets images, sounds and files from the user "
        f"only, in a chat that ends with the user; this one is of the {who}"
    )


def _content(message: JsonObject, place: int) -> "str | list[UserContent]":
    content = message.get("content")
    if not isinstance(content, list | tuple) or not all(
        isinstance(part, str) or (isinstance(part, Mapping) and "type" in part) for part in content
    ):
        return text_or_json(content)
    try:
        parts = list(_parts(content))
    except (ValueError, binascii.Error) as error:
        raise AgentFailure(f"messages[{place}] of the input: {error}") from error
    return "\n".join(map(str, parts)) if all(isinstance(part, str) for part in parts) else parts


def _parts(content: "list[Any] | tuple[Any, ...]") -> "Iterator[UserContent]":
    from pydantic_ai.messages import BinaryContent, ImageUrl

    for part in content:
        kind = None if isinstance(part, str) else part["type"]
        if kind is None:
            yield part
        elif kind in _TEXTS and isinstance(text := part.get("text", part.get("refusal")), str):
            yield text
        elif kind in ("image_url", "input_image"):
            held = part.get("image_url")
            url = held.get("url") if isinstance(held, Mapping) else held
            if not isinstance(url, str) or not url.startswith(("data:", "http://", "https://")):
                raise ValueError(f"its {kind} names no address: expected https://… or data:image/…;base64,…")
            detail = dict_(held).get("detail") or part.get("detail")
            vendor = {"detail": detail} if detail else None
            yield ImageUrl(url, vendor_metadata=vendor) if url.startswith("http") else _data(url, vendor)
        elif kind == "input_audio" and isinstance(data := dict_(part.get(kind)).get("data"), str):
            form = str(dict_(part[kind]).get("format", "wav"))
            yield BinaryContent(b64decode(data, validate=True), media_type=_AUDIO.get(form, f"audio/{form}"))
        elif kind == "file" and isinstance(data := dict_(part.get(kind)).get("file_data"), str):
            yield _data(data, None)
        else:
            raise ValueError(f'a part of type "{str(kind)[:40]}" cannot be given to PydanticAI: use {_KNOWN}')


def _data(uri: str, vendor: "JsonObject | None") -> Any:
    """The content of a data URI."""
    from pydantic_ai.messages import BinaryContent

    head, comma, data = uri.removeprefix("data:").partition(",")
    media, *options = head.split(";")
    if not comma or "base64" not in options or not media:
        raise ValueError("its data are not written as data:TYPE;base64,…")
    return BinaryContent(b64decode(data, validate=True), media_type=media, vendor_metadata=vendor)
