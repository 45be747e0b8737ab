"""Finds the user's question and the assistant's answer in the messages of a conversation.

It reads messages of the GenAI conventions (``parts``), OpenAI's APIs, Anthropic, Gemini, Bedrock, the AI SDK,
LangChain in every serialisation, and Haystack. Definition: docs/trace-formats.md#question-and-answer.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from trivium.traces.trace import TraceProblem
from trivium.values import JsonObject, dicts, list_

Speaker = Literal["user", "assistant"]

_SPEAKERS: dict[str, Speaker] = {
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "ai": "assistant",
    "model": "assistant",
}
_ROLES = frozenset({*_SPEAKERS, "system", "developer", "tool", "function"})
_TEXT_PARTS = (None, "text", "input_text", "output_text")
"""Types of text parts; parts of other types (reasoning, tool calls, images) are left out of the text."""

_NESTED = ("data", "kwargs")
"""Keys under which LangChain's serialisations put the fields of a message."""

_HOLDERS = ("messages", "replies", "choices", "generations", "contents", "candidates", "output")
"""Keys under which a request, or a model's response, holds its messages."""

_INNER = ("message", "content")
"""Keys under which a choice, a generation or a candidate holds its message."""


def question_in(value: Any) -> Any:
    """Return the text of the last user message that has text; a value that is no conversation as it is.

    None for a conversation without text of the user.
    """
    messages = _messages(value)
    if messages is None:
        return value
    return next((text for speaker, text in reversed(messages) if speaker == "user" and text), None)


def answer_in(value: Any) -> Any:
    """Return the text of the last assistant message; a value that is no conversation as it is.

    None if that message has no text, for example because it only requests tool calls.
    """
    messages = _messages(value)
    if messages is None:
        return value
    return next((text or None for speaker, text in reversed(messages) if speaker == "assistant"), None)


def _messages(value: Any) -> list[tuple[Speaker | None, str]] | None:
    """Return the speaker and the text of each message; None if the value is not a conversation."""
    messages = list(_unwrapped(value))
    if not any(map(_is_message, messages)):
        return None
    return [(_SPEAKERS.get(_role(message) or ""), _text(message)) for message in messages]


def fields_of(message: JsonObject) -> JsonObject:
    """Return the fields of a message, without the wrapper that LangChain's serialisations put around them."""
    return next((message[key] for key in _NESTED if isinstance(message.get(key), dict)), message)


def _unwrapped(value: Any, depth: int = 3) -> Iterator[JsonObject]:
    """Yield the fields of each message in a value, without the wrappers of its framework."""
    if isinstance(value, dict):
        fields = fields_of(value)
        if _is_message(fields) or fields is not value:
            yield {"id": value.get("id"), "type": value.get("type"), **fields}
            return
        inner = next((value[key] for key in _INNER if isinstance(value.get(key), dict)), None)
        held = [value[key] for key in _HOLDERS if isinstance(value.get(key), list | tuple)]
        items: list[Any] = [inner] if inner is not None else list_(held[0]) if held else []
    else:
        items = list_(value)
        if len(items) == 2 and isinstance(items[0], str) and items[0] in _ROLES:
            yield {"role": items[0], "content": items[1]}
            return
    if depth:
        for item in items:
            yield from _unwrapped(item, depth - 1)


def _role(message: JsonObject) -> str | None:
    """Return the role in lower case; for example ``human`` for LangChain's class HumanMessage."""
    ids = message.get("id")
    stated = message.get("role") or message.get("_role") or message.get("type")
    if stated in (None, "constructor") and isinstance(ids, list) and ids:
        stated = ids[-1]
    if not isinstance(stated, str):
        return None
    return stated.lower().removesuffix("chunk").removesuffix("message") or None


def _is_message(message: JsonObject) -> bool:
    return _role(message) in _ROLES and not message.keys().isdisjoint(_CONTENT)


_CONTENT = ("parts", "content", "_content", "tool_calls")


def _content(message: JsonObject) -> Any:
    return next((message[key] for key in _CONTENT[:3] if message.get(key)), None)


def _text(message: JsonObject) -> str:
    content = texts_of(_content(message))
    return content if isinstance(content, str) else ""


def texts_of(content: Any) -> Any:
    """Join the text parts of a message, without reasoning, calls and images; keep other content as it is."""
    if not isinstance(content, list):
        return content
    parts = [part if isinstance(part, dict) else {"text": part} for part in content]
    texts = [part.get("text", part.get("content")) for part in parts if _is_text(part)]
    return "\n".join(text for text in texts if isinstance(text, str) and text)


def _is_text(part: JsonObject) -> bool:
    return part.get("type", part.get("block_type")) in _TEXT_PARTS and part.get("thought") is not True


_READ = "text|refusal|reason|think|tool|function|call|step|summary"
"""Kinds of parts that need no warning: text, calls and results (read from spans), reasoning."""

UNREAD_TYPE = re.compile(rf'"type"\s*:\s*"(?![^"]*(?i:{_READ}))')
"""Finds a part that may not be text in JSON that is not decoded yet."""

_UNTYPED = re.compile("image|audio|video|document|file|inline", re.IGNORECASE)
"""Keys that hold such a part in APIs whose parts have no type (Gemini, Bedrock)."""


def unread_kinds(content: Any) -> Iterator[str]:
    """Yield the kind of each part that is not text, such as ``image``, ``audio`` or ``file``."""
    for part in dicts(content):
        stated = part.get("modality") or part.get("type", part.get("block_type"))
        kind = next(filter(_UNTYPED.search, part), None) if stated is None else str(stated)
        if kind and not re.search(_READ, kind, re.IGNORECASE):
            yield kind[:40]


def unread_parts(value: Any) -> Counter[str]:
    """Count the parts that are not text in the messages of a value, by kind."""
    return Counter(
        kind for each in _unwrapped(value) if _is_message(each) for kind in unread_kinds(_content(each))
    )


def unread_problems(parts: Mapping[str, int]) -> Iterator[TraceProblem]:
    """Yield a problem that lists the parts that are not text, with their number by kind."""
    if parts:
        listed = ", ".join(f"{count} {kind}" for kind, count in sorted(parts.items()))
        yield TraceProblem(kind="unread_parts", what=f"parts that are no text are left out: {listed}")
