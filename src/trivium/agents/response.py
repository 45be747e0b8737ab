"""Parses and sanitises what an agent returned.

An agent may return anything. The result is a JSON value of bounded size and depth whose texts contain no lone
surrogates and no NUL. Secrets stay in it while it is scored; :func:`masked` hides them wherever it is stored
or shown.
"""

import dataclasses
import json
import logging
import math
import numbers
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from functools import partial
from typing import Any, NoReturn

import msgspec

from trivium.agents.attempt import TRACE_LEFT_OUT, AgentFailure, AgentResponse, Attempt, ChatMessage
from trivium.agents.failures import shown
from trivium.errors import TraceError, suggest
from trivium.masking import OutputMasker
from trivium.safe_text import sanitise
from trivium.traces.conversation import answer_in
from trivium.traces.native import native_trace
from trivium.traces.trace import TASK_REQUEST, Trace

log = logging.getLogger(__name__)

FIELDS = ("output", "trace", "usage", "reward", "error", "seconds", "metadata")
"""The fields of an Attempt that an agent may set."""

NOTHING = "nothing came back"
"""Error of an attempt without output, trace and reward."""


def parse_response(value: Any) -> AgentResponse:
    """Parse what an agent returned.

    An :class:`~trivium.agents.attempt.Attempt` is copied field by field, except case and repeat. A JSON
    object with the key ``output``, or with a text under ``error``, has the fields of an Attempt; its other
    keys become metadata. Any other value is the output itself.

    A trace that cannot be read is left out, with the flag ``trace_left_out``; the output remains.

    Raises:
        AgentFailure: If a field has the wrong type.
    """
    if isinstance(value, Attempt):
        return _from_attempt(value)
    if isinstance(value, Mapping) and ("output" in value or isinstance(value.get("error"), str)):
        return _from_fields(value)
    return AgentResponse(output=value)


ANSWER_FIELDS = (
    "answer",
    "response",
    "text",
    "content",
    "result",
    "completion",
    "reply",
    "message",
    "output_text",
    "generated_text",
)
"""Names under which endpoints return their text, where it is not ``output``."""

RESULT_FIELDS = ("raw", "output", "final_output", "response")
"""Attributes with the text in results of CrewAI, PydanticAI, the OpenAI Agents SDK and LlamaIndex."""

_STRUCTURED = {"all_messages": "output", "new_items": "final_output"}
"""Attributes that only results of PydanticAI and the OpenAI Agents SDK have, and that of their output."""

_THOUGHTS = {"reasoning", "rationale", "trajectory", "history"}
"""Fields that modules of DSPy add to those of the answer."""


class AnswerFinder:
    """Finds the output in the object that an agent returned, and logs once where it was found.

    The text is that of the last message of the assistant under ``messages`` (LangGraph) or of a message of
    LangChain, or the only text under a known name. Of a prediction of DSPy the output is its only field apart
    from reasoning, or an object of several.

    Args:
        agent: Name of the agent, for the message.
        names: Keys of a mapping under which it may be.
    """

    def __init__(self, agent: str, names: Sequence[str] = ()) -> None:
        self._agent, self._names = agent, names
        self._said: set[str] = set()

    def find(self, value: Any) -> tuple[str, Any] | None:
        """The name under which the output is, and the output; None if it is all of the value, or unclear."""
        found = _answer(value, self._names)
        if found is not None and found[0] not in self._said:
            self._said.add(found[0])
            log.warning('%s answers with an object: its "%s" is the output', self._agent, found[0])
        if found is None and self._names and _is_without_output(value) and "" not in self._said:
            self._said.add("")
            near = next(filter(None, (suggest(str(key), ("output", *self._names)) for key in value)), "")
            keys = ", ".join(map(shown, map(str, value)))[:200]
            log.warning(
                '%s answers with an object without "output": all of it is the output. Its keys: %s.%s '
                "The setting agent.output names one.",
                *(self._agent, keys, near),
            )
        is_whole = found is None and not self._names and _is_without_output(value)
        if is_whole and "" not in self._said and (meant := _answer(value, ANSWER_FIELDS)):
            self._said.add("")
            log.warning(
                '%s returns an object without "output": all of it is the output. If its "%s" is the answer, '
                'return that alone or call it "output".',
                *(self._agent, meant[0]),
            )
        return found


