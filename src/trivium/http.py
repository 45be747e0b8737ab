"""What every HTTP client here does alike: what to retry and when, how much to read, ``${NAME}`` in headers.

The scheduler of judge requests has a policy of its own, because many requests share one rate limit.
"""

import calendar
import os
import re
import time
from collections.abc import Callable, Mapping
from email.utils import parsedate_to_datetime
from random import Random
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    import httpx

_RETRYABLE_BELOW_500 = frozenset({408, 425, 429})
_SECONDS = re.compile(r"\s*\d+(\.\d*)?\s*", re.ASCII)


def is_retryable_status(status: int) -> bool:
    """Whether a request with this HTTP status is worth a retry: 408, 425, 429 and 5xx."""
    return status in _RETRYABLE_BELOW_500 or 500 <= status <= 599


def retry_after_seconds(headers: Mapping[str, str], *, now: float | None = None) -> float | None:
    """Return how long a server asks to wait before the next request.

    ``Retry-After`` is a number of seconds or a date (RFC 9110, section 10.2.3); fractions of a second, which
    some servers send, are accepted. ``retry-after-ms`` of OpenAI and Anthropic is more precise and comes
    first.

    Args:
        headers: Headers of the response. Names are looked up in lower case.
        now: Unix time from which a date counts; by default the present.

    Returns:
        Seconds, at least 0; 0 for a date in the past. None without a readable header.
    """
    milliseconds = headers.get("retry-after-ms")
    if isinstance(milliseconds, str) and _SECONDS.fullmatch(milliseconds):
        return float(milliseconds) / 1000
    text = headers.get("retry-after")
    if not isinstance(text, str):
        return None
    if _SECONDS.fullmatch(text):
        return float(text)
    try:
        then = calendar.timegm(parsedate_to_datetime(text).utctimetuple())  # without a zone it is UTC
    except (ValueError, OverflowError):
        return None
    return max(0.0, then - (time.time() if now is None else now))


class Backoff(msgspec.Struct, frozen=True):
    """How long to wait before each retry: longer each time, up to a limit.

    Attributes:
        first: Seconds before the second try.
        longest: Most seconds that the wait grows to.
        factor: Ratio of a wait to the one before it.
    """

    first: float
    longest: float
    factor: float = 2.0

    def seconds(self, tries: int, *, asked_for: float | None = None, rng: Random | None = None) -> float:
        """Return the seconds to wait before the next try.

        Args:
            tries: Tries so far, at least 1.
            asked_for: Seconds that the server asked to wait. The wait is never shorter, and may be longer
                than ``longest``.
            rng: Source of jitter over the upper half of the wait, so that requests that failed together are
                not repeated together. No jitter without one.
        """
        wait = min(self.longest, self.first * self.factor ** min(tries - 1, 100))
        if rng is not None:
            wait *= rng.uniform(0.5, 1.0)
        return max(wait, asked_for or 0.0)


def read_prefix(response: "httpx.Response", size: int, *, deadline: float = float("inf")) -> bytes:
    """Read the first bytes of a streamed body as they were sent, without decompressing them.

    Args:
        response: The response. Its request should say ``accept-encoding: identity``.
        size: Most bytes to read.
        deadline: Time of ``time.monotonic`` after which no more is read.
    """
    body = bytearray()
    for chunk in response.iter_raw():
        body += chunk[: size - len(body)]
        if len(body) == size or time.monotonic() > deadline:
            break
    return bytes(body)


VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
"""Matches an environment variable in a text of a suite, such as ``${GATEWAY_KEY}``."""


def expand_variables(text: str, *, named_by: str, fail: Callable[[str], Exception]) -> str:
    """Replace each ``${NAME}`` in an address or a header by the environment variable of that name.

    Args:
        text: The text.
        named_by: The setting that names the variables, for the message.
        fail: Makes the error to raise if a variable is not set, or its value is not valid in a header.
    """

    def value(found: "re.Match[str]") -> str:
        given = os.environ.get(found[1])
        if not given:
            raise fail(f"{found[1]} is not set, which {named_by} names")
        if not valid_in_header(given):
            raise fail(f"{found[1]} holds a line break or another character that cannot be sent")
        return given

    return VARIABLE.sub(value, text)


def valid_in_header(value: str) -> bool:
    """Whether a text can be the value of a header as it is."""
    return value.isascii() and value.isprintable() and value == value.strip()
