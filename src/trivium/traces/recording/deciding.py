"""Deciding where what is recorded goes, and messages."""

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from trivium.errors import InputError
from trivium.jsonable import plain_text
from trivium.traces.recording.collecting import collector
from trivium.traces.recording.configuring import Recording, recording
from trivium.traces.recording.file import FileSink
from trivium.traces.recording.live import Above, LiveSpan, Tape
from trivium.traces.trace import Message, SpanKind

CURRENT: ContextVar[Above | None] = ContextVar("trivium_span", default=None)


class _Files:
    """The file of this process, for the settings in force."""

    recording: Recording | None = None
    sink: FileSink | None = None


class Heard:
    """How to find the span of OpenTelemetry that is open here; set where one is listened to."""

    here: Callable[[], Above | None] | None = None


def innermost() -> Above | None:
    """The span that is open here, of our own or of OpenTelemetry's: of two the one that began later."""
    own = CURRENT.get()
    heard = None if Heard.here is None else Heard.here()
    if own is None or heard is None:
        return own or heard
    return own if own.number > heard.number else heard


def tape_of(above: Above | None) -> Tape | None:
    """The tape that a new span or message goes to; None when nothing is recorded."""
    collecting = collector()
    if collecting is not None:
        # A block that collects begins a trace of its own, whatever is open around it.
        return collecting.tape
    if above is not None and above.tape is not None:
        return above.tape
    settings = recording()
    if settings.folder is None:
        return None
    if _Files.recording is not settings or _Files.sink is None:
        _Files.sink, _Files.recording = FileSink(settings), settings
    return Tape(_Files.sink, None if above is None else above.trace_id)


def begin(kind: SpanKind, name: str, agent: str | None) -> LiveSpan | None:
    """A new span below the one that is open here, or None when nothing is recorded."""
    above = innermost()
    tape = tape_of(above)
    if tape is None:
        return None
    return LiveSpan(tape, kind, name, above if _within(above, tape) else None, agent)


def _within(above: Above | None, tape: Tape) -> bool:
    """Whether a span is of the trace of a tape, and not of one around the block that collects."""
    return above is not None and (above.tape is None or above.tape is tape)


def _at_work(above: Above | None) -> str | None:
    """The agent that is at work in a span."""
    while above is not None and above.agent is None:
        above = above.parent
    return None if above is None else above.agent


def message(
    receiver: str,
    content: Any = None,
    *,
    sender: str | None = None,
    type: str = "task_request",  # noqa: A002
) -> None:
    """Say what one agent sends another.

    Args:
        receiver: Who it is for.
        content: What is sent, any value.
        sender: Who sends it; the agent that is at work when not given.
        type: task_request, result_delivery, data_transfer, coordination, status_update, handoff, or a word
            of the suite's own (spec: metrics, T3.8).

    Raises:
        InputError: If no sender is given and no agent is at work.
    """
    from time import time

    above = innermost()
    tape = tape_of(above)
    if tape is None:
        return
    span = above if _within(above, tape) else None
    known = _at_work(span) if sender is None else plain_text(sender)
    if not known:
        raise InputError("sender", "is missing, and no agent is at work that could be it")
    made = tape.sink.content
    as_text: list[str] = []
    told = None if made is None else made.value(content, as_text)
    tape.sink.told(
        tape.trace_id,
        Message(
            sender=known, receiver=plain_text(receiver), type=plain_text(type), time=time(), content=told
        ),
        span,
        as_text,
    )
