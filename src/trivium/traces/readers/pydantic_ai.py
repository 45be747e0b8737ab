"""Reads message histories of PydanticAI: the requests and responses of one run of one agent.

Each response becomes a model request. Each call in it becomes a tool call, whose result is the nearest later
return with its id (ids may repeat). The history has times but no durations: a response has the time at which
the model answered, a return that at which the tool did. So a model request lasts from the request before it
to its own time, and a tool call from its response to its return. The history names neither the agent nor its
caller.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from trivium.traces.normalize import normalise
from trivium.traces.readers.chat import SpansOfMessages
from trivium.traces.readers.json_input import decoded, moment, read_usage, text
from trivium.traces.trace import Span, Trace
from trivium.values import JsonObject, amount, dict_, dicts

UNNAMED = "agent"
"""Name of the agent, which a history does not state."""

_CALLS = frozenset({"tool-call", "builtin-tool-call", "native-tool-call"})
_RETURNS = frozenset({"tool-return", "builtin-tool-return", "native-tool-return"})
_FAILED = frozenset({"failed", "retried", "denied", "interrupted"})
_RUN = "run"


def sniff(document: Any) -> bool:
    """Whether a JSON value is a message history, a list of them, an object with one, or a message."""
    return _is_message(document) or bool(_histories(document))


def read_traces(documents: Sequence[Any], _source: str) -> list[Trace]:
    """The traces of a file, one for each run. A history of several runs is split at their ids."""
    histories = [history for document in documents for history in _histories(document)]
    histories += _histories([document for document in documents if _is_message(document)])
    return [_trace(run, messages) for history in histories for run, messages in _runs(history).items()]


def _histories(value: Any) -> list[list[Any]]:
    """The lists of messages in a value."""
    if isinstance(value, dict):
        value = value.get("messages", value.get("all_messages"))
    if not isinstance(value, list) or not value:
        return []
    if _is_message(value[0]):
        return [value]
    return [item for item in value if isinstance(item, list) and item and _is_message(item[0])]


def _is_message(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and text(value, "kind") in {"request", "response"}
        and isinstance(value.get("parts"), list)
    )


def _runs(history: list[Any]) -> Mapping[str, list[JsonObject]]:
    """The messages of each run; one without an id belongs to the run before it."""
    runs: dict[str, list[JsonObject]] = {}
    run = ""
    for message in dicts(history):
        run = text(message, "run_id") or run
        runs.setdefault(run, []).append(message)
    return runs


def _trace(run: str, messages: list[JsonObject]) -> Trace:
    builder = _Builder()
    for position, message in enumerate(messages):
        builder.add(position, message)
    builder.finish("it has no return")
    times = [time for span in builder.spans for time in (span.start, span.end) if time is not None]
    run_span = Span(
        id=_RUN,
        kind="agent",
        name=UNNAMED,
        start=min(times, default=None),
        end=max(times, default=None),
        input=builder.prompt,
        output=builder.answer,
    )
    conversation = text(messages[0], "conversation_id")
    return normalise(
        [run_span, *builder.spans],
        trace_id=run,
        problems=builder.problems,
        metadata={"conversation": conversation} if conversation else {},
    )


class _Builder(SpansOfMessages):
    """Spans of one run, message by message."""

    def __init__(self) -> None:
        super().__init__()
        self.prompt: Any = None
        self.answer: Any = None
        self._request_time: float | None = None

    def add(self, position: int, message: JsonObject) -> None:
        parts = dicts(message.get("parts"))
        time = moment(message.get("timestamp"))
        if message.get("kind") == "response":
            self._response(position, message, parts, time)
            return
        for part in parts:
            kind = text(part, "part_kind")
            if kind == "user-prompt" and self.prompt is None:
                self.prompt = part.get("content")
            elif kind in _RETURNS or (kind == "retry-prompt" and part.get("tool_name")):
                self._return(position, part)
        self._request_time = time
        if time is None:
            times = [moment(part.get("timestamp")) for part in parts]
            self._request_time = max((time for time in times if time is not None), default=None)

    def _response(
        self, position: int, message: JsonObject, parts: list[JsonObject], time: float | None
    ) -> None:
        usage = dict_(message.get("usage"))
        texts = [part["content"] for part in parts if part.get("part_kind") == "text" and "content" in part]
        self.answer = "\n".join(map(str, texts)) if texts else self.answer
        self.spans.append(
            Span(
                id=f"llm-{position}",
                kind="llm",
                name=text(message, "model_name") or "",
                parent=_RUN,
                start=time if self._request_time is None else self._request_time,
                end=time,
                output=parts,
                usage=read_usage(usage, cost=amount(usage.get("cost"))),
            )
        )
        for number, part in enumerate(parts):
            if text(part, "part_kind") in _CALLS:
                span = Span(
                    id=f"tool-{position}-{number}",
                    kind="tool",
                    name=text(part, "tool_name") or "",
                    parent=_RUN,
                    start=time,
                    input=decoded(part.get("args")),
                )
                self.call(text(part, "tool_call_id") or "", span)
            elif text(part, "part_kind") in _RETURNS:  # a provider-side tool returns in the same response
                self._return(position, part)

    def _return(self, position: int, part: JsonObject) -> None:
        at = self.called(text(part, "tool_call_id") or "")
        if at is None:
            name = text(part, "tool_name")
            what = f"message {position} has a return of {name} without a call; it was left out"
            self.problem("orphan_result", what)
            return
        failed = part.get("part_kind") == "retry-prompt" or text(part, "outcome") in _FAILED
        call, end = self.spans[at], moment(part.get("timestamp"))
        end = call.start if end is None else end
        self.spans[at] = msgspec.structs.replace(call, end=end, ok=not failed, output=part.get("content"))
