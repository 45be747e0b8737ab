"""Deciding where what is recorded goes, and messages."""

from contextvars import ContextVar
from typing import Any

from trivium.errors import InputError
from trivium.jsonable import plain_text
from trivium.traces.recording.collecting import collector
from trivium.traces.recording.configuring import Recording, recording
from trivium.traces.recording.file import FileSink
from trivium.traces.recording.live import LiveSpan, Tape
from trivium.traces.trace import Message, SpanKind

CURRENT: ContextVar[LiveSpan | None] = ContextVar("trivium_span", default=None)


class _Files:
    """The file of this process, for the settings in force."""

    recording: Recording | None = None
    sink: FileSink | None = None


def new_tape() -> Tape | None:
    """The tape of a span that has none above it; None when nothing is recorded."""
    collecting = collector()
    if collecting is not None:
        return collecting.tape
    settings = recording()
    if settings.folder is None:
        return None
    if _Files.recording is not settings or _Files.sink is None:
        _Files.sink, _Files.recording = FileSink(settings), settings
    return Tape(_Files.sink)


def tape_of(parent: LiveSpan | None) -> Tape | None:
    """The tape that a new span or message goes to."""
    if parent is None:
        return new_tape()
    collecting = collector()
    # A block that collects begins a trace of its own, whatever is open around it.
    return parent.tape if collecting is None or parent.tape.sink is collecting else collecting.tape


def begin(kind: SpanKind, name: str, agent: str | None) -> LiveSpan | None:
    """A new span below the one that is open here, or None when nothing is recorded."""
    parent = CURRENT.get()
    tape = tape_of(parent)
    if tape is None:
        return None
    if parent is not None and parent.tape is not tape:
        parent = None
    return LiveSpan(tape, kind, name, parent, agent)


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

    span = CURRENT.get()
    tape = tape_of(span)
    if tape is None:
        return
    known = plain_text(sender) if sender is not None else span.agent if span is not None else None
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
        span if span is not None and span.tape is tape else None,
        as_text,
    )
