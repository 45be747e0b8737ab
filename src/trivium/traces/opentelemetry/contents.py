"""Reads what spans received and returned: questions and answers, arguments and results, answers of models.

Each convention keeps them under attributes of its own, or in events. Attributes are tried in the order of the
tables here; in a conversation, the question is the last text of the user, and the answer that of the
assistant (docs/trace-formats.md#question-and-answer).
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import Any

from trivium.traces.conversation import (
    UNREAD_TYPE,
    answer_in,
    question_in,
    texts_of,
    unread_parts,
    unread_problems,
)
from trivium.traces.opentelemetry import semconv
from trivium.traces.opentelemetry.semconv import RecordedSpan
from trivium.traces.trace import NO_ARGUMENTS, NO_CALLS, TraceProblem
from trivium.values import JsonObject, dicts, json_or_text

_USER = "gen_ai.user.message"
_CHOICE = "gen_ai.choice"
_TOOL = "gen_ai.tool.message"
_MESSAGES = ("message", "content", "gen_ai.event.content")

_NUMBERED = f"{semconv.MESSAGE_ROLE} 0"
_ASKED = (
    semconv.INPUT_MESSAGES,
    semconv.INPUT,
    semconv.JSON_INPUT,
    semconv.ASKED,
    semconv.ALL_MESSAGES,
)
_ANSWERED = (
    semconv.FINAL_RESULT,
    semconv.OUTPUT_MESSAGES,
    semconv.OUTPUT,
    semconv.JSON_OUTPUT,
    semconv.ANSWERED,
    semconv.ALL_MESSAGES,
)
_OUTPUTS = (
    semconv.OUTPUT_MESSAGES,
    semconv.ANSWER_TEXT,
    semconv.MESSAGE_EVENTS,
    semconv.OUTPUT,
    semconv.JSON_OUTPUT,
    semconv.ANSWERED,
)
_CONTENTS = frozenset({_NUMBERED, *_ASKED, *_ANSWERED, *_OUTPUTS})
_ARGUMENTS = (semconv.ARGUMENTS, semconv.JSON_INPUT, semconv.INPUT, semconv.ASKED)
_RESULT = (semconv.RESULT, semconv.JSON_OUTPUT, semconv.OUTPUT, semconv.ANSWERED)

_FINAL = "final_result"
"""How the tools begin with which PydanticAI has a model answer; they have no calls."""

_WITH_PARTS = frozenset({*_ASKED, *_ANSWERED})

*_DOCUMENTS, _LAST = (
    {f"{semconv.DOCUMENT} {part} {index}": part for part in semconv.DOCUMENT_PARTS}
    for index in range(semconv.MOST_DOCUMENTS + 1)
)
"""By name of attribute, the part of each document; those of the last are only noticed."""
_BEYOND = frozenset(_LAST)

_QUOTED = frozenset({semconv.JSON_INPUT, semconv.JSON_OUTPUT})
_TYPES = {semconv.INPUT: semconv.INPUT_TYPE, semconv.OUTPUT: semconv.OUTPUT_TYPE}

_BESIDE = frozenset(
    {"system", "trajectory", "reasoning", "files", "sources", "warnings", "toolCalls", "streaming_callback"}
)
"""Fields beside the question or the answer of a framework's module."""
_HOLDERS = frozenset(
    {"input", "inputs", "input_args", "prompt", "question", "query", "output", "outputs", "text"}
)
"""The only field of an object that holds just a question or an answer."""


def contents_of(span: RecordedSpan, *, outermost: bool) -> tuple[Any, Any]:
    """Input and output of a span; None where they are not recorded.

    The input of a model request repeats the conversation and is left out, as are the contents of chains,
    unless the chain is outermost: then they are the question and the answer.
    """
    kind = span.kind
    if kind == "other" and not outermost:
        return None, None
    if kind == "tool":
        return arguments_of(span), _result(span)
    if not span.events and span.attributes.keys().isdisjoint(_CONTENTS):
        return None, None
    return (None, model_output(span)) if kind == "llm" else (question_of(span), _answer_of(span))


def may_hold_question(spans: Iterable[RecordedSpan], names: Set[str]) -> bool:
    """Whether any of the spans, which have attributes of these names, may hold a question."""
    return not names.isdisjoint((_NUMBERED, *_ASKED)) or any(span.events for span in spans)


