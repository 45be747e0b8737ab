"""Outlines: as much of a record as a summary needs; the rest is skipped where it is read."""

from typing import Any

import msgspec

from trivium.metrics.composite import Composite
from trivium.metrics.score import Status, Tier
from trivium.traces.trace import Message, Span, SpanKind, Trace


class CaseOutline(msgspec.Struct, frozen=True, kw_only=True):
    """As much of a case as tells its cluster."""

    id: str
    group: str | None = None


class _Detail(msgspec.Struct, frozen=True, gc=False):
    shown: Any = None


class ScoreOutline(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A score without its name, which is its key, and with as much of its detail as a summary needs.

    Fields are those of a Score.
    """

    tier: Tier
    value: float | None = None
    status: Status = "ok"
    raw: Any = None
    reason: str | None = None
    method: str | None = None
    missing: bool = False
    detail: _Detail = _Detail()

    @property
    def shown(self) -> Any:
        """See :attr:`Score.shown`."""
        return self.detail.shown


class Outline(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An evaluation without details. Fields are those of an Evaluation."""

    case: str
    repeat: int
    scores: dict[str, ScoreOutline]
    composite: Composite
    passed: bool | None = None
    failed: str | None = None


class _Marks(msgspec.Struct, frozen=True):
    handoff: Any = None


class _SpanOutline(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    kind: SpanKind
    name: str
    agent: str | None = None
    start: float | None = None
    end: float | None = None
    ok: bool | None = True
    attributes: _Marks = _Marks()


class _MessageOutline(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    sender: str
    receiver: str
    type: str = "task_request"
    time: float | None = None


class _People(msgspec.Struct, frozen=True):
    people: Any = None


class _TraceOutline(msgspec.Struct, frozen=True, kw_only=True):
    spans: tuple[_SpanOutline, ...] = ()
    messages: tuple[_MessageOutline, ...] = ()
    metadata: _People = _People()


class AttemptOutline(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt without what went in and came out. Fields are those of an Attempt."""

    case: str
    repeat: int = 0
    trace: _TraceOutline | None = None

    @property
    def steps(self) -> Trace | None:
        """Who did what when: the trace's agent and tool spans, without parents and contents, and messages."""
        if self.trace is None:
            return None
        people = self.trace.metadata.people
        return Trace(
            spans=tuple(
                [
                    Span(
                        id=str(index),
                        kind=span.kind,
                        name=span.name,
                        agent=span.agent,
                        start=span.start,
                        end=span.end,
                        ok=span.ok,
                        attributes={"handoff": True} if span.attributes.handoff else {},
                    )
                    for index, span in enumerate(self.trace.spans)
                    if span.kind in ("agent", "tool")
                ]
            ),
            messages=tuple(
                [
                    Message(sender=said.sender, receiver=said.receiver, type=said.type, time=said.time)
                    for said in self.trace.messages
                ]
            ),
            metadata={"people": people} if people else {},
        )
