"""Defines :class:`Attempt` and the interface between Trivium and an agent.

An :class:`AgentAdapter` gets a :class:`Request` and returns a :class:`Reply` or raises
:class:`AgentFailure`.
"""

from functools import cached_property
from typing import Any, Protocol

import msgspec

from trivium.suites.case import Case
from trivium.traces.trace import Trace

TRACE_LEFT_OUT = "trace_left_out"
"""Flag of an attempt whose trace could not be read; ``metadata.trace_error`` says why."""


class Usage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Tokens and money that an attempt used; None where nobody said."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None


class Attempt(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, dict=True):
    """What an agent did for a case once.

    Attributes:
        case: Id of the case.
        repeat: Which attempt of the case this is, from 0.
        output: What the agent gave back: a text, or any JSON value.
        seconds: Wall time, or None when it was not measured.
        trace: What the agent did, or None.
        usage: Tokens and cost, or None.
        reward: A verdict that came with the recording, in [0, 1], or None.
        error: Why the attempt failed, or None.
        flags: What was changed at the door, such as ``lone_surrogates`` or ``nul`` (spec: metrics, T1).
        metadata: Anything else; never interpreted.
    """

    case: str
    repeat: int = 0
    output: Any = None
    seconds: float | None = None
    trace: Trace | None = None
    usage: Usage | None = None
    reward: float | None = None
    error: str | None = None
    flags: tuple[str, ...] = ()
    metadata: dict[str, Any] = {}

    @property
    def failed(self) -> bool:
        """Whether the attempt failed."""
        return self.error is not None

    @cached_property
    def text(self) -> str:
        """The output as text metrics see it: itself, or the canonical JSON of any other value."""
        if isinstance(self.output, str):
            return self.output
        if self.output is None:
            return ""
        return msgspec.json.encode(self.output, order="deterministic").decode()


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One question to an agent.

    Attributes:
        case: What is asked.
        repeat: Which attempt of the case this is, from 0.
        seed: For the agent's own randomness; differs by case and repeat, not by try.
        output_bytes: Adapters that read a stream stop reading behind this many bytes.
    """

    case: Case
    repeat: int
    seed: int
    output_bytes: int


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """What came back, as the adapter understood it: the fields of an Attempt that an agent may fill.

    Attributes:
        seconds: None lets the clock of :func:`trivium.agents.invoke.invoke` decide.
    """

    output: Any = None
    trace: Trace | None = None
    usage: Usage | None = None
    reward: float | None = None
    error: str | None = None
    seconds: float | None = None
    flags: tuple[str, ...] = ()
    metadata: dict[str, Any] = {}


class AgentAdapter(Protocol):
    """An agent that can be asked. A new kind of agent is one class of this shape."""

    @property
    def name(self) -> str:
        """How reports call the agent."""
        ...

    async def call(self, request: Request) -> Reply:
        """Ask once. Any exception means that this try failed."""
        ...

    async def close(self) -> None:
        """Let go of connections and threads; the adapter may be asked again afterwards."""
        ...


class AgentFailure(Exception):
    """One try failed, for a reason that is no exception of the agent's own code.

    Args:
        reason: For people; becomes the attempt's error.
        retryable: Whether asking again may help; None when the error that it was raised from decides.
        retry_after: Seconds that the other side asked to wait, or None.
        trace: What the agent did until then, or None.
    """

    def __init__(
        self,
        reason: str,
        *,
        retryable: bool | None = False,
        retry_after: float | None = None,
        trace: Trace | None = None,
    ) -> None:
        super().__init__(reason)
        self.retryable = retryable
        self.retry_after = retry_after
        self.trace = trace


class Blocked(AgentFailure):
    """A call that was given up held up what would have told it so; its text ends the reason."""


class ResourcesExhausted(AgentFailure):
    """This machine could not begin the call: it has no process, memory or file handle left."""