def parsed(value: Any) -> Any:
    """Decode a JSON object or list; return any other text, or one nested too deep, unchanged."""
    if isinstance(value, str) and value[:1] in {"{", "["}:
        return json_or_text(value)
    return value


def model_output(span: RecordedSpan) -> Any:
    """The output of a model: an attribute, or in old conventions an event."""
    attributes = span.attributes
    for key in (semconv.OUTPUT_MESSAGES, semconv.ANSWER_TEXT):
        if attributes.get(key) is not None:
            return parsed(attributes[key])
    choices = _choices(span)
    if choices:
        return parsed(next((choices[-1][key] for key in _MESSAGES if key in choices[-1]), None))
    output = _first(attributes, _OUTPUTS[3:])
    no_text = semconv.ANSWER_ROLE in attributes and isinstance(output, str)  # "assistant: " of LlamaIndex
    return None if no_text else output


def first_question(requests: Iterable[RecordedSpan]) -> str | None:
    """The question of the first model request that has one, which is a text."""
    for span in requests:
        attributes = span.attributes
        if "embeddings" in (attributes.get(semconv.OPERATION), attributes.get(semconv.REQUEST_TYPE)):
            continue
        question = question_of(span)
        if isinstance(question, str) and question.strip():
            return question
    return None


def question_of(span: RecordedSpan) -> Any:
    """Return the input of a span."""
    attributes = span.attributes
    if _NUMBERED in attributes and (numbered := _numbered_messages(attributes)) is not None:
        return question_in(numbered)
    for _, value in _values(attributes, _ASKED):
        question = question_in(_alone(value))
        if question is not None:
            return question
    return question_in([{"role": "user", "content": text} for text in _event_texts(span, _USER)] or None)


def _answer_of(span: RecordedSpan) -> Any:
    for key, value in _values(span.attributes, _ANSWERED):
        answer = value if key == semconv.FINAL_RESULT else answer_in(_alone(value))
        if answer is not None:
            return answer
    texts = [*_event_texts(span, _CHOICE)]
    return answer_in([{"role": "assistant", "content": texts[-1]}]) if texts else None


def parts_left_out(spans: Iterable[RecordedSpan]) -> Iterator[TraceProblem]:
    """Name the parts of messages that are no text, and calls with more documents than are read.

    Requests repeat the messages, so the most of one span count.
    """
    most, cut = Counter[str](), list[TraceProblem]()
    for span in spans:
        attributes = span.attributes
        if not _WITH_PARTS.isdisjoint(attributes):
            for key in _WITH_PARTS & attributes.keys():
                value = attributes[key]
                if not isinstance(value, str) or UNREAD_TYPE.search(value):
                    most |= unread_parts(_decoded(attributes, key))
        if not _BEYOND.isdisjoint(attributes):
            what = f"documents after the first {semconv.MOST_DOCUMENTS} that it returned are left out"
            cut.append(TraceProblem(kind="unread_documents", span=span.id, what=what))
    yield from unread_problems(most)
    yield from cut


def arguments_of(span: RecordedSpan) -> Any:
    """The arguments of a tool call."""
    attributes = span.attributes
    if semconv.INPUT_MESSAGES in attributes:
        for part in _parts(attributes[semconv.INPUT_MESSAGES], "tool_call"):
            return parsed(part.get("arguments"))
    stated = _first(attributes, _ARGUMENTS)
    return next(_event_texts(span, _TOOL), None) if stated is None and span.events else stated


def with_requested_arguments(spans: Sequence[RecordedSpan]) -> None:
    """Give calls without recorded arguments those of the model's latest request with their id and tool.

    Args:
        spans: Of one trace, by start; changed.
    """
    without = {
        index
        for index, span in enumerate(spans)
        if span.kind == "tool"
        and semconv.CALL_ID in span.attributes
        and span.attributes.keys().isdisjoint(_ARGUMENTS)
        and arguments_of(span) is None
    }
    requested: dict[Any, Any] = {}
    for index, span in enumerate(spans if without else ()):
        if span.kind == "llm":
            for part in _requested(span):
                requested[str(part.get("id")), str(part.get("name"))] = part.get("arguments")
        elif index in without:
            call = str(span.attributes[semconv.CALL_ID]), str(span.attributes.get(semconv.TOOL))
            if (arguments := requested.get(call)) is not None:
                span.attributes[semconv.ARGUMENTS] = arguments


