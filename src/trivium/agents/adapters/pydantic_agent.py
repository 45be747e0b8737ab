"""PydanticAI agents as agents; the trace is taken from their run."""

from typing import TYPE_CHECKING, Any

import msgspec

from trivium.agents.adapter import AgentFailure, Reply, Request
from trivium.errors import AgentError, MissingExtra
from trivium.suites.case import Case

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan
    from pydantic_ai.agent import AbstractAgent


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
        from pydantic_ai.settings import ModelSettings

        from trivium.agents.adapters.genai_spans import usage_of
        from trivium.agents.adapters.recording import recording
        from trivium.traces.recording import recorded

        asked = request.case.input
        # What listens besides, or is decorated in a tool, is of this attempt and not for files.
        with recorded(), recording() as spans:
            try:
                result = await self._agent.run(
                    asked if isinstance(asked, str) else msgspec.json.encode(asked).decode(),
                    deps=request.case if self._takes_case else None,
                    model_settings=ModelSettings(seed=request.seed),
                )
            except Exception as error:
                # No verdict of its own on retrying: the cause decides.
                raise AgentFailure(
                    f"{type(error).__name__}: {error}", retryable=None, trace=_trace(spans)
                ) from error
        trace = _trace(spans)
        return Reply(output=_plain(result.output), trace=trace, usage=usage_of(trace))

    async def close(self) -> None:
        """Nothing is kept between calls."""


def _trace(spans: "dict[int, ReadableSpan]") -> Any:
    from trivium.agents.adapters.genai_spans import trace_from_spans

    return trace_from_spans(spans.values())


def _plain(output: Any) -> Any:
    from pydantic_core import to_jsonable_python

    return to_jsonable_python(output)
