"""Classifies failed tries: the text of the error, whether to retry, and how long to wait before that."""

import errno
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from random import Random
from threading import current_thread, main_thread
from typing import Any

from trivium.agents.attempt import AgentFailure, ResourcesExhausted
from trivium.masking import mask
from trivium.suites.sanitize import clean

LONGEST_ERROR = 2_000
"""Characters of an error that are kept."""

FIRST_WAIT_SECONDS = 0.5
LONGEST_WAIT_SECONDS = 30.0

_RETRYABLE = frozenset({408, 425, 429})
"""HTTP statuses below 500 that may be gone the next time."""

_LONGEST_CHAIN = 10

_NO_HANDLES = frozenset({errno.EMFILE, errno.ENFILE})


def is_retryable_status(status: int) -> bool:
    """Whether an HTTP status is worth asking again for: 408, 425, 429 and 5xx."""
    return status in _RETRYABLE or 500 <= status <= 599


def shown(text: str) -> str:
    """An error's text as it may be stored and shown: secrets masked, long ones cut with a count."""
    text, _ = clean(text)
    kept = text[: 2 * LONGEST_ERROR]
    if len(kept) < len(text):
        # The last word may be half a secret, which no pattern would know.
        kept = kept[: max(kept.rfind(" "), kept.rfind("\n"), LONGEST_ERROR)]
    masked = mask(kept).strip()
    hidden = len(text) - len(kept) + max(0, len(masked) - LONGEST_ERROR)
    return f"{masked[:LONGEST_ERROR]}… ({hidden:,} characters more)" if hidden > 0 else masked


def reason(error: BaseException) -> str:
    """Why a try failed, in one text."""
    try:
        text = str(error)
    except Exception:
        text = "(its text cannot be read)"
    if isinstance(error, AgentFailure):
        return shown(text)
    kind = type(error).__name__
    return shown(f"{kind}: {text}" if text else kind)


def may_be_ctrl_c(error: BaseException) -> bool:
    """Whether a user may have raised it, not the code that was called: Ctrl-C comes to one thread alone."""
    return isinstance(error, KeyboardInterrupt) and current_thread() is main_thread()


def is_retryable(error: BaseException) -> bool:
    """Whether asking again may help: what a connection, a busy server or a ``retryable`` mark says.

    An explicit ``retryable`` attribute decides; else an HTTP status; else whether the error, or one
    that it was raised from, is one of a connection, or of this machine.
    """
    if is_resource_exhaustion(error):
        return True
    for link in _chain(error):
        said = getattr(link, "retryable", None)
        if isinstance(said, bool):
            return said
        status = _status(link)
        if status is not None:
            return is_retryable_status(status)
        if isinstance(link, ConnectionError | TimeoutError) or _is_transport_error(link):
            return True
    return False


def is_resource_exhaustion(error: BaseException) -> bool:
    """Whether this machine had no file handle, process or memory left to make the call with."""
    return any(
        isinstance(link, ResourcesExhausted) or (isinstance(link, OSError) and link.errno in _NO_HANDLES)
        for link in _chain(error)
    )


def retry_after(error: BaseException) -> float | None:
    """Seconds that the other side asked to wait, or None."""
    for link in _chain(error):
        seconds = getattr(link, "retry_after", None)
        if isinstance(seconds, int | float) and not isinstance(seconds, bool):
            return max(0.0, float(seconds))
        headers = getattr(getattr(link, "response", None), "headers", None)
        if headers is not None:
            return parse_retry_after(headers.get("retry-after"))
    return None


def parse_retry_after(header: Any) -> float | None:
    """Seconds from now that a Retry-After header means: a number, or a date. None when unreadable."""
    if not isinstance(header, str):
        return None
    if header.strip().isdecimal():
        return float(header)
    try:
        when = parsedate_to_datetime(header)
    except ValueError:
        return None
    if when.tzinfo is None:
        when = when.replace(tzinfo=UTC)
    return max(0.0, (when - datetime.now(UTC)).total_seconds())


def wait_seconds(tries: int, asked_for: float | None, rng: Random) -> float:
    """How long to wait before the next try.

    Doubles from half a second to at most thirty, with jitter over its upper half so that attempts that
    failed together do not return together; never shorter than what was asked for.
    """
    full = min(LONGEST_WAIT_SECONDS, FIRST_WAIT_SECONDS * float(1 << min(tries - 1, 10)))
    return max(full * rng.uniform(0.5, 1.0), asked_for or 0.0)


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The error and those it was raised from on purpose, outermost first."""
    link: BaseException | None = error
    for _ in range(_LONGEST_CHAIN):
        if link is None:
            return
        yield link
        link = link.__cause__


def _status(error: BaseException) -> int | None:
    for holder in (error, getattr(error, "response", None)):
        for name in ("status_code", "status"):
            status = getattr(holder, name, None)
            if isinstance(status, int) and 100 <= status <= 599:
                return status
    return None


def _is_transport_error(error: BaseException) -> bool:
    httpx = sys.modules.get("httpx")  # whoever raised it has imported it
    return httpx is not None and isinstance(error, httpx.TransportError)
