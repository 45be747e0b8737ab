"""LangChain under OpenTelemetry: what its messages say of calls (OpenInference).

A tool whose one argument is a text has that text alone as its input, without the argument's name, and a
message as its output. The model that asked for the call says with what arguments, under the id that the
message answers.
"""

from typing import Any, NamedTuple

import msgspec

from trivium.traces.opentelemetry import wanted
from trivium.traces.opentelemetry.contents import parsed
from trivium.traces.opentelemetry.recorded import RecordedSpan
from trivium.traces.readers.fields import dict_, dicts, text
from trivium.traces.readers.langsmith.runs import messages_of

_MESSAGE_KEYS = ("data", "kwargs")
"""Where LangChain's ways to write a message keep its fields."""


class Call(NamedTuple):
    """A call that a model asked for."""

    tool: str | None
    arguments: Any


def asked_by(span: RecordedSpan) -> dict[str, Call]:
    """The calls that a model's answer asks for, by their ids."""
    answer = parsed(span.attributes.get(wanted.OUTPUT))
    if not isinstance(answer, dict):
        return {}
    return {
        name: Call(text(call, "name"), call.get("args"))
        for message in messages_of({"outputs": answer})
        for call in dicts(message.get("tool_calls"))
        if (name := text(call, "id")) is not None
    }


def answered(span: RecordedSpan, asked: dict[str, Call], tool: str) -> tuple[RecordedSpan, str | None]:
    """A tool's span with arguments and a result in place of messages, and the id of the call that it answers.

    Args:
        span: Of a tool.
        asked: What models asked for before, by ids.
        tool: Its name; ids are no keys, so that it has to be the one that was asked for.
    """
    message = _message(parsed(span.attributes.get(wanted.OUTPUT)))
    if message is None:
        return span, None
    call = text(message, "tool_call_id")
    attributes = {**span.attributes, wanted.OUTPUT: message.get("content")}
    wish = asked.get(call) if call is not None else None
    given = parsed(span.attributes.get(wanted.INPUT))
    named = wish is not None and wish.tool == tool and isinstance(wish.arguments, dict)
    if wish is not None and named and not isinstance(given, dict):
        attributes[wanted.INPUT] = wish.arguments
    failed = message.get("status") == "error"
    why = span.error or (text(message, "content") or "" if failed else "")
    return msgspec.structs.replace(span, attributes=attributes, failed=span.failed or failed, error=why), call


def _message(output: Any) -> dict[str, Any] | None:
    """The fields of a tool's message, however it is written."""
    fields = dict_(output)
    for key in _MESSAGE_KEYS:
        fields = dict_(fields.get(key)) or fields
    return fields if fields.get("type") == "tool" and "content" in fields else None
