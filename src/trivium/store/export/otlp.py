"""Sends traces with their scores to an OpenTelemetry endpoint."""

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator
from random import Random
from typing import TYPE_CHECKING
from urllib.parse import unquote

from trivium.agents.attempt import Attempt
from trivium.errors import InputError
from trivium.http import Backoff, read_prefix, retry_after_seconds
from trivium.masking import mask
from trivium.metrics.evaluation import Evaluation
from trivium.metrics.metric import Score
from trivium.metrics.registry import RECORDED_PREFIXES
from trivium.store.records import Provenance, RunRecord
from trivium.store.store import Store
from trivium.suites.case import Case
from trivium.traces.opentelemetry import evaluations
from trivium.traces.opentelemetry.evaluations import EVENT as EVENT  # noqa: PLC0414 - with what it carries
from trivium.traces.trace import Trace
from trivium.traces.writers.otlp import ResourceSpans, TraceToExport, request, resource
from trivium.values import JsonObject

if TYPE_CHECKING:
    import httpx


MAX_SPANS = 1_000
"""Most spans in one request; a larger trace is split over several requests."""

MAX_TRIES = 5
_RETRY_STATUSES = frozenset({429, 502, 503, 504})
"""HTTP statuses after which the OTLP specification lets a client retry."""
_BACKOFF = Backoff(first=1.0, longest=30.0)
_TIMEOUT_SECONDS = 30.0
_MAX_RESPONSE_BYTES = 65_536
"""Bytes of a response that are read; the message of a partial success is short."""


def send(entries: Iterable[ResourceSpans], url: str, *, sleep: Callable[[float], object] = time.sleep) -> int:
    """Post spans to an endpoint such as ``http://127.0.0.1:4318/v1/traces``.

    Headers come from ``OTEL_EXPORTER_OTLP_HEADERS``. A request with a retryable status is sent up to
    ``MAX_TRIES`` times. The wait doubles from 1 s, and is at least what ``Retry-After`` says, up to 30 s.

    Args:
        entries: The spans, read one entry at a time.
        url: The full URL.
        sleep: Waits a number of seconds between tries.

    Returns:
        Number of spans sent.

    Raises:
        InputError: If the endpoint cannot be reached or refuses the spans.
    """
    import httpx

    sent, shown_url = 0, mask(url)
    with httpx.Client(headers=_headers(), timeout=_TIMEOUT_SECONDS) as client:
        for batch, count in _batches(entries):
            try:
                response, body = _post(client, url, request(batch), sleep)
            except (httpx.HTTPError, httpx.InvalidURL, UnicodeEncodeError) as error:
                raise InputError(
                    shown_url, f"cannot be reached: {mask(str(error))}{_already_sent(sent)}"
                ) from error
            if not response.is_success:
                text = f": {body[:800].decode(errors='replace')[:200]}" if body else ""
                raise InputError(shown_url, f"answered {response.status_code}{text}{_already_sent(sent)}")
            rejection = _partial_rejection(response.headers.get("content-type", ""), body)
            if rejection:
                raise InputError(shown_url, f"refused {rejection}{_already_sent(sent)}")
            sent += count
    return sent


def _post(
    client: "httpx.Client", url: str, content: bytes, sleep: Callable[[float], object]
) -> "tuple[httpx.Response, bytes]":
    """Post a request, again where that may help; the answer, and the beginning of its body."""
    headers = {"content-type": "application/json", "accept-encoding": "identity"}
    rng = Random()  # noqa: S311 - jitter is no secret
    for tries in range(1, MAX_TRIES + 1):
        with client.stream("POST", url, content=content, headers=headers) as response:
            body = read_prefix(response, _MAX_RESPONSE_BYTES)
        if response.status_code not in _RETRY_STATUSES or tries == MAX_TRIES:
            break
        wait = _BACKOFF.seconds(tries, asked_for=retry_after_seconds(response.headers), rng=rng)
        sleep(min(wait, _BACKOFF.longest))
    return response, body


def _batches(entries: Iterable[ResourceSpans]) -> Iterator[tuple[list[ResourceSpans], int]]:
    """Yield batches of at most ``MAX_SPANS`` spans, each with its number of spans."""
    batch: list[ResourceSpans] = []
    count = 0
    for entry in entries:
        (scope,) = entry["scopeSpans"]
        spans = scope["spans"]
        for first in range(0, len(spans), MAX_SPANS):
            piece = spans[first : first + MAX_SPANS]
            if count + len(piece) > MAX_SPANS:
                yield batch, count
                batch, count = [], 0
            batch.append({**entry, "scopeSpans": [{**scope, "spans": piece}]})
            count += len(piece)
    if batch:
        yield batch, count


