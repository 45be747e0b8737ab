"""OpenTelemetry: from recorded spans, whoever recorded them, to Traces.

Spans come in as :class:`~trivium.traces.opentelemetry.semconv.RecordedSpan`, from a file or from a live
run; what their attributes mean is told by one module a convention.
"""
