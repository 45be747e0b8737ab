"""How a recorded attempt enters: by the same rules as one that was just asked for."""

from typing import Any

from trivium.agents.adapter import AgentFailure
from trivium.agents.admission import admit, without_secrets
from trivium.agents.attempt import TRACE_LEFT_OUT, Attempt, Usage
from trivium.agents.failing import reason, shown
from trivium.agents.reply import NOTHING
from trivium.traces.trace import Trace


def attempt_of(
    *,
    case: str,
    repeat: int,
    output: Any,
    limit: int,
    seconds: float | None = None,
    trace: Trace | None = None,
    trace_error: str | None = None,
    usage: Usage | None = None,
    reward: float | None = None,
    error: str | None = None,
    flags: tuple[str, ...] = (),
    metadata: dict[str, Any] | None = None,
) -> Attempt:
    """An attempt from what was recorded of it.

    An output over the limit, or no output where nothing else came back either, is a failed attempt.

    Args:
        case: Id of the case.
        repeat: Which attempt of the case it is.
        output: Any JSON value.
        limit: Most bytes of it (``limits.output_bytes``).
        seconds: Wall time.
        trace: What was done.
        trace_error: Why there is no trace although one was recorded.
        usage: Tokens and cost.
        reward: A verdict.
        error: Why it failed; empty when it did not.
        flags: What was changed at the door before.
        metadata: Anything else.
    """
    error = (shown(error) or None) if error else None
    try:
        output, more = admit(output, limit=limit)
    except AgentFailure as failure:
        output, more, error = None, (), reason(failure)
    recorded_trace = trace is not None or trace_error is not None
    if error is None and output is None and reward is None and not recorded_trace:
        error = NOTHING
    if trace is not None:
        trace, masked = without_secrets(trace)
        more = (*more, *masked)
    metadata = metadata or {}
    if trace_error is not None:
        flags = (*flags, TRACE_LEFT_OUT)
        metadata = metadata | {"trace_error": shown(trace_error)}
    return Attempt(
        case=case,
        repeat=repeat,
        output=output,
        seconds=seconds,
        trace=trace,
        usage=usage,
        reward=reward,
        error=error,
        flags=tuple(dict.fromkeys([*flags, *more])),
        metadata=metadata,
    )