def _is_without_output(value: Any) -> bool:
    return isinstance(value, Mapping) and "output" not in value and not isinstance(value.get("error"), str)


def _answer(value: Any, names: Sequence[str]) -> tuple[str, Any] | None:
    if value is None or isinstance(value, str | list | tuple | numbers.Number | Attempt | Enum | type):
        return None
    is_mapping = isinstance(value, Mapping)
    if is_mapping and not _is_without_output(value):
        return None
    if not is_mapping and (fields := _of_prediction(value)):
        return next(iter(fields.items())) if len(fields) == 1 else (", ".join(fields), fields)
    get = value.get if is_mapping else partial(_attribute, value)
    for name, messages in (("messages", get("messages")), ("content", [value])):
        if get(name) and isinstance(messages, list | tuple) and (text := _last_answer(messages)):
            return name, text
    texts = [
        (name, text)
        for name in (names if is_mapping else RESULT_FIELDS)
        if (text := _text(get(name))) is not None
    ]
    if len(texts) == 1 or is_mapping:
        return texts[0] if len(texts) == 1 else None
    structured = (name for mark, name in _STRUCTURED.items() if get(mark))
    return next(((name, given) for name in structured if (given := get(name)) is not None), None)


def _of_prediction(value: Any) -> dict[str, Any]:
    """The fields of a ``dspy.Prediction`` without the thoughts before the answer; empty for any other."""
    as_dict = _attribute(value, "toDict")
    if not callable(as_dict) or not hasattr(type(value), "completions"):
        return {}
    fields = as_dict()
    return {key: fields[key] for key in fields if key not in _THOUGHTS} or fields


def _last_answer(messages: Sequence[Any]) -> str | None:
    """The text of the last message of the assistant; messages may be objects."""
    fields = ("role", "type", "content")
    found = answer_in(
        [m if isinstance(m, Mapping) else {key: _attribute(m, key) for key in fields} for m in messages]
    )
    return found if isinstance(found, str) else None


def _text(given: Any) -> str | None:
    """A text, or that of a message of LlamaIndex."""
    content = given if isinstance(given, str | Mapping) else _attribute(given, "content")
    return content if isinstance(content, str) else None


def _attribute(value: Any, name: str) -> Any:
    try:
        return getattr(value, name, None)
    except Exception:  # a property of the user's
        return None


