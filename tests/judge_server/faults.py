"""What a bad day holds, and plans of which request meets what."""

from collections.abc import Callable, Mapping
from hashlib import blake2b
from typing import Literal

import msgspec

from tests.judge_server.question import Question

Kind = Literal[
    "answer",
    "failure",
    "reset",
    "cut",
    "hang",
    "stall",
    "drip",
    "garbled",
    "malformed",
    "truncated",
    "refusal",
]


class Reaction(msgspec.Struct, frozen=True, kw_only=True):
    """What becomes of one request."""

    kind: Kind = "answer"
    status: int = 200
    retry_after: float | str | None = None
    """The Retry-After header: seconds, or text such as an HTTP date."""
    message: str | None = None
    """What a failure says; none for a word on its status."""
    latency: float | None = None
    """Seconds until it comes about; none for the server's own."""
    pace: float = 0.01
    """Seconds between the bytes of an answer that drips."""
    body: bytes | None = None
    """What a garbled answer or a failure holds; none for a gateway's page, or the provider's usual error."""
    headers: tuple[tuple[str, str], ...] = ()
    """Headers besides the usual ones, such as where a redirect leads."""


Plan = Callable[[Question], Reaction]

ANSWER = Reaction()
HANG = Reaction(kind="hang")
"""No byte ever comes, and the connection stays open."""
STALL = Reaction(kind="stall")
"""Half of the answer comes and no more, and the connection stays open."""
DRIP = Reaction(kind="drip")
"""The answer comes byte by byte, so that no single read waits long."""
RESET = Reaction(kind="reset")
"""The connection is reset instead of an answer."""
CUT = Reaction(kind="cut")
"""The connection ends in the middle of the answer's body."""
GARBLED = Reaction(kind="garbled")
"""The body of a 200 is no JSON at all, as from a proxy in between."""
MALFORMED = Reaction(kind="malformed")
"""The model's own output is not the JSON that was asked for."""
TRUNCATED = Reaction(kind="truncated")
"""The model stopped at its token limit, in the middle of its JSON."""
REFUSAL = Reaction(kind="refusal")


def failure(
    status: int = 500, *, retry_after: float | str | None = None, message: str | None = None
) -> Reaction:
    """An answer of an HTTP status other than 200."""
    return Reaction(kind="failure", status=status, retry_after=retry_after, message=message)


def rate_limited(retry_after: float | str | None = None) -> Reaction:
    """A 429."""
    return failure(429, retry_after=retry_after)


def faults(
    *,
    rate_limited: float = 0.0,
    server_error: float = 0.0,
    reset: float = 0.0,
    cut: float = 0.0,
    hang: float = 0.0,
    stall: float = 0.0,
    drip: float = 0.0,
    garbled: float = 0.0,
    malformed: float = 0.0,
    truncated: float = 0.0,
    refusal: float = 0.0,
    retry_after: float | str | None = None,
    seed: int = 0,
    by: Literal["request", "prompt"] = "request",
) -> Plan:
    """A plan that draws each request's fault, the same for the same seed.

    Args:
        rate_limited: Share of requests that get a 429; the other shares likewise.
        retry_after: What the 429s say of when to come back.
        seed: Of the draws.
        by: Draw anew for every request, or once for every prompt, which then meets the same for ever.
    """
    drawn = [
        (rate_limited, globals()["rate_limited"](retry_after)),
        (server_error, failure(500)),
        (reset, RESET),
        (cut, CUT),
        (hang, HANG),
        (stall, STALL),
        (drip, DRIP),
        (garbled, GARBLED),
        (malformed, MALFORMED),
        (truncated, TRUNCATED),
        (refusal, REFUSAL),
    ]
    if sum(share for share, _ in drawn) > 1:
        raise ValueError("the shares of faults add up to more than 1")

    def plan(question: Question) -> Reaction:
        key = question.prompt if by == "prompt" else str(question.number)
        digest = blake2b(f"{seed}:{key}".encode(), digest_size=8).digest()
        left = int.from_bytes(digest) / 2**64
        for share, reaction in drawn:
            if left < share:
                return reaction
            left -= share
        return ANSWER

    return plan


def at(reactions: Mapping[int, Reaction]) -> Plan:
    """A plan by the request's number, from 0; every other request is answered."""
    return lambda question: reactions.get(question.number, ANSWER)
