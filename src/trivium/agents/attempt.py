"""Defines :class:`Attempt` and the interface between Trivium and an agent.

An :class:`AgentAdapter` gets a :class:`Request`, and returns an :class:`AgentResponse` or raises
:class:`AgentFailure`.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any, Literal, Protocol, Self

import msgspec

from trivium.agents.worlds.world import World
from trivium.suites.case import Case
from trivium.suites.chat import dialogue_text
from trivium.traces.trace import TURN, Trace
from trivium.values import JsonObject, json_text, resolved, text_or_json

TRACE_LEFT_OUT = "trace_left_out"
"""Flag of an attempt whose trace could not be read; ``metadata.trace_error`` says why."""


USER_FAILED = "user_failed"
"""Flag of an attempt whose simulated user could not be asked: it says nothing about the agent."""

USER_DID_NOT_STOP = "user_did_not_stop"
"""Flag of a conversation that ended because its simulated user had no more turns."""

WORLD_FAILED = "world_failed"
"""Flag of an attempt whose world could not be made, looked at or closed: it says nothing about the agent."""

UNFAIR = frozenset({WORLD_FAILED, USER_FAILED})
"""Flags of attempts that say nothing about the agent."""


class Usage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Tokens and cost of an attempt; None where they were not reported."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None


OUTPUT_LEFT_OUT = "output_left_out"
"""Flag of an attempt whose output was larger than the limit; its trace is kept."""
NO_ANSWER = "answer_not_recorded"
NO_QUESTION = "question_not_recorded"
"""Flags of an attempt that was made from a trace without an answer, or without a question."""

NOT_RECORDED = {
    NO_QUESTION: ("input", "the trace records no question"),
    NO_ANSWER: ("output", "the trace records no answer"),
    OUTPUT_LEFT_OUT: ("output", "the output was larger than the limit and was left out"),
}
"""What a flag says is missing, and why."""


CUT = " characters)"
"""End of the text that stands for a value that was too long to be kept."""


def bounded_text(value: Any) -> str:
    """The JSON of a value that was kept with an attempt; of one that was cut, what is left of its JSON."""
    return value if isinstance(value, str) and value.endswith(CUT) else json_text(value)


class StateChange(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One difference between the state at the start and at the end of an attempt.

    Attributes:
        path: Where, such as ``orders.1001.status``.
        kind: added, removed or changed.
        before: The value at the start, masked; as JSON text that is cut if it is long.
        after: The value at the end, likewise.
    """

    path: str
    kind: Literal["added", "removed", "changed"]
    before: Any = None
    after: Any = None

    @property
    def shown(self) -> str:
        """The change on one line: ``path: before → after``."""
        old = "nothing" if self.kind == "added" else bounded_text(self.before)
        new = "nothing" if self.kind == "removed" else bounded_text(self.after)
        return f"{self.path}: {old} → {new}" if self.path else f"{old} → {new}"


