"""Resent spans: what was sent twice is one span, and a note that a span began is no span of its own."""

from collections.abc import Sequence

import msgspec

from trivium.traces.opentelemetry import wanted
from trivium.traces.opentelemetry.recorded import RecordedSpan
from trivium.traces.trace import TraceProblem

_PENDING = "pending_span"


def without_resent(
    spans: Sequence[RecordedSpan], problems: list[TraceProblem], *, pending: bool
) -> list[RecordedSpan]:
    """The spans, each once.

    Exporters that get no answer send again, so two spans of one id, name and start are one; the one that
    ended last is kept, and the other listed, unless it had not ended: recorders write a span that is open
    when one below it has ended, and again when it ends. Other spans of equal ids are left for repair.
    Logfire sends a pending span, below the span that it announces, as soon as that one starts: it goes when
    the span itself is there, and stands for it, unfinished, when it is not.

    Args:
        spans: Of one trace, by start.
        problems: Gets what was left out.
        pending: Whether any may be a pending one.
    """
    known = {span.id for span in spans}
    if len(known) == len(spans) and not pending:
        return list(spans)
    kept: dict[tuple[str, str, int | None], RecordedSpan] = {}
    for span in spans:
        if span.attributes.get(wanted.SPAN_TYPE) == _PENDING and span.parent is not None:
            if span.parent in known:
                continue
            span = _announced(span, span.parent)  # noqa: PLW2901
        key = (span.id, span.name, span.start)
        before = kept.get(key)
        if before is None:
            kept[key] = span
            continue
        if before.end is not None and span.end is not None:
            what = "it was sent twice; one was left out"
            problems.append(TraceProblem(kind="resent", span=span.id, what=what))
        if (span.end or 0) > (before.end or 0):
            kept[key] = span
    return list(kept.values())


def _announced(pending: RecordedSpan, span_id: str) -> RecordedSpan:
    """The span that a pending one announces."""
    above = pending.attributes.get(wanted.PENDING_PARENT)
    known = isinstance(above, str) and above.strip("0")
    return msgspec.structs.replace(pending, id=span_id, parent=above if known else None, end=None)
