"""From the OpenTelemetry spans of a live run to a Trace."""

from collections.abc import Container, Iterable
from typing import cast

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanContext, StatusCode

from trivium.agents.attempt import Usage
from trivium.suites.door import clean
from trivium.traces.opentelemetry.assembling import traces_of
from trivium.traces.opentelemetry.recorded import RecordedSpan
from trivium.traces.opentelemetry.wanted import meaning
from trivium.traces.trace import Trace


def trace_from_spans(spans: Iterable[ReadableSpan]) -> Trace:
    """The normalised trace of the spans of one run, its times in seconds from its first span."""
    spans = list(spans)
    known = {_context(span).span_id for span in spans}
    traces = traces_of(_recorded(span, known) for span in spans)
    return traces[0] if traces else Trace()


def usage_of(trace: Trace) -> Usage | None:
    """Tokens and cost of a trace, summed over its llm spans; None when none says."""
    used = [span.usage for span in trace.spans if span.usage is not None]
    if not used:
        return None
    costs = [each.cost_usd for each in used]
    return Usage(
        input_tokens=sum(each.input_tokens or 0 for each in used),
        output_tokens=sum(each.output_tokens or 0 for each in used),
        # A sum with an unknown part is unknown.
        cost_usd=sum(cost for cost in costs if cost is not None) if None not in costs else None,
    )


def _recorded(span: ReadableSpan, known: Container[int]) -> RecordedSpan:
    """The span as files hold it; a parent that the recording itself put above all others is none."""
    context, above = _context(span), span.parent
    attributes = {key: clean(value)[0] for key, value in meaning(span.attributes or {}).items()}
    failed = span.status.status_code is StatusCode.ERROR
    return RecordedSpan(
        trace_id=f"{context.trace_id:032x}",
        id=f"{context.span_id:016x}",
        parent=f"{above.span_id:016x}" if above is not None and above.span_id in known else None,
        name=clean(span.name)[0],
        start=span.start_time,
        end=span.end_time,
        attributes=attributes,
        failed=failed,
        error=clean(span.status.description)[0] if failed and span.status.description else "",
        events=[
            (event.name, {key: clean(value)[0] for key, value in (event.attributes or {}).items()})
            for event in span.events
        ],
    )


def _context(span: ReadableSpan) -> SpanContext:
    return cast("SpanContext", span.get_span_context())
