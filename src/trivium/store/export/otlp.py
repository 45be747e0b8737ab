"""Sends traces with their scores to an OpenTelemetry endpoint."""

import json
import os
import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

from trivium.agents.attempt import Attempt
from trivium.errors import InputError
from trivium.masking import mask
from trivium.metrics.evaluation import Evaluation
from trivium.metrics.metric import Score
from trivium.store.records import RunRecord
from trivium.store.store import Store
from trivium.suites.case import Case
from trivium.traces.trace import Trace
from trivium.traces.writers.otlp import ResourceSpans, TraceToExport, request, resource

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


EVENT = "gen_ai.evaluation.result"


def traces_of_run(store: Store, run: RunRecord) -> Iterator[TraceToExport]:
    """Every scored attempt of a run, in the order of the suite, one at a time."""
    who = resource(
        **{"trivium.run.id": run.id, "trivium.run.kind": run.kind, "trivium.suite": run.suite_name}
    )
    for case, attempt, evaluation in store.views(run):
        yield trace_of_attempt(run, case, attempt, evaluation, who)


def trace_of_attempt(
    run: RunRecord, case: Case, attempt: Attempt, evaluation: Evaluation, who: dict[str, Any]
) -> TraceToExport:
    """An attempt with its scores.

    Args:
        run: Whose start stands for that of an attempt whose trace does not know its own.
        case: What was asked.
        attempt: What was done.
        evaluation: Its scores.
        who: Facts about the run.
    """
    facts: dict[str, Any] = {
        "trivium.case.id": case.id,
        "trivium.repeat": attempt.repeat,
        "trivium.attempt.seconds": attempt.seconds,
        "trivium.attempt.error": attempt.error,
        "trivium.recommendation": evaluation.composite.recommendation,
    }
    return TraceToExport(
        trace=attempt.trace or Trace(),
        key=f"{run.id} {attempt.repeat} {case.id}",
        started_at=run.created,
        seconds=attempt.seconds,
        input=case.input,
        output=attempt.output,
        error=attempt.error,
        name=f"attempt {case.id}",
        resource=who,
        attributes={key: value for key, value in facts.items() if value is not None},
        events=[(EVENT, fields) for fields in results(evaluation)],
    )


def results(evaluation: Evaluation) -> list[dict[str, Any]]:
    """The attributes of each result, by the GenAI conventions.

    A score is labelled with its status; the composite with its recommendation; ``passed`` is the verdict of
    the suite's rule. What has no value has none there either.
    """
    folded = evaluation.composite
    found = [_of_score(score) for score in evaluation.scores.values()]
    found.append(_result("composite", folded.value, folded.recommendation or folded.status, folded.reason))
    if evaluation.passed is not None:
        verdict = "pass" if evaluation.passed else "fail"
        found.append(_result("passed", float(evaluation.passed), verdict, evaluation.failed))
    return found


def _of_score(score: Score) -> dict[str, Any]:
    further = {"trivium.score.tier": score.tier, "trivium.score.method": score.method}
    if score.status == "error":
        further["error.type"] = "_OTHER"
    found = _result(score.name, score.value, score.status, score.reason)
    return found | {key: value for key, value in further.items() if value is not None}


def _result(name: str, value: float | None, label: str, explanation: str | None) -> dict[str, Any]:
    fields = {
        "gen_ai.evaluation.name": name,
        "gen_ai.evaluation.score.value": value,
        "gen_ai.evaluation.score.label": label,
        "gen_ai.evaluation.explanation": explanation,
    }
    return {key: value for key, value in fields.items() if value is not None}
