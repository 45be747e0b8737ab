"""Wraps Trivium metrics for Opik and Opik metrics for Trivium; pushes runs to an Opik server.

Importing this module before ``opik`` turns off Opik's usage and error reports. Set ``OPIK_ANALYTICS_ENABLE``
and ``OPIK_SENTRY_ENABLE`` to true to keep them. A metric made with ``track=False`` records no traces either.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from hashlib import sha256
from inspect import Parameter, signature
from typing import Any
from uuid import UUID

import msgspec

from trivium.errors import InputError, MissingExtra
from trivium.integrations.deepeval import Measurement, foreign_metric, share
from trivium.metrics.metric import Metric, MetricInput, Skip
from trivium.metrics.registry import metric_class
from trivium.metrics.scoring import score
from trivium.runs.run import Run
from trivium.store.export.otlp import traces_of_run
from trivium.suites.columns import texts_of
from trivium.suites.settings import Settings
from trivium.traces.opentelemetry.semconv import NANOSECONDS
from trivium.traces.readers import read_trace
from trivium.traces.trace import Span, Trace
from trivium.traces.writers.otlp import Clock, TraceToExport, clock_of
from trivium.values import JsonObject, counted

__all__ = ["Pushed", "opik_metric", "push", "trivium_metric"]

os.environ.setdefault("OPIK_ANALYTICS_ENABLE", "false")
os.environ.setdefault("OPIK_SENTRY_ENABLE", "false")

Record = tuple[str, JsonObject]
"""A kind (``traces``, ``spans`` or ``scores``) and the fields of one record."""

MAX_RECORDS = 500
"""Largest number of records in one request."""

MAX_BYTES = 4 * 2**20
"""Largest size of one request, unless a single record is larger."""

_SPAN_TYPES = {"tool": "tool", "llm": "llm"}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_REFERENCES = frozenset({"reference", "expected_output", "ground_truth"})


def trivium_metric(metric: str, *, track: bool = False, **settings: Any) -> Any:
    """Wrap a Trivium metric or judge as a ``BaseMetric``, for ``opik.evaluate(scoring_metrics=[…])``.

    Its ``score`` takes ``output`` and optionally ``input``, ``reference`` or ``expected_output`` (a text or a
    list of texts), ``context`` (the source document) and ``trace`` (in any format that Trivium reads). If the
    metric does not apply or fails, the result has ``scoring_failed``, and Opik leaves it out of its means.

    Args:
        metric: Name of the metric, such as ``jaccard``, ``tool_success`` or ``technical_accuracy``.
        track: Whether Opik records the call of the metric.
        settings: Keys of a suite's settings, such as ``encoder`` or ``judge``, except ``references``.

    Raises:
        MissingExtra: If Opik is not installed.
        SuiteError: If no metric has this name.
    """
    try:
        from opik.evaluation.metrics.base_metric import BaseMetric
        from opik.evaluation.metrics.score_result import ScoreResult
    except ImportError:
        raise MissingExtra("opik", "A metric in Opik's evaluate") from None
    whole = msgspec.convert(settings, Settings)
    given = {key: getattr(whole, key) for key in settings}
    metric_class(metric, whole)

    class TriviumMetric(BaseMetric):  # type: ignore[misc]  # its package is not followed
        """A metric of Trivium."""

        def score(
            self,
            output: Any,
            reference: Any = None,
            expected_output: Any = None,
            input: Any = None,  # noqa: A002 - Opik's word
            context: Any = None,
            trace: Any = None,
            **_: Any,
        ) -> Any:
            """Score an output."""
            result = score(
                metric,
                output=output,
                references=texts_of(expected_output if reference is None else reference),
                input=input,
                source="\n\n".join(context) if isinstance(context, list) else context,
                trace=trace if trace is None or isinstance(trace, Trace) else read_trace(trace),
                **given,
            )
            return ScoreResult(
                name=self.name,
                value=0.0 if result.value is None else result.value,
                reason=result.reason,
                scoring_failed=result.value is None,
                metadata={"status": result.status, "raw": result.raw},
            )

    return TriviumMetric(name=metric, track=track)


class Pushed(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of the records sent to an Opik server.

    Attributes:
        url: Address of the server.
        traces: Number of attempts.
        spans: Number of spans.
        scores: Number of feedback scores.
    """

    url: str
    traces: int
    spans: int
    scores: int

    def __str__(self) -> str:
        parts = (counted(self.traces, "trace"), counted(self.spans, "span"), counted(self.scores, "score"))
        return f"sent {parts[0]}, {parts[1]} and {parts[2]} to {self.url}"