class StateCheck(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One expectation about the state or the calls of an attempt.

    Attributes:
        what: The expectation.
        ok: Whether it holds; None if that cannot be known.
        reason: What was found instead, or why it cannot be known.
    """

    what: str
    ok: bool | None = None
    reason: str | None = None


class WorldRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What became of a world in one attempt.

    Attributes:
        world: Name of the world.
        changes: The first differences between start and end, in the order of their paths.
        more: Number of further differences.
        checks: The expectations of the case about the end.
        calls: Whether each tool of ``expect.never`` was not called; None if the world gives no tools.
        problem: Why the state could not be compared, or None.
        mocked: Number of calls that were mocked: answered from what was ``recorded``, ``not recorded``, or a
            simulated ``timeout``, ``error`` or wrong ``shape``.
    """

    world: str
    changes: tuple[StateChange, ...] = ()
    more: int = 0
    checks: tuple[StateCheck, ...] = ()
    calls: tuple[StateCheck, ...] | None = None
    problem: str | None = None
    mocked: dict[str, int] = {}


@resolved
class ChatMessage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One message of a conversation, in the form of OpenAI's API, with the number of its turn.

    Attributes:
        role: Who says it: user, assistant, system, tool, …
        content: A text, or the parts of a message.
        turn: The turn, from 1, that begins when the user speaks; 0 for what precedes the first.
        tool_calls: Calls that the assistant requests.
        tool_call_id: The call to which this is the result.
    """

    role: str
    content: Any = None
    turn: int = 0
    tool_calls: Any = None
    tool_call_id: Any = None

    @classmethod
    def of(cls, raw: Mapping[str, Any], turn: int) -> Self:
        """Read a message with a role in the form of OpenAI's API."""
        fields = ("content", "tool_calls", "tool_call_id")
        return cls(role=str(raw["role"]), turn=turn, **{name: raw.get(name) for name in fields})

    @property
    def plain(self) -> JsonObject:
        """The message as OpenAI's API has it, without the turn."""
        fields = {"role": self.role, "content": self.content}
        more = {"tool_calls": self.tool_calls, "tool_call_id": self.tool_call_id}
        return fields | {name: value for name, value in more.items() if value is not None}


def numbered(messages: Iterable[Any]) -> Iterator[ChatMessage]:
    """Yield the messages of a recorded chat with the number of their turn.

    A turn begins where the user speaks after somebody else or, in a chat whose messages state their ``turn``,
    where they say so.

    Args:
        messages: Messages with a role.
    """
    turn, speaker, held = 0, "", list(messages)
    stated = any(TURN in raw for raw in held)
    for raw in held:
        own = raw.get(TURN)
        if isinstance(own, int) and own >= 0:
            turn = own
        elif not stated and raw["role"] == "user" and speaker != "user":
            turn += 1
        speaker = raw["role"]
        yield ChatMessage.of(raw, turn)


def dialogue(messages: Iterable[ChatMessage]) -> str | None:
    """Format a conversation as text, one paragraph a message, such as ``turn 2, user: 42``; None if empty."""
    return dialogue_text(_with_turns(messages))


def _with_turns(messages: Iterable[ChatMessage]) -> list[JsonObject]:
    return [
        each.plain | ({"role": f"turn {each.turn}, {each.role}"} if each.turn else {}) for each in messages
    ]


class AgentResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a call of an agent gave: the fields that :class:`AgentResponse` and :class:`Attempt` share.

    :class:`Attempt` says what each means.
    """

    output: Any = None
    seconds: float | None = None
    trace: Trace | None = None
    usage: Usage | None = None
    reward: float | None = None
    error: str | None = None
    flags: tuple[str, ...] = ()
    metadata: dict[str, Any] = {}
    world: WorldRecord | None = None
    messages: tuple[ChatMessage, ...] = ()


class Attempt(AgentResult, frozen=True, omit_defaults=True, dict=True):
    """One call of an agent for a case, and its result.

    Attributes:
        case: Id of the case.
        repeat: Which attempt of the case this is, from 0.
        output: What the agent returned: a text, or any JSON value.
        seconds: Wall time in seconds, or None if it was not measured.
        trace: Trace of the call, or None.
        usage: Tokens and cost, or None.
        reward: The recorded reward, in [0, 1], or None.
        error: Why the attempt failed, or None.
        flags: What sanitising changed, such as ``lone_surrogates`` or ``nul``;
            see :func:`trivium.safe_text.sanitise`.
        metadata: Any further data; not interpreted.
        world: What became of the suite's world, or None.
        messages: The conversation that was held, in order, if it was one; ``output`` is the last reply.
    """

    case: str
    repeat: int = 0

    @property
    def shown(self) -> Any:
        """What people are shown of the attempt: the dialogue of a conversation, else the output."""
        return dialogue(self.messages) if self.messages else self.output

    @property
    def said(self) -> list[JsonObject]:
        """The messages of a conversation, whose roles name their turns, such as ``turn 2, user``."""
        return _with_turns(self.messages)

    @property
    def is_unfair(self) -> bool:
        """Whether it failed for what is not the agent's doing: its world, or its simulated user."""
        return not UNFAIR.isdisjoint(self.flags)

    @property
    def failed(self) -> bool:
        """Whether the attempt failed."""
        return self.error is not None

    @cached_property
    def text(self) -> str:
        """The output as text: a text itself, or the canonical JSON of any other value."""
        return text_or_json(self.output, canonical=True)


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One call of an agent.

    Attributes:
        case: The case to answer.
        repeat: Which attempt of the case this is, from 0.
        seed: Seed for the agent's randomness; depends on case and repeat, and is the same for every retry.
        output_bytes: Largest output; adapters that read a stream stop after this many bytes.
        world: The world of the attempt, or None.
        turn: Which turn of a conversation this is, from 1; 0 if it is none.
        history: In a conversation, what the adapter returned as ``history`` in the turn before.
    """

    case: Case
    repeat: int
    seed: int
    output_bytes: int
    world: World | None = None
    turn: int = 0
    history: Any = None


@resolved
class AgentResponse(AgentResult, frozen=True, kw_only=True):
    """The parsed response of an agent: the fields of an :class:`Attempt` that an agent may set.

    Attributes:
        seconds: Wall time in seconds; if None, :func:`trivium.agents.invoke.invoke` measures it.
        tries: Number of tries, which :func:`~trivium.agents.invoke.invoke` counts.
        history: What the adapter wants back in the next turn of a conversation; not stored.
    """

    tries: int = 1
    history: Any = None


class AgentAdapter(Protocol):
    """Interface of an agent. A new kind of agent is one class with these members."""

    @property
    def name(self) -> str:
        """The name of the agent in reports."""
        ...

    async def call(self, request: Request) -> AgentResponse:
        """Call the agent once. Any exception fails this try."""
        ...

    async def close(self) -> None:
        """Close connections and end threads; the adapter may be called again afterwards."""
        ...


class AgentFailure(Exception):
    """One try failed for a reason other than an exception in the agent's own code.

    Args:
        reason: A readable text that becomes the attempt's error.
        retryable: Whether a retry may help; None leaves it to the error that this one was raised from.
        retry_after: Seconds that the server asked to wait, or None.
        trace: Trace up to the failure, or None.

    Attributes:
        world: What became of the world, or None.
        spoiled: Whether the try has been at work in a world that outlives it, so that another try would begin
            with what this one left.
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
        self.world: WorldRecord | None = None
        self.spoiled = False


class WorldFailure(AgentFailure):
    """The world of an attempt could not be made, looked at or closed; the agent is not to blame."""


class EventLoopBlocked(AgentFailure):
    """A cancelled call blocked its event loop and could not end; the message is appended to the reason."""


class ResourcesExhausted(AgentFailure):
    """The call could not start, because this machine has no process, memory or file handle left."""
