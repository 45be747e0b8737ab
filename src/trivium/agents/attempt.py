"""Attempt: what an agent did for a case once (spec: files, outputs)."""

from functools import cached_property
from typing import Any

import msgspec

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
