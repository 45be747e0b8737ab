"""What Opik keeps of an attempt: a trace, its spans and its feedback scores."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any
from uuid import UUID

from trivium.traces.opentelemetry.recorded import NANOSECONDS
from trivium.traces.trace import Span
from trivium.traces.writers.clock import Clock, clock_of
from trivium.traces.writers.told import Told

_TYPES = {"tool": "tool", "llm": "llm"}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def attempt_records(told: Told, *, project: str, begun: float) -> Iterator[tuple[str, dict[str, Any]]]:
    """The records of an attempt, each with the kind it is of: ``traces``, ``spans`` or ``scores``.

    Args:
        told: The attempt with its scores.
        project: Name of the project that it goes to.
        begun: Unix time that stands for what has no time of its own, seconds.
    """
    clock = clock_of(told.trace, told.begun)
    usual = round(begun * NANOSECONDS)
    first = min((at for span in told.trace.spans if (at := clock.at(span.start)) is not None), default=usual)
    trace_id = uuid7(first, told.key)
    yield "traces", _trace(told, trace_id, first, clock) | {"project_name": project}
    ids = {
        span.id: uuid7(clock.at(span.start) or first, f"{told.key}\0{span.id}") for span in told.trace.spans
    }
    for span in told.trace.spans:
        its = _span(span, clock, first)
        parent = None if span.parent is None else ids[span.parent]
        place = {"id": ids[span.id], "trace_id": trace_id, "parent_span_id": parent, "project_name": project}
        yield "spans", its | place
    for _, fields in told.events:
        value = fields.get("gen_ai.evaluation.score.value")
        if value is not None:
            yield (
                "scores",
                {
                    "id": trace_id,
                    "project_name": project,
                    "name": fields["gen_ai.evaluation.name"],
                    "value": value,
                    "category_name": fields["gen_ai.evaluation.score.label"],
                    "reason": fields.get("gen_ai.evaluation.explanation"),
                    "source": "sdk",
                },
            )


def uuid7(moment: int, key: str) -> str:
    """An id of Opik's kind (RFC 9562, version 7) that depends on a time and a key alone.

    Args:
        moment: Nanoseconds since 1970.
        key: What it is of.
    """
    milliseconds = max(0, moment // 10**6) % 2**48
    rest = sha256(key.encode()).digest()
    marked = bytes((0x70 | rest[0] & 0x0F, rest[1], 0x80 | rest[2] & 0x3F))
    return str(UUID(bytes=milliseconds.to_bytes(6, "big") + marked + rest[3:10]))


def _trace(told: Told, trace_id: str, first: int, clock: Clock) -> dict[str, Any]:
    ends = [at for span in told.trace.spans if (at := clock.at(span.end)) is not None]
    seconds = told.seconds or 0.0
    last = max(ends) if ends else first + round(seconds * NANOSECONDS)
    return {
        "id": trace_id,
        "name": told.name,
        "start_time": _moment(first),
        "end_time": _moment(max(first, last)),
        "input": {"input": told.input},
        "output": {"output": told.output},
        "metadata": {**told.resource, **told.attributes, "trivium.clock": clock.since},
        "tags": ["trivium"],
        "error_info": None if told.error is None else _error(told.error),
        "source": "sdk",
    }


def _span(span: Span, clock: Clock, first: int) -> dict[str, Any]:
    start, end = clock.at(span.start), clock.at(span.end)
    record: dict[str, Any] = {
        "name": span.name,
        "type": _TYPES.get(span.kind, "general"),
        "start_time": _moment(first if start is None else start),
        "end_time": None if end is None else _moment(end),
        "input": None if span.input is None else {"input": span.input},
        "output": None if span.output is None else {"output": span.output},
        "metadata": {**span.attributes, "trivium.kind": span.kind, "trivium.agent": span.agent},
        "error_info": _error(span.attributes.get("error")) if span.ok is False else None,
        "source": "sdk",
    }
    if span.kind == "llm":
        record["model"] = span.name
    if span.usage is not None:
        tokens = {
            "prompt_tokens": span.usage.input_tokens,
            "completion_tokens": span.usage.output_tokens,
        }
        known = {key: number for key, number in tokens.items() if number is not None}
        if known:
            record["usage"] = known | {"total_tokens": sum(known.values())}
        if span.usage.cost_usd is not None:
            record["total_estimated_cost"] = span.usage.cost_usd
    return record


def _error(message: Any) -> dict[str, str]:
    """Opik wants a traceback; what failed elsewhere has none here."""
    text = message if isinstance(message, str) else "it failed"
    return {"exception_type": "Error", "message": text, "traceback": ""}


def _moment(nanoseconds: int) -> datetime:
    return _EPOCH + timedelta(microseconds=nanoseconds // 1000)