def push(
    run: Run,
    *,
    url: str | None = None,
    project: str | None = None,
    workspace: str | None = None,
    api_key: str | None = None,
) -> Pushed:
    """Send every scored attempt of a run to an Opik server: traces, spans, and scores with their reasons.

    Ids depend only on the run and the attempt, so pushing a run again creates no duplicates. Attempts are
    read and sent in batches.

    Args:
        run: The run.
        url: Address of the server's API, such as ``http://localhost:5173/api``; by default the one of
            ``OPIK_URL_OVERRIDE`` or ``opik configure``.
        project: Name of the project; by default the suite's name.
        workspace: Name of the workspace, if the server has several.
        api_key: Key of the server, if it needs one.

    Raises:
        MissingExtra: If Opik is not installed.
        InputError: If the server cannot be reached or rejects the records.
    """
    try:
        import httpx
        import opik
        from opik.rest_api.core.api_error import ApiError
    except ImportError:
        raise MissingExtra("opik", "Pushing to Opik") from None
    record = run.record
    project = project or record.suite_name
    client = opik.Opik(host=url, project_name=project, workspace=workspace, api_key=api_key)
    address = str(client.config.url_override)
    sent = {"traces": 0, "spans": 0, "scores": 0}
    try:
        records = (
            each
            for exported in traces_of_run(run.store, record)
            for each in attempt_records(exported, project=project, default_start=record.created)
        )
        for kind, batch in _batches(records):
            _send(client.rest_client, kind, batch)
            sent[kind] += len(batch)
    except ApiError as error:
        what = f"answered {error.status_code}: {str(error.body)[:200]}"
        raise InputError(address, what + _so_far(sent["traces"])) from error
    except httpx.HTTPError as error:
        raise InputError(address, f"cannot be reached: {error}{_so_far(sent['traces'])}") from error
    finally:
        client.end()
    return Pushed(url=address, **sent)


def _send(api: Any, kind: str, batch: list[JsonObject]) -> None:
    from opik.rest_api.types.feedback_score_batch_item import FeedbackScoreBatchItem
    from opik.rest_api.types.span_write import SpanWrite
    from opik.rest_api.types.trace_write import TraceWrite

    if kind == "traces":
        api.traces.create_traces(traces=[TraceWrite(**record) for record in batch])
    elif kind == "spans":
        api.spans.create_spans(spans=[SpanWrite(**record) for record in batch])
    else:
        api.traces.score_batch_of_traces(scores=[FeedbackScoreBatchItem(**record) for record in batch])


def _batches(records: Iterable[Record]) -> Iterator[tuple[str, list[JsonObject]]]:
    """Group records by kind into batches of one request; traces come before their spans and scores."""
    pending: dict[str, list[JsonObject]] = {"traces": [], "spans": [], "scores": []}
    sizes = dict.fromkeys(pending, 0)
    for kind, record in records:
        size = len(msgspec.json.encode(record))
        if pending[kind] and (len(pending[kind]) == MAX_RECORDS or sizes[kind] + size > MAX_BYTES):
            for each in dict.fromkeys(("traces", kind)):
                if pending[each]:
                    yield each, pending[each]
                pending[each], sizes[each] = [], 0
        pending[kind].append(record)
        sizes[kind] += size
    for kind, batch in pending.items():
        if batch:
            yield kind, batch


def _so_far(traces: int) -> str:
    return f" ({counted(traces, 'trace')} had been sent)" if traces else ""


def attempt_records(exported: TraceToExport, *, project: str, default_start: float) -> Iterator[Record]:
    """Yield the records of an attempt, each with its kind.

    Args:
        exported: The attempt with its scores.
        project: Name of the Opik project.
        default_start: Start of a trace without times, Unix time in seconds.
    """
    clock, spans = clock_of(exported.trace, exported.started_at), exported.trace.spans
    starts = [at for span in spans if (at := clock.at(span.start)) is not None]
    first = min(starts, default=round(default_start * NANOSECONDS))
    trace_id = uuid7(first, exported.key)
    yield "traces", _trace(exported, trace_id, first, clock) | {"project_name": project}
    ids = {span.id: uuid7(clock.at(span.start) or first, f"{exported.key}\0{span.id}") for span in spans}
    for span in spans:
        parent = None if span.parent is None else ids[span.parent]
        links = {"id": ids[span.id], "trace_id": trace_id, "parent_span_id": parent, "project_name": project}
        yield "spans", _span(span, clock, first) | links
    for _, fields in exported.events:
        value = fields.get("gen_ai.evaluation.score.value")
        if value is not None:
            yield (
                "scores",
                {
                    "id": trace_id,
                    "project_name": project,
                    "name": fields["gen_ai.evaluation.name"],
                    "value": value,
                    "category_name": fields["gen_ai.evaluation.score.label"],
                    "reason": fields.get("gen_ai.evaluation.explanation"),
                    "source": "sdk",
                },
            )


