"""Builds traces from OpenTelemetry spans, read from a file or recorded live.

Both arrive as :class:`~trivium.traces.opentelemetry.semconv.RecordedSpan`. ``semconv`` maps the attribute
names of the conventions, ``spans`` classifies each span, ``assemble`` puts the trace together.
"""
