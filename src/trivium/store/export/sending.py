"""Sending: spans to an OpenTelemetry endpoint over HTTP, a bounded batch at a time."""

import json
import os
import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote

from trivium.errors import InputError
from trivium.masking import mask
from trivium.traces.writers.otlp import ResourceSpans, request

if TYPE_CHECKING:
    import httpx

MOST_SPANS = 1_000
"""Spans of one request; a trace with more of them is sent in several."""

TRIES = 5
_LATER = frozenset({429, 502, 503, 504})
"""Statuses at which OTLP has a client try again."""
_LONGEST_WAIT_SECONDS = 30.0
_TIMEOUT_SECONDS = 30.0
_MOST_ANSWER_BYTES = 65_536
"""How much of an answer is read: a partial success is a few words, and what else comes is not asked for."""


class _Answer(NamedTuple):
    """What an endpoint said, as far as it is read."""

    status: int
    kind: str
    retry_after: str
    body: bytes


def send(entries: Iterable[ResourceSpans], url: str, *, first_wait_seconds: float = 1.0) -> int:
    """Post spans to an endpoint such as ``http://127.0.0.1:4318/v1/traces``.

    Headers come from ``OTEL_EXPORTER_OTLP_HEADERS``. A request that the endpoint cannot take now is sent
    again, ``TRIES`` times in all, after what ``Retry-After`` says or twice as long each time.

    Args:
        entries: Read one at a time.
        url: The whole address.
        first_wait_seconds: How long to wait before the second try.

    Returns:
        How many spans were sent.

    Raises:
        InputError: If the endpoint cannot be reached, or refuses them.
    """
    import httpx

    sent, shown = 0, mask(url)
    with httpx.Client(headers=_headers(), timeout=_TIMEOUT_SECONDS) as client:
        for batch, number in _batches(entries):
            try:
                answer = _post(client, url, request(batch), first_wait_seconds)
            except (httpx.HTTPError, httpx.InvalidURL, UnicodeEncodeError) as error:
                raise InputError(shown, f"cannot be reached: {mask(str(error))}{_so_far(sent)}") from error
            if not 200 <= answer.status < 300:
                said = f": {answer.body[:800].decode(errors='replace')[:200]}" if answer.body else ""
                raise InputError(shown, f"answered {answer.status}{said}{_so_far(sent)}")
            refused = _refused(answer)
            if refused:
                raise InputError(shown, f"refused {refused}{_so_far(sent)}")
            sent += number
    return sent


def _post(client: "httpx.Client", url: str, content: bytes, wait: float) -> _Answer:
    headers = {"content-type": "application/json", "accept-encoding": "identity"}
    for left in range(TRIES - 1, -1, -1):
        with client.stream("POST", url, content=content, headers=headers) as response:
            answer = _read(response)
        if answer.status not in _LATER or not left:
            break
        told = answer.retry_after
        time.sleep(min(float(told) if told.isdecimal() else wait, _LONGEST_WAIT_SECONDS))
        wait *= 2
    return answer


def _read(response: "httpx.Response") -> _Answer:
    body = bytearray()
    for chunk in response.iter_raw():
        body += chunk[: _MOST_ANSWER_BYTES - len(body)]
        if len(body) == _MOST_ANSWER_BYTES:
            break
    told = response.headers
    return _Answer(
        response.status_code, told.get("content-type", ""), told.get("retry-after", ""), bytes(body)
    )


def _batches(entries: Iterable[ResourceSpans]) -> Iterator[tuple[list[ResourceSpans], int]]:
    """Entries in batches of at most so many spans, each with their number."""
    batch: list[ResourceSpans] = []
    held = 0
    for entry in entries:
        (scope,) = entry["scopeSpans"]
        spans = scope["spans"]
        for first in range(0, len(spans), MOST_SPANS):
            piece = spans[first : first + MOST_SPANS]
            if held + len(piece) > MOST_SPANS:
                yield batch, held
                batch, held = [], 0
            batch.append({**entry, "scopeSpans": [{**scope, "spans": piece}]})
            held += len(piece)
    if batch:
        yield batch, held


def _headers() -> dict[str, str]:
    """Headers as OpenTelemetry's variable has them: ``key=value``, joined by commas, percent-encoded."""
    pairs = [pair.partition("=") for pair in os.environ.get("OTEL_EXPORTER_OTLP_HEADERS", "").split(",")]
    return {unquote(key.strip()): unquote(value.strip()) for key, _, value in pairs if key.strip()}


def _refused(answer: _Answer) -> str:
    """What a partial success says was not taken."""
    if "json" not in answer.kind:
        return ""
    try:
        told = json.loads(answer.body)
    except (ValueError, RecursionError):
        return ""
    partial = told.get("partialSuccess") if isinstance(told, dict) else None
    if not isinstance(partial, dict) or partial.get("rejectedSpans") in {None, 0, "0"}:
        return ""
    return f"{partial['rejectedSpans']} spans: {partial.get('errorMessage') or 'it does not say why'}"


def _so_far(sent: int) -> str:
    return f" ({sent:,} spans had been sent)" if sent else ""
