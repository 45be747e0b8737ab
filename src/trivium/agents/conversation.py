"""Holds a conversation with an agent, turn by turn, and makes one answer of its turns.

Definition: docs/definitions/conversations.md#conversation.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

import msgspec

from trivium.agents.attempt import USER_FAILED, AgentAdapter, AgentResponse, ChatMessage, Request, Usage
from trivium.agents.response import secret_flags
from trivium.safe_text import sanitise
from trivium.traces.conversations import as_turn
from trivium.traces.normalize import normalise
from trivium.traces.trace import TURN, Message, Span, Trace, TraceProblem
from trivium.values import JsonObject, json_text

Ask = Callable[[Request, AgentAdapter], Awaitable[AgentResponse]]
"""Calls an agent once, within the limits of the suite."""


class UserFailure(Exception):
    """A simulated user could not be asked; the agent is not to blame."""


class User(Protocol):
    """Who speaks with an agent.

    Attributes:
        flags: Flags of the attempt at the end of the conversation.
    """

    flags: list[str]

    async def says(self, messages: Sequence[ChatMessage]) -> Any:
        """Return the next message to the agent, or None at the end of the conversation.

        Args:
            messages: All messages so far.

        Raises:
            UserFailure: If there is neither.
        """


Users = Callable[[Request], User]
"""Makes the user of an attempt."""


class ScriptedUser:
    """Says what the case states, turn by turn.

    Args:
        request: The attempt.
    """

    def __init__(self, request: Request) -> None:
        self.flags: list[str] = []
        self._lines = iter(request.case.said)
        self._simulated = request.case.user is not None

    async def says(self, _: Sequence[ChatMessage]) -> Any:
        """Return what comes next in the case."""
        if self._simulated:
            raise UserFailure("a simulated user needs a model: name one under judge.models in the suite")
        return next(self._lines, None)


async def converse(ask: Ask, request: Request, agent: AgentAdapter, user: User) -> AgentResponse:
    """Hold a conversation: call the agent for each thing that the user says, with all messages so far.

    It ends when the user says nothing more, or with the first turn that fails.

    Args:
        ask: Calls the agent once.
        request: The attempt.
        agent: The agent.
        user: Who speaks with the agent.
    """
    case = request.case
    messages = [ChatMessage.of(each, 0) for each in case.input]
    turns: list[AgentResponse] = []
    history: Any = None
    while True:
        number = len(turns) + 1
        try:
            said = await user.says(messages)
        except UserFailure as failure:
            turns.append(AgentResponse(error=str(failure), flags=(USER_FAILED,)))
            break
        if said is None:
            break
        messages.append(ChatMessage(role="user", content=sanitise(said)[0], turn=number))
        asked = msgspec.structs.replace(case, input=[each.plain for each in messages], turns=(), user=None)
        turns.append(
            await ask(msgspec.structs.replace(request, case=asked, turn=number, history=history), agent)
        )
        response = turns[-1]
        if response.error is not None:
            break
        reply = "" if response.output is None else response.output
        messages.append(ChatMessage(role="assistant", content=reply, turn=number))
        history = response.history
        if len(json_text(messages)) > request.output_bytes:
            too_long = f"the conversation is larger than {request.output_bytes:,} bytes (limits.output_bytes)"
            turns[-1] = msgspec.structs.replace(response, error=too_long)
            break
    held = merged(turns, messages)
    return msgspec.structs.replace(held, flags=(*held.flags, *user.flags))


def merged(turns: Sequence[AgentResponse], messages: Sequence[ChatMessage]) -> AgentResponse:
    """Make one response of the turns of a conversation.

    Its output is the last reply; seconds, tokens and costs are summed; metadata of later turns replace those
    of earlier ones, and lists under one key are joined. If a turn failed, so did the conversation.

    Args:
        turns: The response of each turn.
        messages: The conversation.
    """
    last = turns[-1]
    metadata: JsonObject = {}
    for response in turns:
        _join(metadata, response.metadata)
    flags = [flag for response in turns for flag in response.flags]
    rewards = [response.reward for response in turns if response.reward is not None]
    error = None if last.error is None else f"turn {len(turns)}: {last.error}"
    return AgentResponse(
        output=last.output if error is None else None,
        trace=merged_trace([response.trace for response in turns]),
        usage=_usage([response.usage for response in turns]),
        reward=rewards[-1] if rewards else None,
        error=error,
        seconds=sum(response.seconds or 0.0 for response in turns),
        tries=1 + sum(response.tries - 1 for response in turns),
        flags=tuple(dict.fromkeys([*flags, *secret_flags([each.plain for each in messages], {}, None)])),
        metadata=metadata,
        messages=tuple(messages),
    )


def _join(metadata: JsonObject, later: JsonObject) -> None:
    """Add later metadata: lists under one key are joined, other values replaced."""
    for key, value in later.items():
        before = metadata.get(key)
        if isinstance(before, list) and isinstance(value, list):
            metadata[key] = before + [each for each in value if each not in before]
        else:
            metadata[key] = value


def _usage(turns: Sequence[Usage | None]) -> Usage | None:
    """The sums over all turns; a sum with an unknown part is unknown."""
    known = [each for each in turns if each is not None]
    if not known:
        return None
    complete = known if len(known) == len(turns) else [*known, Usage()]
    sums = {}
    for name in Usage.__struct_fields__:
        values = [getattr(each, name) for each in complete]
        sums[name] = None if None in values else sum(values)
    return Usage(**sums)


def merged_trace(traces: Sequence[Trace | None]) -> Trace | None:
    """Make one trace of the traces of turns; None if no turn has one.

    The spans of a turn lie below a span ``turn N``, their ids begin with the number, and their attribute
    ``turn`` has it. A turn whose clock begins before the end of the one before is moved there.
    """
    if not any(trace is not None for trace in traces):
        return None
    spans: list[Span] = []
    messages: list[Message] = []
    problems: list[TraceProblem] = []
    metadata: JsonObject = {}
    clock = float("-inf")
    for number, trace in enumerate(traces, 1):
        if trace is None:
            continue
        shift, first, last = _placed(trace, clock)
        clock = clock if last is None else last
        name, attributes = f"turn {number}", {TURN: number}
        root = Span(
            id=f"turn-{number}", kind="other", name=name, start=first, end=last, attributes=attributes
        )
        spans.append(root)
        turn = as_turn(trace, number, shift, below=root.id)
        spans += turn.spans
        messages += turn.messages
        problems += turn.problems
        _join(metadata, trace.metadata)
    return normalise(spans, messages, problems=problems, metadata=metadata)


def _placed(trace: Trace, clock: float) -> tuple[float, float | None, float | None]:
    """How much later a turn's trace is moved, and its first and last time then."""
    times = [time for span in trace.spans for time in (span.start, span.end) if time is not None]
    times += [message.time for message in trace.messages if message.time is not None]
    if not times:
        return 0.0, None, None
    shift = max(0.0, clock - min(times))
    return shift, min(times) + shift, max(times) + shift
