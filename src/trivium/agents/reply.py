"""From what an agent sent back to a Reply."""

import json
from collections.abc import Mapping
from typing import Any, NoReturn

import msgspec

from trivium.agents.adapter import AgentFailure, Reply
from trivium.agents.attempt import TRACE_LEFT_OUT, Attempt, Usage
from trivium.agents.failing import shown
from trivium.errors import TraceError
from trivium.suites.door import clean
from trivium.traces.native import native_trace

FIELDS = ("output", "trace", "usage", "reward", "error", "seconds", "metadata")
"""The fields of an Attempt that an agent may fill."""

NOTHING = "nothing came back"
"""Why an attempt failed that has neither output nor trace nor reward."""


class _Said(msgspec.Struct, frozen=True, kw_only=True):
    """The fields as they come from outside; the trace is read on its own."""

    output: Any = None
    trace: Any = None
    usage: Usage | None = None
    reward: float | None = None
    error: str | None = None
    seconds: float | None = None
    metadata: dict[str, Any] = {}


def read_reply(value: Any) -> Reply:
    """What an agent means by what it sent back.

    An :class:`~trivium.agents.attempt.Attempt` is taken field by field; its case and repeat are not. A JSON
    object with the key ``output``, or with a text under ``error``, holds fields of an Attempt; what else is
    in it is kept as metadata. Anything else is the output itself.

    A trace that cannot be read costs the trace, not the output: the flag ``trace_left_out`` says so.

    Raises:
        AgentFailure: When a field is of the wrong type.
    """
    if isinstance(value, Attempt):
        reply = Reply(**{name: getattr(value, name) for name in FIELDS}, flags=value.flags)
        return reply if reply.trace is None else _with_trace(reply, reply.trace)
    if isinstance(value, Mapping) and ("output" in value or isinstance(value.get("error"), str)):
        return _from_fields(value)
    return Reply(output=value)


def decode_json(content: bytes) -> Any:
    """A JSON value of any origin.

    Raises:
        AgentFailure: When it is broken.
    """
    try:
        return msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    try:  # the slower reader accepts lone surrogates, which are mended later on
        return json.loads(content, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise AgentFailure(f"the answer is no valid JSON: {error}") from error


def _no_number(word: str) -> NoReturn:
    raise ValueError(f"{word} is no JSON")


def _from_fields(value: Mapping[Any, Any]) -> Reply:
    fields = {name: value[name] for name in FIELDS if name in value}
    if fields.get("metadata") is None:
        fields["metadata"] = {}
    try:
        said = msgspec.convert(fields, _Said)
    except msgspec.ValidationError as error:
        raise AgentFailure(f"the answer has a field of the wrong type: {error}") from error
    more = {str(key): value[key] for key in value if key not in FIELDS}
    reply = Reply(
        output=said.output,
        usage=said.usage,
        reward=said.reward,
        error=said.error,
        seconds=said.seconds,
        metadata=more | said.metadata,
    )
    return reply if said.trace is None else _with_trace(reply, said.trace)


def _with_trace(reply: Reply, raw: Any) -> Reply:
    """The reply with its trace normalised, or with the reason why it is left out."""
    flags: tuple[str, ...] = ()
    try:
        trace = native_trace(raw)
        try:
            msgspec.json.encode(trace)  # what cannot be stored is found here, not when it is stored
        except UnicodeEncodeError:
            raw, flags = clean(msgspec.to_builtins(trace))
            trace = native_trace(raw)
    except (TraceError, TypeError, ValueError, RecursionError) as error:
        return msgspec.structs.replace(
            reply,
            trace=None,
            flags=(*reply.flags, TRACE_LEFT_OUT),
            metadata=reply.metadata | {"trace_error": shown(str(error))},
        )
    return msgspec.structs.replace(reply, trace=trace, flags=(*reply.flags, *flags))