def _headers() -> dict[str, str]:
    """Parse the headers of OpenTelemetry's variable: percent-encoded ``key=value``, joined by commas."""
    pairs = [pair.partition("=") for pair in os.environ.get("OTEL_EXPORTER_OTLP_HEADERS", "").split(",")]
    return {unquote(key.strip()): unquote(value.strip()) for key, _, value in pairs if key.strip()}


def _partial_rejection(content_type: str, body: bytes) -> str:
    """Describe the spans that a partial success rejected; empty if there are none."""
    if "json" not in content_type:
        return ""
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        return ""
    partial = answer.get("partialSuccess") if isinstance(answer, dict) else None
    if not isinstance(partial, dict) or partial.get("rejectedSpans") in {None, 0, "0"}:
        return ""
    return f"{partial['rejectedSpans']} spans: {partial.get('errorMessage') or 'it does not say why'}"


def _already_sent(sent: int) -> str:
    return f" ({sent:,} spans had been sent)" if sent else ""


def traces_of_run(store: Store, run: RunRecord) -> Iterator[TraceToExport]:
    """Yield a trace for every scored attempt of a run, in suite order."""
    run_resource = resource(
        **{"trivium.run.id": run.id, "trivium.run.kind": run.kind, "trivium.suite": run.suite_name}
    )
    for case, attempt, evaluation in store.views(run):
        yield trace_of_attempt(run, case, attempt, evaluation, run_resource)


def trace_of_attempt(
    run: RunRecord, case: Case, attempt: Attempt, evaluation: Evaluation, resource_: JsonObject
) -> TraceToExport:
    """Build the trace of an attempt, with its scores as events.

    Args:
        run: The run; its start is used where the trace has none.
        case: The case.
        attempt: The attempt; without a trace, an empty one is used.
        evaluation: Its scores.
        resource_: OpenTelemetry resource attributes of the run.
    """
    attributes: JsonObject = {
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
        resource=resource_,
        attributes={key: value for key, value in attributes.items() if value is not None},
        events=[(EVENT, fields) for fields in results(run, evaluation)],
    )


def results(run: RunRecord, evaluation: Evaluation) -> list[JsonObject]:
    """Return the attributes of each result, by OpenTelemetry's GenAI conventions.

    The label of a score is its status, that of the composite its recommendation; ``passed`` is the verdict
    of the suite's ``pass`` rule. Missing values are left out.
    """
    composite = evaluation.composite
    label = composite.recommendation or composite.status
    rows = [_of_score(score, run.provenance) for score in evaluation.scores.values()]
    rows.append(_result("composite", composite.value, label, composite.reason))
    if evaluation.passed is not None:
        verdict = "pass" if evaluation.passed else "fail"
        rows.append(_result("passed", float(evaluation.passed), verdict, evaluation.failed))
    return rows


def _of_score(score: Score, provenance: Provenance) -> JsonObject:
    extra = {"trivium.score.tier": score.tier, "trivium.score.method": score.method}
    extra |= _evaluator(score, provenance)
    if score.status == "error":
        extra["error.type"] = "_OTHER"
    attributes = _result(score.name, score.value, score.status, score.reason)
    return attributes | {key: value for key, value in extra.items() if value is not None}


def _evaluator(score: Score, provenance: Provenance) -> JsonObject:
    """What gave a score; nothing where another tool did, which the run does not know."""
    if score.name.startswith(RECORDED_PREFIXES):
        return {}
    judged = score.tier == "judge" and score.status != "fallback"
    return {
        evaluations.EVALUATOR: f"trivium.{score.name}",
        evaluations.EVALUATOR_VERSION: provenance.metrics.get(score.name),
        evaluations.EVALUATOR_TYPE: "llm_judge" if judged else "deterministic",
        evaluations.EVALUATOR_MODELS: (provenance.judges or None) if judged else None,
    }


def _result(name: str, value: float | None, label: str, explanation: str | None) -> JsonObject:
    fields = {
        evaluations.NAME: name,
        evaluations.VALUE: value,
        evaluations.LABEL: label,
        evaluations.EXPLANATION: explanation,
    }
    return {key: value for key, value in fields.items() if value is not None}
