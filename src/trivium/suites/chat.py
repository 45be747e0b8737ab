"""Chats as OpenAI's API has them: lists of messages with a role and a content."""

from collections.abc import Iterable, Mapping
from typing import Any

from trivium.values import dict_, list_, text_or_json


def dialogue_text(value: Any) -> str | None:
    """Format chat messages as text, one paragraph each; None if the value is not a list of messages.

    A message has a ``role``, a text, and a ``content``: a text or a list of parts. A part without text
    appears as its type in brackets; tool calls follow the text.
    """
    if not isinstance(value, list | tuple) or not value:
        return None
    paragraphs = []
    for message in value:
        if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
            return None
        content = message.get("content")
        parts = content if isinstance(content, list | tuple) else [content]
        lines = [text for part in parts if (text := _part_text(part))]
        calls = (dict_(call).get("function", call) for call in list_(message.get("tool_calls")))
        lines += [f"calls {dict_(call).get('name')}({dict_(call).get('arguments', '')})" for call in calls]
        paragraphs.append(f"{message['role']}: {chr(10).join(lines)}")
    return "\n\n".join(paragraphs)


def chat_problem(messages: Iterable[Any]) -> tuple[int, str] | None:
    """The place of the first entry of a chat that is no message with a role, and what is wrong with it."""
    for place, message in enumerate(messages):
        if not isinstance(message, Mapping):
            return place, "is no message: expected an object with a role and a content"
        if not isinstance(message.get("role"), str) or not message["role"]:
            return place, "the message has no role: expected system, user, assistant or tool"
    return None


def is_like_a_chat(value: Any) -> bool:
    """Whether a list holds a message as OpenAI's API has it."""
    return isinstance(value, list) and any(
        isinstance(each, Mapping)
        and each.get("role") in ("system", "developer", "user", "assistant", "tool")
        and not each.keys().isdisjoint(("content", "tool_calls"))
        for each in value
    )


def _part_text(part: Any) -> str:
    if isinstance(part, Mapping) and isinstance(part.get("text"), str):
        text: str = part["text"]
        return text
    return f"[{part['type']}]" if isinstance(part, Mapping) and "type" in part else text_or_json(part)
