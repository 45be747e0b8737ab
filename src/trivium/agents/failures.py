"""Classifies failed tries: the text of the error, whether to retry, and the wait that a server asked for."""

import errno
import sys
from collections.abc import Iterator
from threading import current_thread, main_thread

from trivium.agents.attempt import AgentFailure, ResourcesExhausted
from trivium.http import is_retryable_status, retry_after_seconds
from trivium.masking import mask
from trivium.safe_text import sanitise
from trivium.values import is_number

LONGEST_ERROR = 2_000
"""Longest text of an error, in characters; the rest is cut."""

_LONGEST_CHAIN = 10

_NO_HANDLES = frozenset({errno.EMFILE, errno.ENFILE})


def shown(text: str) -> str:
    """Mask secrets in an error's text and cut it if it is long, with a count of what is cut."""
    text, _ = sanitise(text)
    head = text[: 2 * LONGEST_ERROR]
    if len(head) < len(text):
        # The last word may be half a secret, which no pattern matches.
        head = head[: max(head.rfind(" "), head.rfind("\n"), LONGEST_ERROR)]
    masked = mask(head).strip()
    hidden = len(text) - len(head) + max(0, len(masked) - LONGEST_ERROR)
    return f"{masked[:LONGEST_ERROR]}… ({hidden:,} characters more)" if hidden > 0 else masked


def reason(error: BaseException) -> str:
    """Return the text that explains why a try failed."""
    try:
        text = str(error)
    except Exception:
        text = "(its text cannot be read)"
    if isinstance(error, AgentFailure):
        return shown(text)
    kind = type(error).__name__
    return shown(f"{kind}: {text}" if text else kind)


def as_failure(error: Exception) -> AgentFailure:
    """The error of a try as a failure; whether to retry is left to the error itself."""
    if isinstance(error, AgentFailure):
        return error
    failure = AgentFailure(reason(error), retryable=None)
    failure.__cause__ = error
    return failure


def may_be_ctrl_c(error: BaseException) -> bool:
    """Whether the error may come from Ctrl-C, which reaches the main thread only, not from user code."""
    return isinstance(error, KeyboardInterrupt) and current_thread() is main_thread()


def is_retryable(error: BaseException) -> bool:
    """Whether a retry may help.

    An explicit ``retryable`` attribute decides, else an HTTP status. Otherwise connection errors and a lack
    of resources on this machine are retryable, including those that the error was raised from.
    """
    if is_resource_exhaustion(error):
        return True
    for link in _chain(error):
        retryable = getattr(link, "retryable", None)
        if isinstance(retryable, bool):
            return retryable
        status = _status(link)
        if status is not None:
            return is_retryable_status(status)
        if isinstance(link, ConnectionError | TimeoutError) or _is_transport_error(link):
            return True
    return False


def is_resource_exhaustion(error: BaseException) -> bool:
    """Whether this machine had no file handle, process or memory left for the call."""
    return any(
        isinstance(link, ResourcesExhausted) or (isinstance(link, OSError) and link.errno in _NO_HANDLES)
        for link in _chain(error)
    )


def retry_after(error: BaseException) -> float | None:
    """Return the seconds that the server asked to wait, or None."""
    for link in _chain(error):
        seconds = getattr(link, "retry_after", None)
        if is_number(seconds):
            return max(0.0, float(seconds))
        headers = getattr(getattr(link, "response", None), "headers", None)
        if headers is not None:
            return retry_after_seconds(headers)
    return None


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield the error and its causes, outermost first."""
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
    httpx = sys.modules.get("httpx")  # imported if the error comes from it
    return httpx is not None and isinstance(error, httpx.TransportError)
