"""Repairs a trace and lists each repair as a problem (docs/definitions/traces.md#repaired-traces).

Nothing here recurses, so a trace nested 33,000 levels deep is safe.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import isfinite
from typing import Any, Literal, cast

import msgspec

from trivium.traces.conversation import unread_parts, unread_problems
from trivium.traces.trace import (
    ORPHAN,
    TIMES,
    Message,
    R,
    Span,
    Trace,
    TraceProblem,
    message_time,
    nested_messages,
    parents_first,
)

SKEW_SECONDS = 1e-6
"""A child may start this much before its parent: nanoseconds since 1970 lose as much in a float."""

_INF = float("inf")
_replace = msgspec.structs.replace


def normalise(
    spans: Iterable[Span],
    messages: Iterable[Message] = (),
    *,
    trace_id: str = "",
    problems: Iterable[TraceProblem] = (),
    metadata: Mapping[str, Any] | None = None,
    nested: bool | Literal["unstated"] = False,
) -> Trace:
    """Make a sound trace: unique ids, parents that form a forest, no negative duration, agents filled in.

    A missing parent makes its child a root (``orphan``); a cycle of parents is cut at its earliest span
    (``cycle``); a repeated id gets a new one (``duplicate_id``), and children stay with the first that
    had it; a time that is not finite is dropped (``bad_time``); an end before its start is set to the
    start (``negative_duration``); a child that starts before its parent is flagged (``clock_skew``);
    a span without an end has ``ok=None`` if the trace has times (``unfinished``). Parts of the messages of
    outermost spans that are no text are counted (``unread_parts``).
    Tool, llm and other spans get the agent of the nearest agent span above them. A trace that states no
    message gets those that its nesting implies (docs/definitions/traces.md#messages). Normalising twice
    changes nothing more.

    Args:
        spans: In the order of their file.
        messages: In order; empty when the format states none.
        trace_id: Id of the trace.
        problems: Problems that the reader found.
        metadata: Metadata of the trace.
        nested: True adds messages implied by the nesting to the stated ones, for a format that states
            hand-offs only; "unstated" adds them only from one agent to another without a stated one.
    """
    spans = tuple(spans)
    all_problems = list(problems)
    timed = any(span.start is not None or span.end is not None for span in spans)
    delegated: list[tuple[str, Span]] = []
    sound = _with_agents(spans, range(len(spans)), delegated, timed=timed)
    if sound is None:
        delegated.clear()
        repaired, order = _repair(spans, all_problems)
        sound = cast("tuple[Span, ...]", _with_agents(repaired, order, delegated, timed=False))
    outermost = Counter[str]()
    for span in sound:
        if span.parent is None:  # what was asked and what came back; requests repeat it
            outermost |= unread_parts(span.input) | unread_parts(span.output)
    all_problems += unread_problems(outermost)
    stated = tuple(messages)
    if any(message.time is not None and not isfinite(message.time) for message in stated):
        stated = tuple([_finite(message, all_problems) for message in stated])
    from_nesting = nested_messages(delegated, timed=timed) if nested or not stated else ()
    if stated and nested == "unstated":
        pairs = {(message.sender, message.receiver) for message in stated}
        from_nesting = tuple(
            message for message in from_nesting if (message.sender, message.receiver) not in pairs
        )
    return Trace(
        trace_id=trace_id,
        spans=sound,
        messages=_merge_nested(stated, from_nesting),
        problems=tuple(dict.fromkeys(all_problems)),  # reading a trace again finds some again
        metadata=dict(metadata) if metadata else {},
    )


def _merge_nested(stated: tuple[Message, ...], from_nesting: tuple[Message, ...]) -> tuple[Message, ...]:
    """Merge stated messages with those implied by the nesting, by time; those without a time come last."""
    return (
        tuple(sorted((*stated, *from_nesting), key=message_time))
        if stated and from_nesting
        else stated or from_nesting
    )


def _with_agents(
    spans: Sequence[Span], order: Iterable[int], delegated: list[tuple[str, Span]], *, timed: bool
) -> tuple[Span, ...] | None:
    """Fill in the agents of spans; None if any span may need repair.

    Args:
        spans: The spans.
        order: Their indices, parents before children.
        delegated: Receives each agent span below another agent, with the name of that agent.
        timed: Whether their times may need repair.
    """
    known: dict[str, tuple[str | None, float]] = {}
    result = list(spans)
    for index in order:
        span = spans[index]
        caller: str | None = None
        floor = -_INF
        if span.parent is not None:
            above = known.get(span.parent)
            if above is None:
                return None  # an orphan, or a child that the file lists before its parent
            caller, floor = above
        if timed:
            start, end = span.start, span.end
            if end is None or start is None or not (floor <= start <= end < _INF and start > -_INF):
                return None
            floor = start - SKEW_SECONDS
        if span.kind == "agent":
            if caller is not None:
                delegated.append((caller, span))
            caller = span.agent or span.name
        elif span.agent is None and caller is not None:
            result[index] = _replace(span, agent=caller)
        known[span.id] = (caller, floor)
    return tuple(result) if len(known) == len(spans) else None


def _repair(spans: Sequence[Span], problems: list[TraceProblem]) -> tuple[list[Span], list[int]]:
    """Sound spans, and their indices, parents before children."""
    rooted = _adopt_orphans(_unique_ids(spans, problems), problems)
    order = _cut_cycles(rooted, problems)
    return _repair_times(rooted, problems), order


def _unique_ids(spans: Sequence[Span], problems: list[TraceProblem]) -> list[Span]:
    taken = {span.id for span in spans}
    uses: dict[str, int] = {}
    result = []
    for span in spans:
        id_, count = span.id, uses.get(span.id, 0) + 1
        if count > 1:
            while (name := f"{id_}#{count}") in taken:
                count += 1
            taken.add(name)
            what = f'the id "{span.id}" was taken; this span is now "{name}"'
            problems.append(TraceProblem(kind="duplicate_id", span=name, what=what))
            span = _replace(span, id=name)  # noqa: PLW2901
        uses[id_] = count
        result.append(span)
    return result


def _adopt_orphans(spans: list[Span], problems: list[TraceProblem]) -> list[Span]:
    known = {span.id for span in spans}
    result = []
    for span in spans:
        if span.parent is not None and span.parent not in known:
            what = f'its parent "{span.parent}" is not in the trace; it is now a root'
            problems.append(TraceProblem(kind=ORPHAN, span=span.id, what=what))
            span = _replace(span, parent=None)  # noqa: PLW2901
        result.append(span)
    return result


def _cut_cycles(spans: list[Span], problems: list[TraceProblem]) -> list[int]:
    """Cut each cycle, in place; returns the indices of the spans, parents before children."""
    position = {span.id: index for index, span in enumerate(spans)}
    listed = bytearray(len(spans))
    order, found = parents_first(spans), len(problems)
    for index in order:
        parent = spans[index].parent
        if parent is not None and not listed[position[parent]]:  # of each cycle one comes before its parent
            cycle = [index]
            while (above := position[spans[cycle[-1]].parent or ""]) != index:
                cycle.append(above)
            cut = min(cycle, key=lambda at: (_start_or_last(spans[at]), at))
            what = f'it lies below itself (through "{spans[cut].parent}"); it is now a root'
            problems.append(TraceProblem(kind="cycle", span=spans[cut].id, what=what))
            spans[cut] = _replace(spans[cut], parent=None)
        listed[index] = 1
    return order if len(problems) == found else parents_first(spans)


def _start_or_last(span: Span) -> float:
    return span.start if span.start is not None and isfinite(span.start) else _INF


def _repair_times(spans: list[Span], problems: list[TraceProblem]) -> list[Span]:
    spans = [_finite(span, problems) for span in spans]
    timed = any(span.start is not None or span.end is not None for span in spans)
    if not timed:
        return spans
    starts = {span.id: span.start for span in spans}
    result = []
    for span in spans:
        start, end = span.start, span.end
        floor = starts[span.parent] if span.parent is not None else None
        if start is not None and floor is not None and start < floor - SKEW_SECONDS:
            what = f"it starts {floor - start:.6g} s before its parent; the order by start is kept"
            problems.append(TraceProblem(kind="clock_skew", span=span.id, what=what))
        if end is None:
            problems.append(TraceProblem(kind="unfinished", span=span.id, what="it has no end"))
            if span.ok:
                span = _replace(span, ok=None)  # noqa: PLW2901
        elif start is not None and end < start:
            what = f"it ends {start - end:.6g} s before it starts; its end is now its start"
            problems.append(TraceProblem(kind="negative_duration", span=span.id, what=what))
            span = _replace(span, end=start)  # noqa: PLW2901
        result.append(span)
    return result


def _finite(record: R, problems: list[TraceProblem]) -> R:
    """A span or a message without the times that are not finite."""
    for name in TIMES[type(record)]:
        time = getattr(record, name)
        if time is not None and not isfinite(time):
            whose, id_ = (_OF_SPAN, record.id) if isinstance(record, Span) else (_OF_MESSAGE, None)
            what = f"{whose.format(name, record)} is {time}"
            problems.append(TraceProblem(kind="bad_time", span=id_, what=what))
            record = _replace(record, **{name: None})
    return record


_OF_SPAN = "its {}"
_OF_MESSAGE = "the {0} of a message from {1.sender} to {1.receiver}"