def not_recorded(spans: Sequence[RecordedSpan]) -> str | None:
    """What the instrumentation of a trace does not record: calls that models request, or arguments."""
    calls = [span for span in spans if span.kind == "tool"]
    if calls:
        return None if any(arguments_of(span) is not None for span in calls) else NO_ARGUMENTS
    if any(semconv.TOOL in span.attributes for span in spans):
        return None
    requests = (span for span in spans if span.kind == "llm")
    names = (str(part.get("name", "")) for span in requests for part in _requested(span))
    return NO_CALLS if any(not name.startswith(_FINAL) for name in names) else None


def _requested(request: RecordedSpan) -> Iterator[JsonObject]:
    """The tool calls that the answer to a model request holds."""
    return _parts(request.attributes.get(semconv.OUTPUT_MESSAGES), "tool_call")


def _result(span: RecordedSpan) -> Any:
    attributes = span.attributes
    if documents := list(_numbered_documents(attributes)):
        whole = _first(attributes, _RESULT)  # LangChain's ids are only here
        listed = whole.get("documents") if isinstance(whole, dict) else None
        return listed if isinstance(listed, list) and len(listed) == len(documents) else documents
    if semconv.OUTPUT_MESSAGES in attributes:
        for part in _parts(attributes[semconv.OUTPUT_MESSAGES], "tool_call_response"):
            return parsed(part.get("response", part.get("result")))
    stated = _first(attributes, _RESULT)
    if stated is not None or not span.events:
        return stated
    return next(map(texts_of, _event_texts(span, _CHOICE)), None)


def _first(attributes: Mapping[str, Any], keys: Sequence[str]) -> Any:
    for key in keys:
        if key in attributes and (value := _decoded(attributes, key)) is not None:
            return value
    return None


def _values(attributes: Mapping[str, Any], keys: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """The keys and the values of attributes, decoded from JSON."""
    for key in keys:
        if key in attributes and (value := _decoded(attributes, key)) is not None:
            yield key, value


def _decoded(attributes: Mapping[str, Any], key: str) -> Any:
    value = attributes[key]
    quoted = key in _QUOTED or (key in _TYPES and attributes.get(_TYPES[key]) == "application/json")
    return json_or_text(value) if quoted and isinstance(value, str) else parsed(value)


def _numbered_messages(attributes: Mapping[str, Any]) -> list[JsonObject] | None:
    """The messages of a request of which each has attributes of its own; None if there are too many."""
    messages: list[JsonObject] = []
    for index in range(semconv.MOST_MESSAGES):
        role = attributes.get(f"{semconv.MESSAGE_ROLE} {index}")
        if role is None:
            return messages
        messages.append({"role": role, "content": attributes.get(f"{semconv.MESSAGE_TEXT} {index}")})
    return None


def _numbered_documents(attributes: Mapping[str, Any]) -> Iterator[JsonObject]:
    """The documents of a retriever or a reranker, of which each part has an attribute of its own."""
    for names in _DOCUMENTS:
        if names.keys().isdisjoint(attributes):
            return
        document = {part: attributes[name] for name, part in names.items() if name in attributes}
        yield {part: parsed(value) if part == "metadata" else value for part, value in document.items()}


def _event_texts(span: RecordedSpan, name: str) -> Iterator[Any]:
    for event, attributes in span.events or ():
        if event == name:
            yield from (parsed(attributes[key]) for key in _MESSAGES if key in attributes)


def _parts(messages: Any, kind: str) -> Iterator[JsonObject]:
    """The parts of a kind in messages of the GenAI conventions."""
    for message in dicts(parsed(messages)):
        yield from (part for part in dicts(message.get("parts")) if part.get("type") == kind)


def _alone(value: Any) -> Any:
    """The question or the answer that an object of a framework holds beside other fields."""
    while isinstance(value, dict):
        others = value.keys() - _BESIDE
        if len(others) != 1:
            return value
        (key,) = others
        if len(value) == 1 and key not in _HOLDERS:
            return value
        value = value[key] or None
    return value


def _choices(span: RecordedSpan) -> list[JsonObject]:
    """The answers of a model that are events of its span, or that an attribute lists as events."""
    choices = [attributes for name, attributes in span.events or () if name == _CHOICE]
    if choices or semconv.MESSAGE_EVENTS not in span.attributes:
        return choices
    parts = parsed(span.attributes[semconv.MESSAGE_EVENTS])
    return [event for event in dicts(parts) if event.get("event.name") == _CHOICE]