def uuid7(moment: int, key: str) -> str:
    """Make a UUID of version 7 (RFC 9562), as Opik requires, that depends only on a time and a key.

    Args:
        moment: Unix time in nanoseconds.
        key: Text that identifies the record.
    """
    milliseconds = max(0, moment // 10**6) % 2**48
    rest = sha256(key.encode()).digest()
    marked = bytes((0x70 | rest[0] & 0x0F, rest[1], 0x80 | rest[2] & 0x3F))
    return str(UUID(bytes=milliseconds.to_bytes(6, "big") + marked + rest[3:10]))


def _trace(exported: TraceToExport, trace_id: str, first: int, clock: Clock) -> JsonObject:
    ends = [at for span in exported.trace.spans if (at := clock.at(span.end)) is not None]
    seconds = exported.seconds or 0.0
    last = max(ends) if ends else first + round(seconds * NANOSECONDS)
    return {
        "id": trace_id,
        "name": exported.name,
        "start_time": _moment(first),
        "end_time": _moment(max(first, last)),
        "input": {"input": exported.input},
        "output": {"output": exported.output},
        "metadata": {**exported.resource, **exported.attributes, "trivium.clock": clock.since},
        "tags": ["trivium"],
        "error_info": None if exported.error is None else _error(exported.error),
        "source": "sdk",
    }


def _span(span: Span, clock: Clock, first: int) -> JsonObject:
    start, end = clock.at(span.start), clock.at(span.end)
    record: JsonObject = {
        "name": span.name,
        "type": _SPAN_TYPES.get(span.kind, "general"),
        "start_time": _moment(first if start is None else start),
        "end_time": None if end is None else _moment(end),
        "input": None if span.input is None else {"input": span.input},
        "output": None if span.output is None else {"output": span.output},
        "metadata": {**span.attributes, "trivium.kind": span.kind, "trivium.agent": span.agent},
        "error_info": _error(span.attributes.get("error")) if span.ok is False else None,
        "source": "sdk",
    }
    if span.kind == "llm":
        record["model"] = span.name
    if span.usage is not None:
        tokens = {
            "prompt_tokens": span.usage.input_tokens,
            "completion_tokens": span.usage.output_tokens,
        }
        known = {key: number for key, number in tokens.items() if number is not None}
        if known:
            record["usage"] = known | {"total_tokens": sum(known.values())}
        if span.usage.cost_usd is not None:
            record["total_estimated_cost"] = span.usage.cost_usd
    return record


def _error(message: Any) -> dict[str, str]:
    """Return an error as Opik describes it; Opik requires a traceback, which the store does not have."""
    text = message if isinstance(message, str) else "it failed"
    return {"exception_type": "Error", "message": text, "traceback": ""}


def _moment(nanoseconds: int) -> datetime:
    return _EPOCH + timedelta(microseconds=nanoseconds // 1000)


def opik_metric(
    name: str, make: Callable[[], Any], *, lower_is_better: bool = False, references: str = "best"
) -> type[Metric]:
    """Wrap an Opik metric so that suites can name it.

    The parameters of its ``score`` are filled by name: ``input``, ``output``, ``reference`` or
    ``expected_output``, ``context`` (the case's source) and ``metadata``. If a required one is missing, the
    score is skipped. If the metric returns several results, the value is their mean; ``raw`` has each.

    Args:
        name: Its name in suites and reports, such as ``opik.contains``.
        make: Makes the metric; called once.
        lower_is_better: Whether 0 is the best value, as for hallucination.
        references: With several references, ``best`` or ``mean``.

    Raises:
        MissingExtra: If Opik is not installed.
    """
    try:
        import opik  # noqa: F401 - fail here, not in the middle of a run
    except ImportError:
        raise MissingExtra("opik", name) from None
    metric = cache(make)

    def compares() -> bool:
        return bool(_REFERENCES & set(signature(metric().score).parameters))

    def measure(metric_input: MetricInput, reference: str | None) -> Measurement:
        arguments = _arguments(metric_input, reference)
        parameters = signature(metric().score).parameters
        missing = [
            each.name
            for each in parameters.values()
            if each.default is Parameter.empty
            and each.kind not in {Parameter.VAR_KEYWORD, Parameter.VAR_POSITIONAL}
            and arguments.get(each.name) is None
        ]
        if missing:
            raise Skip(f"the metric needs {', '.join(missing)}, which the case and the attempt do not have")
        result = metric().score(
            **{key: value for key, value in arguments.items() if key in parameters and value is not None}
        )
        results = result if isinstance(result, list) else [result]
        failed = next((each for each in results if getattr(each, "scoring_failed", False)), None)
        if failed is not None or not results:
            raise RuntimeError(failed.reason if failed is not None else "the metric gave no result")
        values = [share(each.value, lower_is_better=lower_is_better) for each in results]
        known = [value for value in values if value is not None]
        detail = {each.name: each.value for each in results} if len(results) > 1 else {}
        reasons = [each.reason for each in results if each.reason]
        raw = [each.value for each in results] if len(results) > 1 else results[0].value
        return sum(known) / len(known) if known else None, raw, "; ".join(reasons) or None, detail

    return foreign_metric(name, measure, compares=compares, references=references)


def _arguments(metric_input: MetricInput, reference: str | None) -> JsonObject:
    case = metric_input.case
    return {
        "input": case.input_text,
        "output": metric_input.attempt.text,
        **dict.fromkeys(_REFERENCES, reference),
        "context": [case.source] if case.source is not None else None,
        "metadata": dict(case.metadata),
    }
