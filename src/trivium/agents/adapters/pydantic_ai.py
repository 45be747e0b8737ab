"""Runs a PydanticAI agent and records its trace from the OpenTelemetry spans that PydanticAI emits."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec
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

from trivium.agents.adapters.pydantic_ai_input import prompt_of
from trivium.agents.attempt import AgentResponse, Request, Usage
from trivium.agents.failures import as_failure
from trivium.agents.worlds.world import World
from trivium.errors import AgentError, MissingExtra
from trivium.suites.case import Case
from trivium.traces.normalize import normalise
from trivium.traces.recording.collector import collector
from trivium.traces.recording.otel_listener import listener_of
from trivium.traces.trace import INCOMPLETE, Trace, TraceProblem

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage


_NO_DEPENDENCIES = (object, type(None))
"""Values of ``deps_type`` of an agent without dependencies; the first is the default."""


class PydanticAgent:
    """Runs a ``pydantic_ai.Agent``.

    The prompt is the case's input (a text as it is, any other value as JSON). An agent with ``deps_type``
    :class:`~trivium.suites.case.Case` gets the case, so that its tools can read ``ctx.deps.source``; one with
    :class:`~trivium.agents.worlds.world.World` gets the world of the attempt. The seed
    is passed to the model if the provider supports one. The trace has the agent, every agent that it
    delegates to, and their tool calls and model requests; a failed run has its trace up to the failure.

    Args:
        agent: The agent.
        name: Name in reports; also set on an agent without a name.

    Raises:
        AgentError: If the agent needs dependencies that Trivium cannot provide.
        MissingExtra: If OpenTelemetry's SDK, which records the trace, is not installed.
    """

    def __init__(self, agent: "AbstractAgent[Any, Any]", *, name: str) -> None:
        try:
            import opentelemetry.sdk.trace  # noqa: F401 - fail now, not during a run
        except ImportError:
            raise MissingExtra("judge", "the trace of a PydanticAI agent") from None
        self.name = agent.name or name
        if agent.name is None:
            agent.name = name
        deps_type = agent.deps_type
        self._takes_case = deps_type is Case
        self.needs_world = self.takes_world = deps_type is World
        if deps_type not in _NO_DEPENDENCIES and not self._takes_case and not self.needs_world:
            kind = getattr(deps_type, "__name__", deps_type)
            raise AgentError(
                name,
                f"the agent wants dependencies of type {kind}, which Trivium does not provide; "
                "use deps_type=trivium.Case or trivium.World, or name a function that calls it",
            )
        self._agent = agent

    async def call(self, request: Request) -> AgentResponse:
        """Run the agent once."""
        from pydantic_ai import capture_run_messages
        from pydantic_ai.settings import ModelSettings

        from trivium.traces.recording import recorded

        said, asked = prompt_of(request.case)
        said = said if request.history is None else request.history  # it has the calls of tools
        # Decorated functions that tools call also belong to this attempt, not to a file.
        with recorded() as found, instrumented(self._agent), capture_run_messages() as history:
            try:
                result = await self._agent.run(
                    asked,
                    message_history=said,
                    deps=request.case if self._takes_case else request.world if self.needs_world else None,
                    model_settings=ModelSettings(seed=request.seed),
                )
            except Exception as error:
                failure = as_failure(error)
                failure.trace = _with_history(found.trace, history, self.name)
                raise failure from failure.__cause__
        trace = _with_history(found.trace, history, self.name)
        return AgentResponse(
            output=_plain(result.output),
            trace=trace,
            usage=usage_of(trace),
            history=result.all_messages() if request.turn else None,
        )

    async def close(self) -> None:
        """Do nothing: no resources outlive a call."""


def _with_history(trace: Trace | None, history: "Sequence[ModelMessage]", name: str) -> Trace:
    """Complete a trace from the message history if it has no agent span.

    This happens if the agent's instrumentation is off, or sends its spans to a place that cannot be read.
    """
    found = trace or Trace()
    if any(span.kind == "agent" for span in found.spans):
        return found
    from pydantic_ai.messages import ModelMessagesTypeAdapter

    from trivium.traces.readers.pydantic_ai import UNNAMED, read_traces

    messages = ModelMessagesTypeAdapter.dump_python(list(history), mode="json")
    read = [span for trace in read_traces([messages], "") for span in trace.spans] if messages else []
    spans = [msgspec.structs.replace(span, agent=name) if span.agent == UNNAMED else span for span in read]
    spans = [msgspec.structs.replace(span, name=name) if span.kind == "agent" else span for span in spans]
    what = (
        f"the spans of PydanticAI's instrumentation of {name} could not be read: its calls are taken from "
        "its message history, and calls of other agents are missing"
    )
    problem = TraceProblem(kind=INCOMPLETE, what=what)
    return normalise([*spans, *found.spans], found.messages, problems=[*found.problems, problem])


def usage_of(trace: Trace) -> Usage | None:
    """Sum tokens and cost over the llm spans of a trace; None if no span has any."""
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


def _plain(output: Any) -> Any:
    from pydantic_core import to_jsonable_python

    return to_jsonable_python(output)


class _OnlyWithinAttempts(Sampler):
    """Drops the spans of agents that run outside of an attempt."""

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
        """Whether a root span is recorded."""
        decision = Decision.DROP if collector() is None else Decision.RECORD_AND_SAMPLE
        return SamplingResult(decision, attributes, trace_state)

    def get_description(self) -> str:
        """The name of this sampler in OpenTelemetry."""
        return "within an attempt"


class _Instrumentation:
    """Instruments all PydanticAI agents for as long as an attempt runs, and no longer.

    Agents that are delegated to can only be reached through the global default. An existing instrumentation
    of the user is left as it is, and a listener is added to it.
    """

    def __init__(self) -> None:
        provider = TracerProvider(
            sampler=ParentBased(root=_OnlyWithinAttempts()),
            resource=Resource.get_empty(),
            shutdown_on_exit=False,
        )
        listener_of(provider)
        self._ours = InstrumentationSettings(tracer_provider=provider, include_binary_content=False)
        self._lock = threading.Lock()
        self._running = 0
        self._before: InstrumentationSettings | bool = False

    @contextmanager
    def of(self, agent: "AbstractAgent[Any, Any]") -> Iterator[None]:
        with self._lock:
            self._running += 1
            if self._running == 1:
                self._before = _default()
                if not self._before:
                    Agent.instrument_all(self._ours)
            for settings in (self._before, *_settings_of(agent)):
                if isinstance(settings, InstrumentationSettings):
                    _listen_to(settings)
        try:
            yield
        finally:
            with self._lock:
                self._running -= 1
                if self._running == 0 and _default() is self._ours:
                    Agent.instrument_all(self._before)


def _settings_of(agent: "AbstractAgent[Any, Any]") -> Iterator[Any]:
    """The user's own instrumentation settings of one agent."""
    yield getattr(agent, "instrument", None)
    leaves: list[AbstractCapability[Any]] = []
    agent.root_capability.apply(leaves.append)
    for leaf in leaves:
        while isinstance(leaf, WrapperCapability):
            leaf = leaf.wrapped  # noqa: PLW2901
        if isinstance(leaf, Instrumentation):
            yield leaf.settings


def _listen_to(settings: InstrumentationSettings) -> None:
    """Add a listener to a user's own tracer, if its processor accepts one."""
    place = getattr(settings.tracer, "span_processor", None)
    if callable(getattr(place, "add_span_processor", None)):
        listener_of(place)


def _default() -> InstrumentationSettings | bool:
    default: InstrumentationSettings | bool = Agent._instrument_default  # noqa: SLF001 - it can only be set in public
    return default


@cache
def _instrumentation() -> _Instrumentation:
    return _Instrumentation()


def instrumented(agent: "AbstractAgent[Any, Any]") -> AbstractContextManager[None]:
    """Record every PydanticAI agent that runs within this context, delegated ones included."""
    return _instrumentation().of(agent)
