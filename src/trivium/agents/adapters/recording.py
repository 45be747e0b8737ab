"""Recording: the OpenTelemetry spans of PydanticAI agents, caught while one attempt runs."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from opentelemetry import context as otel
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBased
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    TraceFlags,
    get_tracer_provider,
    set_span_in_context,
)
from pydantic_ai import Agent
from pydantic_ai.models.instrumented import InstrumentationSettings


class SpanCatcher(SpanProcessor):
    """Keeps the spans of the traces that somebody waits for, and no others.

    Each attempt runs in a trace of its own, so attempts that run at once never mix; an agent that is
    delegated to is in the trace of the one that delegates.
    """

    def __init__(self) -> None:
        self._waited_for: dict[int, dict[int, ReadableSpan]] = {}

    def on_start(self, span: Span, parent_context: otel.Context | None = None) -> None:
        """Keep a span from its start, so that one that never ends is seen too."""
        context = span.get_span_context()
        spans = self._waited_for.get(context.trace_id)
        if spans is not None:
            spans[context.span_id] = span

    @contextmanager
    def catching(self) -> Iterator[dict[int, ReadableSpan]]:
        """Within, spans are children of a new trace; they appear in the dictionary by their id."""
        ids = RandomIdGenerator()
        trace_id, span_id = ids.generate_trace_id(), ids.generate_span_id()
        parent = SpanContext(trace_id, span_id, is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))
        spans = self._waited_for[trace_id] = {}
        token = otel.attach(set_span_in_context(NonRecordingSpan(parent), otel.Context()))
        try:
            yield spans
        finally:
            otel.detach(token)
            del self._waited_for[trace_id]


class _Instrumentation:
    """Instruments all PydanticAI agents for as long as an attempt runs, and no longer.

    Agents that are delegated to can only be reached through the default of all agents. Where the user
    instruments agents already, that is left as it is and listened to.
    """

    def __init__(self) -> None:
        self.catcher = SpanCatcher()
        provider = TracerProvider(
            sampler=ParentBased(root=ALWAYS_OFF),  # agents outside of an attempt are not recorded
            resource=Resource.get_empty(),
            shutdown_on_exit=False,
        )
        provider.add_span_processor(self.catcher)
        self._ours = InstrumentationSettings(tracer_provider=provider, include_binary_content=False)
        self._lock = threading.Lock()
        self._running = 0
        self._before: InstrumentationSettings | bool = False
        self._listened_to: list[Any] = []

    def begin(self) -> None:
        with self._lock:
            self._running += 1
            if self._running == 1:
                self._before = _default()
                if not self._before:
                    Agent.instrument_all(self._ours)
            self._listen_to(get_tracer_provider())
            if isinstance(self._before, InstrumentationSettings):
                self._listen_to(getattr(self._before.tracer, "span_processor", None))

    def end(self) -> None:
        with self._lock:
            self._running -= 1
            if self._running == 0 and _default() is self._ours:
                Agent.instrument_all(self._before)

    def _listen_to(self, provider: Any) -> None:
        """Also hear the spans of agents that the user sends elsewhere, if that place allows it."""
        add = getattr(provider, "add_span_processor", None)
        if callable(add) and not any(provider is known for known in self._listened_to):
            self._listened_to.append(provider)
            add(self.catcher)


def _default() -> InstrumentationSettings | bool:
    default: InstrumentationSettings | bool = Agent._instrument_default  # noqa: SLF001 - it can only be set in public
    return default


@cache
def _instrumentation() -> _Instrumentation:
    return _Instrumentation()


@contextmanager
def recording() -> Iterator[dict[int, ReadableSpan]]:
    """Catch the spans of every PydanticAI agent that runs within, delegated ones included."""
    instrumentation = _instrumentation()
    instrumentation.begin()
    try:
        with instrumentation.catcher.catching() as spans:
            yield spans
    finally:
        instrumentation.end()
