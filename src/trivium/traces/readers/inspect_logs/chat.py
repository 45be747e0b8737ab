"""The messages of a sample as spans: all there is of what was done where a log kept no events."""

from collections import deque
from typing import Any

from msgspec.structs import replace

from trivium.traces.readers.fields import dict_, dicts, text
from trivium.traces.trace import Span

AGENT = "agent"


def spans_of_messages(messages: Any) -> list[Span]:
    """A run, its model calls and its tool calls, each paired with the result of its id, in order.

    The messages of a chat that a model did not write (``source`` is not ``generate``) are no model calls.
    """
    turns = dicts(messages)
    if not turns:
        return []
    spans = [Span(id="root", kind="agent", name=AGENT, agent=AGENT)]
    waiting: dict[str, deque[int]] = {}
    for place, turn in enumerate(turns):
        role = text(turn, "role")
        if role == "assistant":
            if text(turn, "source") in {None, "generate"}:
                model = text(turn, "model") or "model"
                content = turn.get("content")
                spans.append(Span(id=f"model-{place}", kind="llm", name=model, parent="root", output=content))
            for index, call in enumerate(dicts(turn.get("tool_calls"))):
                waiting.setdefault(text(call, "id") or "", deque()).append(len(spans))
                name, arguments = text(call, "function") or "", call.get("arguments")
                id_ = f"tool-{place}-{index}"
                spans.append(Span(id=id_, kind="tool", name=name, parent="root", input=arguments, ok=None))
        elif role == "tool":
            calls = waiting.get(text(turn, "tool_call_id") or "")
            if calls:
                at = calls.popleft()
                wrong = bool(dict_(turn.get("error")))
                spans[at] = replace(spans[at], ok=not wrong, output=turn.get("content"))
    return spans