def decode_json(content: bytes) -> Any:
    """Decode untrusted JSON.

    Raises:
        AgentFailure: If it is invalid.
    """
    try:
        return msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    try:  # the slower decoder accepts lone surrogates, which are replaced later
        return json.loads(content, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise AgentFailure(f"the answer is no valid JSON: {error}") from error


def _no_number(word: str) -> NoReturn:
    raise ValueError(f"{word} is no JSON")


def _from_attempt(value: Attempt) -> AgentResponse:
    """The fields of an attempt; Python lets an agent put anything into them."""
    fields = {name: getattr(value, name) for name in FIELDS if name not in {"output", "trace"}}
    for name in ("reward", "seconds"):  # numbers of other libraries
        if isinstance(fields[name], numbers.Real):
            fields[name] = float(fields[name])
    response = _from_fields(fields, from_attributes=True)
    if not isinstance(value.flags, tuple) or not all(isinstance(flag, str) for flag in value.flags):
        raise AgentFailure(f"the answer has a field of the wrong type: flags are {shown(repr(value.flags))}")
    response = msgspec.structs.replace(response, output=value.output, flags=value.flags)
    return response if value.trace is None else _with_trace(response, value.trace)


def _from_fields(value: Mapping[Any, Any], *, from_attributes: bool = False) -> AgentResponse:
    fields = {name: value[name] for name in FIELDS if name in value}
    trace = fields.pop("trace", None)
    if fields.get("metadata") is None:
        fields["metadata"] = {}
    try:
        parsed = msgspec.convert(fields, AgentResponse, from_attributes=from_attributes)
    except msgspec.ValidationError as error:
        raise AgentFailure(f"the answer has a field of the wrong type: {error}") from error
    more = {str(key): value[key] for key in value if key not in FIELDS}
    response = msgspec.structs.replace(parsed, metadata=more | parsed.metadata)
    return response if trace is None else _with_trace(response, trace)


def _with_trace(response: AgentResponse, raw: Any) -> AgentResponse:
    """Add the normalised trace to a response, or the reason why it is left out."""
    flags: tuple[str, ...] = ()
    try:
        trace = native_trace(raw)
        try:
            msgspec.json.encode(trace)  # fail here rather than when the trace is stored
        except UnicodeEncodeError:
            raw, flags = sanitise(msgspec.to_builtins(trace))
            trace = native_trace(raw)
    except (TraceError, TypeError, ValueError, RecursionError) as error:
        return msgspec.structs.replace(
            response,
            trace=None,
            flags=(*response.flags, TRACE_LEFT_OUT),
            metadata=response.metadata | {"trace_error": shown(str(error))},
        )
    return msgspec.structs.replace(response, trace=trace, flags=(*response.flags, *flags))


OUTPUT = "output"

SECRETS_MASKED = "secrets_masked"
"""Flag of an attempt that surely contains a secret (see ``trivium.masking``). Metrics score the original
output; :func:`masked` hides the secret in everything that is stored, shown or sent to a judge."""

_masker = OutputMasker()

DEEPEST = 200
"""Most levels of nesting in an output; JSON libraries fail only at far more."""


def sanitise_output(output: Any, *, limit: int, noun: str = OUTPUT) -> tuple[Any, tuple[str, ...]]:
    """Convert an output, or another value that user code returned, to sanitised, bounded JSON.

    Dataclasses, msgspec and pydantic records become objects, enums their values, tuples and arrays lists,
    numbers of other libraries plain numbers.

    Args:
        output: The returned value.
        limit: Largest size in bytes, of a text in UTF-8 or of any other value as JSON.
        noun: Name of the value in error messages.

    Returns:
        The sanitised JSON value, and flags for what was changed.

    Raises:
        AgentFailure: If the value is too large, too deep, or not a JSON value.
    """
    plain = _plain(output, noun, 0, _ByteBudget(limit, noun))
    value, flags = sanitise(plain)
    size = len(value.encode()) if isinstance(value, str) else len(msgspec.json.encode(value))
    if size > limit:
        raise too_large(limit, noun)
    return value, tuple(flags)


def too_large(limit: int, noun: str = OUTPUT) -> AgentFailure:
    """Make the failure for an output, or another value, that exceeds its limit."""
    setting = " (limits.output_bytes)" if noun == OUTPUT else ""
    return AgentFailure(f"the {noun} is larger than {limit:,} bytes{setting}")


def secret_flags(output: Any, metadata: Mapping[str, Any], trace: Trace | None) -> tuple[str, ...]:
    """The flag ``secrets_masked`` if an attempt with these fields holds a secret."""
    held = masked_value(output) != output or masked_value(metadata) != metadata
    return (SECRETS_MASKED,) if held or (trace is not None and _masked_trace(trace) != trace) else ()


def masked(attempt: Attempt) -> Attempt:
    """An attempt as it may be stored and shown: the same if it is not flagged as holding a secret."""
    if SECRETS_MASKED not in attempt.flags:
        return attempt
    return msgspec.structs.replace(
        attempt,
        output=masked_value(attempt.output),
        metadata=masked_value(attempt.metadata),
        trace=None if attempt.trace is None else _masked_trace(attempt.trace),
        messages=msgspec.convert(
            masked_value(msgspec.to_builtins(list(attempt.messages))), tuple[ChatMessage, ...]
        ),
    )


def masked_value(value: Any) -> Any:
    """Mask the certain secrets in a JSON value; the same object if it holds none."""
    return _masker.value(value)


def _masked_trace(trace: Trace) -> Trace:
    if not _masker.any_may_hold_a_secret(msgspec.to_builtins(_texts_of(trace), str_keys=True)):
        return trace
    plain, _ = sanitise(msgspec.to_builtins(trace, str_keys=True))
    value = msgspec.json.decode(msgspec.json.encode(plain))
    hidden = masked_value(value)
    return trace if hidden == value else msgspec.convert(hidden, Trace)


def _texts_of(trace: Trace) -> list[Any]:
    """All that may hold a text in a trace; names and ids, which recur, once."""
    names: set[str | None] = {trace.trace_id}
    found: list[Any] = [names, trace.problems, trace.metadata]
    for span in trace.spans:
        names.update((span.id, span.name, span.parent, span.agent))
        if span.attributes or span.input is not None or span.output is not None:
            found += (span.input, span.output, span.attributes)
    for message in trace.messages:
        names.update((message.sender, message.receiver, message.type))
        if message.content is not None:
            found.append(message.content)
    names.discard(TASK_REQUEST)  # it holds "sk_", as API keys do, which a slow pattern would look at
    return found


class _ByteBudget:
    """Counts down the bytes that a value may have as JSON.

    A value that refers to one object a million times is small in memory, but large as JSON.
    """

    def __init__(self, limit: int, noun: str) -> None:
        self.limit = limit
        self.noun = noun
        self.left = limit

    def take(self, size: int) -> None:
        self.left -= size
        if self.left < 0:
            raise too_large(self.limit, self.noun)


def _plain(value: Any, path: str, depth: int, budget: _ByteBudget) -> Any:
    """Convert a value to plain JSON types; recursion is bounded by ``DEEPEST``."""
    if value is None or isinstance(value, bool):
        budget.take(1)
        return value
    if isinstance(value, Enum):
        return _plain(value.value, path, depth, budget)
    if isinstance(value, str):
        budget.take(len(value))
        return str.__str__(value)
    if isinstance(value, numbers.Real):
        budget.take(1)
        return _number(value, path)
    if depth >= DEEPEST:
        raise AgentFailure(f"the {budget.noun} is nested deeper than {DEEPEST} levels")
    if isinstance(value, list | tuple):
        budget.take(2)
        return [_plain(item, f"{path}[{place}]", depth + 1, budget) for place, item in enumerate(value)]
    as_list: Callable[[], Any] | None = getattr(value, "tolist", None)
    if callable(as_list) and not isinstance(value, type):  # arrays, and numbers that are not a Real
        return _plain(as_list(), path, depth + 1, budget)
    fields = _fields(value, path)
    budget.take(2)
    return {
        _key(key, path, budget): _plain(item, f"{path}.{key}", depth + 1, budget)
        for key, item in fields.items()
    }


def _number(value: numbers.Real, path: str) -> int | float:
    if isinstance(value, numbers.Integral):
        return int(value)
    number = float(value)
    if not math.isfinite(number):
        raise AgentFailure(f"{_where(path)} is {number}, which JSON does not have")
    return number


def _key(key: Any, path: str, budget: _ByteBudget) -> str:
    if isinstance(key, bool) or not isinstance(key, str | int):
        raise AgentFailure(f"{_where(path)} has a key of type {type(key).__name__}; JSON has texts only")
    text = str.__str__(key) if isinstance(key, str) else str(int(key))
    budget.take(len(text))
    return text


def _fields(value: Any, path: str) -> Mapping[Any, Any]:
    """Return the fields of a mapping, dataclass, msgspec struct or pydantic model."""
    if isinstance(value, Mapping):
        return value
    if not isinstance(value, type):
        if dataclasses.is_dataclass(value):
            return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        if isinstance(value, msgspec.Struct):
            return msgspec.structs.asdict(value)
        dump: Callable[..., Any] | None = getattr(value, "model_dump", None)
        if callable(dump):
            dumped = dump(mode="json")
            if isinstance(dumped, Mapping):
                return dumped
    raise AgentFailure(
        f"{_where(path)} is {_kind(value)}, which is no JSON value; expected a text or a JSON value"
    )


def _where(path: str) -> str:
    return path if "." in path or "[" in path else f"the {path}"


def _kind(value: Any) -> str:
    name = type(value).__name__
    return f"{'an' if name[:1] in 'aeiouAEIOU' else 'a'} {name}"
