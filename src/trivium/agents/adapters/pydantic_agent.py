"""PydanticAI agents as agents; the trace is taken from their run."""

from typing import TYPE_CHECKING, Any

import msgspec

from trivium.agents.adapter import AgentFailure, Reply, Request
from trivium.agents.attempt import Usage
from trivium.errors import AgentError, MissingExtra
from trivium.suites.case import Case
from trivium.traces.repair import normalise
from trivium.traces.trace import INCOMPLETE, Trace, TraceProblem

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pydantic_ai.agent import AbstractAgent
    from pydantic_ai.messages import ModelMessage


_NO_DEPENDENCIES = (object, type(None))
"""What ``deps_type`` is when none are wanted; the first when it was not stated."""


class PydanticAgent:
    """An agent that is a ``pydantic_ai.Agent``.

    Its prompt is the case's input (as JSON when it is no text). An agent whose ``deps_type`` is
    :class:`~trivium.suites.case.Case` is given the case, so that its tools can read ``ctx.deps.source``.
    The seed goes to the model where the provider knows one. The trace holds the agent, every agent that it
    delegates to, their tools and model requests; a failed run keeps it up to the failure.

    Args:
        agent: The agent.
        name: How reports call it. An agent without a name of its own takes it.

    Raises:
        AgentError: When the agent wants dependencies that nobody gives.
        MissingExtra: When OpenTelemetry's SDK, which records the trace, is not installed.
    """

    def __init__(self, agent: "AbstractAgent[Any, Any]", *, name: str) -> None:
        try:
            import opentelemetry.sdk.trace  # noqa: F401 - asked now, not in the middle of a run
        except ImportError:
            raise MissingExtra("judge", "the trace of a PydanticAI agent") from None
        self.name = agent.name or name
        if agent.name is None:
            agent.name = name
        wanted = agent.deps_type
        self._takes_case = wanted is Case
        if wanted not in _NO_DEPENDENCIES and not self._takes_case:
            raise AgentError(
                name,
                f"the agent wants dependencies of type {getattr(wanted, '__name__', wanted)}, which nobody"
                " gives; use deps_type=trivium.Case, or name a function that calls it",
            )
        self._agent = agent

    async def call(self, request: Request) -> Reply:
        """Run the agent once."""
        from pydantic_ai import capture_run_messages
        from pydantic_ai.settings import ModelSettings

        from trivium.agents.adapters.recording import instrumented
        from trivium.traces.recording import recorded

        asked = request.case.input
        # What is decorated in a tool is of this attempt too, and not for files.
        with recorded() as found, instrumented(self._agent), capture_run_messages() as history:
            try:
                result = await self._agent.run(
                    asked if isinstance(asked, str) else msgspec.json.encode(asked).decode(),
                    deps=request.case if self._takes_case else None,
                    model_settings=ModelSettings(seed=request.seed),
                )
            except Exception as error:
                # No verdict of its own on retrying: the cause decides.
                raise AgentFailure(
                    f"{type(error).__name__}: {error}",
                    retryable=None,
                    trace=_whole(found.trace, history, self.name),
                ) from error
        trace = _whole(found.trace, history, self.name)
        return Reply(output=_plain(result.output), trace=trace, usage=usage_of(trace))

    async def close(self) -> None:
        """Nothing is kept between calls."""


def _whole(trace: Trace | None, history: "Sequence[ModelMessage]", name: str) -> Trace:
    """The trace of a run; one that does not know the agent gets what its message history tells.

    So it is where the agent's instrumentation goes to a place that cannot be listened to, or is off.
    """
    found = trace or Trace()
    if any(span.kind == "agent" for span in found.spans):
        return found
    from pydantic_ai.messages import ModelMessagesTypeAdapter

    from trivium.traces.readers.pydantic_ai import UNNAMED, read

    messages = ModelMessagesTypeAdapter.dump_python(list(history), mode="json")
    told = [span for trace in read([messages], "") for span in trace.spans] if messages else []
    spans = [msgspec.structs.replace(span, agent=name) if span.agent == UNNAMED else span for span in told]
    spans = [msgspec.structs.replace(span, name=name) if span.kind == "agent" else span for span in spans]
    what = (
        f"PydanticAI's instrumentation of {name} could not be listened to: its calls are those of its "
        "message history, and agents that it asks are not seen"
    )
    problem = TraceProblem(kind=INCOMPLETE, what=what)
    return normalise([*spans, *found.spans], found.messages, problems=[*found.problems, problem])


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


def _plain(output: Any) -> Any:
    from pydantic_core import to_jsonable_python

    return to_jsonable_python(output)
