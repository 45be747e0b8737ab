"""Time shares: whose the wall time of a trace was, by agent, by tool and by kind of work."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeVar

import msgspec

from trivium.traces.process.concurrency import Concurrency
from trivium.traces.process.critical_path import Stretch
from trivium.traces.trace import Span

NAMELESS = None
"""Who did what no agent did."""

K = TypeVar("K", bound=Hashable)


class TimeShare(msgspec.Struct, frozen=True, kw_only=True):
    """The part that an agent, a tool or a kind of work had in the time of a trace.

    Attributes:
        name: Whose; None where no agent is known.
        spans: Spans that were at work.
        seconds: Wall time, where k spans were at work at once 1/k of it for each; these add up.
        share: The same of the whole wall time, in [0, 1]; None where that is 0.
        work: Seconds of work, whoever else was at work too.
        critical: Seconds on the critical path.
    """

    name: str | None
    spans: int
    seconds: float
    share: float | None
    work: float
    critical: float


def agent_of(span: Span) -> str | None:
    """Who did a span; an agent span is its own agent's."""
    return span.agent or (span.name if span.kind == "agent" else NAMELESS)


def time_shares(
    spans: Sequence[Span],
    concurrency: Concurrency,
    path: Iterable[Stretch],
    *,
    whole: float,
    owner: Callable[[Span], str | None],
    kind: str | None = None,
) -> tuple[TimeShare, ...]:
    """Time by owner, the most first.

    Args:
        spans: Of the trace.
        concurrency: Of the trace.
        path: Its critical path.
        whole: Its wall time, in seconds.
        owner: Whose a span is.
        kind: Only spans of this kind.
    """
    critical: dict[int, float] = {}
    for stretch in path:
        if stretch.span is not None:
            critical[stretch.span] = critical.get(stretch.span, 0.0) + stretch.end - stretch.start
    found: dict[str | None, list[float]] = {}
    for index, seconds in concurrency.seconds.items():
        if kind is not None and spans[index].kind != kind:
            continue
        sums = found.setdefault(owner(spans[index]), [0, 0.0, 0.0, 0.0])
        sums[0] += 1
        sums[1] += seconds
        sums[2] += concurrency.alone[index]
        sums[3] += critical.get(index, 0.0)
    made = [
        TimeShare(
            name=name,
            spans=int(count),
            seconds=seconds,
            share=min(1.0, seconds / whole) if whole else None,
            work=work,
            critical=on_path,
        )
        for name, (count, seconds, work, on_path) in found.items()
    ]
    return tuple(sorted(made, key=lambda one: (-one.seconds, one.name or "")))
