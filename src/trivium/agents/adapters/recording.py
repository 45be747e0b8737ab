"""Instrumenting PydanticAI agents for as long as one attempt runs; ``trivium.trace`` hears their spans."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

from opentelemetry.context import Context
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import Decision, ParentBased, Sampler, SamplingResult
from opentelemetry.trace import Link, SpanKind, TraceState
from opentelemetry.util.types import Attributes
from pydantic_ai import Agent
from pydantic_ai.agent import AbstractAgent
from pydantic_ai.capabilities import AbstractCapability, Instrumentation, WrapperCapability
from pydantic_ai.models.instrumented import InstrumentationSettings

from trivium.traces.recording.collecting import collector
from trivium.traces.recording.listening import listener_of


class _WithinAnAttempt(Sampler):
    """Agents that run outside of an attempt make no spans."""

    def should_sample(
        self,
        parent_context: Context | None,
        trace_id: int,
        name: str,
        kind: SpanKind | None = None,
        attributes: Attributes = None,
        links: Sequence[Link] | None = None,
        trace_state: TraceState | None = None,
    ) -> SamplingResult:
        """Whether a span with none above it is made."""
        decision = Decision.DROP if collector() is None else Decision.RECORD_AND_SAMPLE
        return SamplingResult(decision, attributes, trace_state)

    def get_description(self) -> str:
        """What OpenTelemetry calls it."""
        return "within an attempt"


class _Instrumentation:
    """Instruments all PydanticAI agents for as long as an attempt runs, and no longer.

    Agents that are delegated to can only be reached through the default of all agents. Where the user
    instruments agents already, that is left as it is and listened to.
    """

    def __init__(self) -> None:
        provider = TracerProvider(
            sampler=ParentBased(root=_WithinAnAttempt()),
            resource=Resource.get_empty(),
            shutdown_on_exit=False,
        )
        listener_of(provider)
        self._ours = InstrumentationSettings(tracer_provider=provider, include_binary_content=False)
        self._lock = threading.Lock()
        self._running = 0
        self._before: InstrumentationSettings | bool = False

    def begin(self, agent: "AbstractAgent[Any, Any]") -> None:
        with self._lock:
            self._running += 1
            if self._running == 1:
                self._before = _default()
                if not self._before:
                    Agent.instrument_all(self._ours)
            for settings in (self._before, *_settings_of(agent)):
                if isinstance(settings, InstrumentationSettings):
                    _listen_to(settings)

    def end(self) -> None:
        with self._lock:
            self._running -= 1
            if self._running == 0 and _default() is self._ours:
                Agent.instrument_all(self._before)


def _settings_of(agent: "AbstractAgent[Any, Any]") -> Iterator[Any]:
    """How the user instruments one agent."""
    yield getattr(agent, "instrument", None)
    leaves: list[AbstractCapability[Any]] = []
    agent.root_capability.apply(leaves.append)
    for leaf in leaves:
        while isinstance(leaf, WrapperCapability):
            leaf = leaf.wrapped  # noqa: PLW2901
        if isinstance(leaf, Instrumentation):
            yield leaf.settings


def _listen_to(settings: InstrumentationSettings) -> None:
    """Hear the spans of agents that the user sends elsewhere too, if that place allows it."""
    place = getattr(settings.tracer, "span_processor", None)
    if callable(getattr(place, "add_span_processor", None)):
        listener_of(place)


def _default() -> InstrumentationSettings | bool:
    default: InstrumentationSettings | bool = Agent._instrument_default  # noqa: SLF001 - it can only be set in public
    return default


@cache
def _instrumentation() -> _Instrumentation:
    return _Instrumentation()


@contextmanager
def instrumented(agent: "AbstractAgent[Any, Any]") -> Iterator[None]:
    """Within, every PydanticAI agent that runs is heard, delegated ones included."""
    instrumentation = _instrumentation()
    instrumentation.begin(agent)
    try:
        yield
    finally:
        instrumentation.end()
