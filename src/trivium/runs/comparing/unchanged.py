"""Unchanged: whether two runs hold the same outputs, whatever the time they took."""

from hashlib import blake2b
from itertools import zip_longest

import msgspec

from trivium.agents.attempt import Attempt
from trivium.runs.run import Run
from trivium.traces.trace import Trace


def unchanged(base: Run, head: Run) -> bool:
    """Whether both runs hold the same attempts, in the same order, and each did what its counterpart did.

    Times, ids of spans and usage do not count. Reading ends at the first difference.
    """
    return all(
        one is not None and other is not None and _did(one) == _did(other)
        for one, other in zip_longest(base.attempts(), head.attempts())
    )


def _did(attempt: Attempt) -> bytes:
    trace = None if attempt.trace is None else _steps(attempt.trace)
    what = (attempt.case, attempt.repeat, attempt.output, attempt.error, attempt.reward, trace)
    return blake2b(msgspec.json.encode(what, order="deterministic"), digest_size=16).digest()


def _steps(trace: Trace) -> tuple[object, object]:
    spans = [(one.kind, one.name, one.agent, one.ok, one.input, one.output) for one in trace.spans]
    return spans, [(one.sender, one.receiver, one.type, one.content) for one in trace.messages]
