"""Repeats: two spans for one thing, as where two instrumentations record the same call."""

from collections.abc import Sequence

from trivium.traces.opentelemetry import wanted
from trivium.traces.opentelemetry.contents import usage_of
from trivium.traces.opentelemetry.kinds import Reading
from trivium.traces.opentelemetry.recorded import RecordedSpan


def settle_repeats(spans: Sequence[RecordedSpan], readings: list[Reading]) -> set[str]:
    """Leaves one span of each kind for what was recorded twice, one within the other.

    An agent right within an agent of its name is the same run, and the call of an MCP tool right within
    the call of that tool is the same call: the inner ones become ``other``.

    Args:
        spans: Of one trace, by start.
        readings: What each is; changed.

    Returns:
        Ids of the model requests whose tokens are those of requests within.
    """
    repeated: set[str] = set()
    nearest: dict[str, int | None] = {}
    for index, span in enumerate(spans):
        what = readings[index]
        kind = what.kind
        above = None if span.parent is None else nearest.get(span.parent)
        nearest[span.id] = above if kind == "other" else index
        if above is None or kind == "other":
            continue
        outer = readings[above]
        if kind != outer.kind:
            continue
        if kind == "llm":
            if usage_of(span.attributes) is not None:
                repeated.add(spans[above].id)
        elif what.name == outer.name and (kind == "agent" or wanted.MCP_METHOD in span.attributes):
            readings[index] = Reading("other", span.name, outer.name if kind == "agent" else outer.agent)
            nearest[span.id] = above
    return repeated
