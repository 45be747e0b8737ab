"""Reads chats in the form of OpenAI's chat completions: ``{"messages": [{"role": …, "content": …}, …]}``.

Messages have no times: their position gives the order, and starts and ends are null. A result belongs to the
call with its id; one whose text begins with "Error" failed.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec

from trivium.traces.conversation import texts_of, unread_kinds, unread_problems
from trivium.traces.normalize import normalise
from trivium.traces.readers.json_input import text
from trivium.traces.trace import INCOMPLETE, Message, Span, Trace, TraceProblem
from trivium.values import JsonObject, dict_, dicts, json_or_text, list_

AGENT, USER = "agent", "user"
_ROLES = frozenset({"system", "developer", "user", "assistant", "tool", "function"})
_IDS = ("trace_id", "id", "conversation_id", "session_id")


def sniff(document: Any) -> bool:
    """Whether a JSON value is a chat, a list of chats, or the messages of one."""
    return bool(_chats(document))


def read_traces(documents: Sequence[Any], _source: str) -> list[Trace]:
    """The traces of a file, one for each chat."""
    chats = [chat for document in documents for chat in _chats(document)]
    return [trace_of_chat(messages, id_ or f"chat-{index}") for index, (id_, messages) in enumerate(chats)]


def _chats(document: Any) -> list[tuple[str | None, list[Any]]]:
    if isinstance(document, dict) and _is_chat(document.get("messages")):
        id_ = next((document[key] for key in _IDS if isinstance(document.get(key), str)), None)
        return [(id_, document["messages"])]
    if _is_chat(document):
        return [(None, document)]
    return [chat for each in list_(document) if isinstance(each, dict) for chat in _chats(each)]


def _is_chat(value: Any) -> bool:
    first = value[0] if isinstance(value, list) and value else None
    return isinstance(first, dict) and text(first, "role") in _ROLES and "kind" not in first


def answer_of(messages: list[Any]) -> str:
    """The last text of the assistant; empty if there is none."""
    texts = (texts_of(each.get("content")) for each in dicts(messages) if each.get("role") == "assistant")
    return next((text for text in reversed(list(texts)) if isinstance(text, str) and text), "")


def trace_of_chat(messages: list[Any], trace_id: str) -> Trace:
    """The requests, calls and messages of one agent, normalised."""
    builder = _Builder()
    for position, turn in enumerate(messages):
        if isinstance(turn, dict):
            builder.add(position, turn)
        else:
            builder.problem(INCOMPLETE, f"message {position} is not an object; it was left out")
    builder.finish("it has no result")
    return normalise(
        [Span(id="run", kind="agent", name=AGENT), *builder.spans],
        builder.messages,
        trace_id=trace_id,
        problems=builder.problems,
        metadata={"people": [USER]},
    )


class SpansOfMessages:
    """Spans and problems of messages that are read in order; pairs results with calls, not by id alone.

    Call ids repeat within a chat. A result therefore belongs to the latest earlier call with its id that has
    no result yet.
    """

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.problems: list[TraceProblem] = []
        self._open: list[tuple[str, int]] = []  # id of the call, place of its span
        self._unread: Counter[str] = Counter()

    def problem(self, kind: str, what: str, span: str | None = None) -> None:
        """Add a problem."""
        self.problems.append(TraceProblem(kind=kind, span=span, what=what))

    def text(self, content: Any) -> Any:
        """The text of a message; its other parts are counted."""
        self._unread.update(unread_kinds(content))
        return texts_of(content)

    def call(self, id_: str, span: Span) -> None:
        """Add the span of a call, which waits for its result."""
        self._open.append((id_, len(self.spans)))
        self.spans.append(span)

    def called(self, id_: str, *, or_latest: bool = False) -> int | None:
        """Place of the span of the call that a result answers; None if no call waits for it.

        Args:
            id_: The id that the result states.
            or_latest: Whether without such a call the latest one counts that has no result.
        """
        same = [index for index, (call, _) in enumerate(self._open) if call == id_]
        if not same and not (or_latest and self._open):
            return None
        return self._open.pop(same[-1] if same else -1)[1]

    def finish(self, unanswered: str) -> None:
        """Let calls without a result neither have succeeded nor failed, and list parts that are not read.

        Args:
            unanswered: Says of such a call what it lacks; of one with a start, normalisation says it.
        """
        for _, place in self._open:
            span = self.spans[place] = msgspec.structs.replace(self.spans[place], ok=None)
            if span.start is None:
                self.problem("unfinished", unanswered, span.id)
        self.problems += unread_problems(self._unread)


class _Builder(SpansOfMessages):
    """Builds the spans and messages of one chat; a result with an unknown id answers the latest call."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[Message] = []
        self._turn, self._speaker = 0, ""

    def add(self, position: int, turn: JsonObject) -> None:
        role, content = text(turn, "role"), self.text(turn.get("content"))
        stated = turn.get("turn")
        if isinstance(stated, int):
            self._turn = stated
        elif role == "user" and self._speaker != "user":
            self._turn += 1
        self._speaker = role or ""
        if role == "user":
            self.messages.append(Message(sender=USER, receiver=AGENT, content=content))
        elif role == "assistant":
            if text(turn, "source") in {None, "generate"}:  # in Inspect's logs, other turns are no model's
                model = text(turn, "model") or "assistant"
                span = Span(id=f"llm-{position}", kind="llm", name=model, parent="run", output=content)
                self.spans.append(span)
            if content:
                self.messages.append(
                    Message(sender=AGENT, receiver=USER, type="result_delivery", content=content)
                )
            for number, call in enumerate(dicts(turn.get("tool_calls"))):
                self._call(position, number, call)
        elif role in {"tool", "function"}:
            self._result(position, turn, content)
        elif role not in _ROLES:
            self.problem(INCOMPLETE, f"message {position} has no known role; it was left out")

    def _call(self, position: int, number: int, call: JsonObject) -> None:
        function = dict_(call.get("function")) or {**call, "name": call.get("function")}
        arguments = function.get("arguments")
        span = Span(
            id=f"tool-{position}-{number}",
            kind="tool",
            name=text(function, "name") or "",
            parent="run",
            input=json_or_text(arguments) if isinstance(arguments, str) else arguments,
            attributes={"turn": self._turn},
        )
        self.call(str(call.get("id", "")), span)

    def _result(self, position: int, turn: JsonObject, content: Any) -> None:
        at = self.called(str(turn.get("tool_call_id", "")), or_latest=True)
        if at is None:
            what = f"message {position} is a result without a call before it; it was left out"
            self.problem("orphan_result", what)
            return
        failed = bool(turn.get("error")) or (isinstance(content, str) and content.startswith("Error"))
        self.spans[at] = msgspec.structs.replace(self.spans[at], output=content, ok=not failed)
