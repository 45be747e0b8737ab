"""Opik: metrics in both directions, push of runs.

Importing this module before ``opik`` turns off what Opik reports of its own use and errors; who wants to
report sets ``OPIK_ANALYTICS_ENABLE`` and ``OPIK_SENTRY_ENABLE`` to true before.

Importing this module before ``opik`` turns off what Opik reports of its own use and errors; who wants to
report sets ``OPIK_ANALYTICS_ENABLE`` and ``OPIK_SENTRY_ENABLE`` to true before. A metric made with
``track=False`` sends no traces of its own either.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from inspect import Parameter, signature
from typing import Any
from uuid import UUID

import msgspec

from trivium.errors import InputError, MissingExtra
from trivium.integrations.deepeval import Verdict, as_text, foreign_metric, share
from trivium.metrics.metric import Metric, MetricInput, Skip
from trivium.metrics.registry import metric_class
from trivium.metrics.scoring import score
from trivium.reports.wording import counted
from trivium.runs.run import Run
from trivium.store.export.otlp import traces_of_run
from trivium.suites.settings import Settings
from trivium.suites.sources.datasets import references_of
from trivium.traces.opentelemetry.semconv import NANOSECONDS
from trivium.traces.readers import read_trace
from trivium.traces.trace import Span, Trace
from trivium.traces.writers.otlp import Clock, TraceToExport, clock_of

__all__ = ["Pushed", "opik_metric", "push", "trivium_metric"]

os.environ.setdefault("OPIK_ANALYTICS_ENABLE", "false")
os.environ.setdefault("OPIK_SENTRY_ENABLE", "false")

Record = tuple[str, dict[str, Any]]

MOST_RECORDS = 500
MOST_BYTES = 4 * 2**20
"""Of one request, unless a record alone is larger."""


def trivium_metric(metric: str, *, track: bool = False, **settings: Any) -> Any:
    """A metric or a judge of Trivium as a ``BaseMetric``, for ``opik.evaluate(scoring_metrics=[…])``.

    Its ``score`` takes ``output`` and, where they are there, ``input``, ``reference`` or ``expected_output``
    (a text or a list of them), ``context`` (the source document) and ``trace`` (Trivium's or any format that
    Trivium reads). A metric that does not apply, or fails, gives a result that says so
    (``scoring_failed``), which Opik leaves out of its means.

    Args:
        metric: Its name, such as ``jaccard``, ``tool_success`` or ``technical_accuracy``.
        track: Whether Opik records the metric's own call.
        settings: Keys of a suite's settings, such as ``encoder`` or ``judge``, but for ``references``.

    Raises:
        MissingExtra: If Opik is not installed.
        SuiteError: If no metric is called that.
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
            """What the metric says of an output."""
            found = score(
                metric,
                output=output,
                references=references_of(expected_output if reference is None else reference),
                input=input,
                source="\n\n".join(context) if isinstance(context, list) else context,
                trace=trace if trace is None or isinstance(trace, Trace) else read_trace(trace),
                **given,
            )
            return ScoreResult(
                name=self.name,
                value=0.0 if found.value is None else found.value,
                reason=found.reason,
                scoring_failed=found.value is None,
                metadata={"status": found.status, "raw": found.raw},
            )

    return TriviumMetric(name=metric, track=track)


class Pushed(msgspec.Struct, frozen=True, kw_only=True):
    """What went to Opik.

    Attributes:
        url: Of the server.
        traces: How many attempts.
        spans: How many spans.
        scores: How many feedback scores.
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

    Ids depend on the run and the attempt alone, so that a run pushed again is there once. Attempts are read
    and sent a batch at a time.

    Args:
        run: The run.
        url: The server's API, such as ``http://localhost:5173/api``; else what ``OPIK_URL_OVERRIDE`` or
            ``opik configure`` say.
        project: Name of the project; else the suite's.
        workspace: Name of the workspace, where the server has several.
        api_key: Its key, where it wants one.

    Raises:
        MissingExtra: If Opik is not installed.
        InputError: If the server cannot be reached, or refuses what is sent.
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
            for told in traces_of_run(run.store, record)
            for each in attempt_records(told, project=project, begun=record.created)
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


def _send(api: Any, kind: str, batch: list[dict[str, Any]]) -> None:
    from opik.rest_api.types.feedback_score_batch_item import FeedbackScoreBatchItem
    from opik.rest_api.types.span_write import SpanWrite
    from opik.rest_api.types.trace_write import TraceWrite

    if kind == "traces":
        api.traces.create_traces(traces=[TraceWrite(**record) for record in batch])
    elif kind == "spans":
        api.spans.create_spans(spans=[SpanWrite(**record) for record in batch])
    else:
        api.traces.score_batch_of_traces(scores=[FeedbackScoreBatchItem(**record) for record in batch])


def _batches(records: Iterable[Record]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Records by kind, traces before the spans and scores of theirs, none too large for a request."""
    waiting: dict[str, list[dict[str, Any]]] = {"traces": [], "spans": [], "scores": []}
    held = dict.fromkeys(waiting, 0)
    for kind, record in records:
        size = len(msgspec.json.encode(record))
        if waiting[kind] and (len(waiting[kind]) == MOST_RECORDS or held[kind] + size > MOST_BYTES):
            for each in dict.fromkeys(("traces", kind)):
                if waiting[each]:
                    yield each, waiting[each]
                waiting[each], held[each] = [], 0
        waiting[kind].append(record)
        held[kind] += size
    for kind, batch in waiting.items():
        if batch:
            yield kind, batch


def _so_far(traces: int) -> str:
    return f" ({counted(traces, 'trace')} had been sent)" if traces else ""


_TYPES = {"tool": "tool", "llm": "llm"}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def attempt_records(
    told: TraceToExport, *, project: str, begun: float
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The records of an attempt, each with the kind it is of: ``traces``, ``spans`` or ``scores``.

    Args:
        told: The attempt with its scores.
        project: Name of the project that it goes to.
        begun: Unix time that stands for what has no time of its own, seconds.
    """
    clock = clock_of(told.trace, told.started_at)
    usual = round(begun * NANOSECONDS)
    first = min((at for span in told.trace.spans if (at := clock.at(span.start)) is not None), default=usual)
    trace_id = uuid7(first, told.key)
    yield "traces", _trace(told, trace_id, first, clock) | {"project_name": project}
    ids = {
        span.id: uuid7(clock.at(span.start) or first, f"{told.key}\0{span.id}") for span in told.trace.spans
    }
    for span in told.trace.spans:
        its = _span(span, clock, first)
        parent = None if span.parent is None else ids[span.parent]
        place = {"id": ids[span.id], "trace_id": trace_id, "parent_span_id": parent, "project_name": project}
        yield "spans", its | place
    for _, fields in told.events:
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
    """An id of Opik's kind (RFC 9562, version 7) that depends on a time and a key alone.

    Args:
        moment: Nanoseconds since 1970.
        key: What it is of.
    """
    milliseconds = max(0, moment // 10**6) % 2**48
    rest = sha256(key.encode()).digest()
    marked = bytes((0x70 | rest[0] & 0x0F, rest[1], 0x80 | rest[2] & 0x3F))
    return str(UUID(bytes=milliseconds.to_bytes(6, "big") + marked + rest[3:10]))


def _trace(told: TraceToExport, trace_id: str, first: int, clock: Clock) -> dict[str, Any]:
    ends = [at for span in told.trace.spans if (at := clock.at(span.end)) is not None]
    seconds = told.seconds or 0.0
    last = max(ends) if ends else first + round(seconds * NANOSECONDS)
    return {
        "id": trace_id,
        "name": told.name,
        "start_time": _moment(first),
        "end_time": _moment(max(first, last)),
        "input": {"input": told.input},
        "output": {"output": told.output},
        "metadata": {**told.resource, **told.attributes, "trivium.clock": clock.since},
        "tags": ["trivium"],
        "error_info": None if told.error is None else _error(told.error),
        "source": "sdk",
    }


def _span(span: Span, clock: Clock, first: int) -> dict[str, Any]:
    start, end = clock.at(span.start), clock.at(span.end)
    record: dict[str, Any] = {
        "name": span.name,
        "type": _TYPES.get(span.kind, "general"),
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
    """Opik wants a traceback; what failed elsewhere has none here."""
    text = message if isinstance(message, str) else "it failed"
    return {"exception_type": "Error", "message": text, "traceback": ""}


def _moment(nanoseconds: int) -> datetime:
    return _EPOCH + timedelta(microseconds=nanoseconds // 1000)


os.environ.setdefault("OPIK_ANALYTICS_ENABLE", "false")
os.environ.setdefault("OPIK_SENTRY_ENABLE", "false")

_REFERENCES = frozenset({"reference", "expected_output", "ground_truth"})


def opik_metric(
    name: str, make: Callable[[], Any], *, lower_is_better: bool = False, references: str = "best"
) -> type[Metric]:
    """A metric of Opik as one that suites may name.

    Its ``score`` is given what its parameters are called for: ``input``, ``output``, ``reference`` or
    ``expected_output``, ``context`` (the case's source) and ``metadata``. One that it demands and the attempt
    lacks makes the score skipped. Of several results the mean is taken, and each is kept.

    Args:
        name: How suites and reports call it, such as ``opik.contains``.
        make: Makes the metric; called once.
        lower_is_better: Whether 0 is best there, as for hallucination.
        references: With several references, ``best`` or ``mean``.

    Raises:
        MissingExtra: If Opik is not installed.
    """
    try:
        import opik  # noqa: F401 - said here, not in the midst of a run
    except ImportError:
        raise MissingExtra("opik", name) from None
    made: list[Any] = []

    def metric() -> Any:
        if not made:
            made.append(make())
        return made[0]

    def compares() -> bool:
        return bool(_REFERENCES & set(signature(metric().score).parameters))

    def judge(subject: MetricInput, reference: str | None) -> Verdict:
        given = _given(subject, reference)
        wanted = signature(metric().score).parameters.values()
        lacking = [
            each.name
            for each in wanted
            if each.default is Parameter.empty
            and each.kind not in {Parameter.VAR_KEYWORD, Parameter.VAR_POSITIONAL}
            and given.get(each.name) is None
        ]
        if lacking:
            raise Skip(f"the metric needs {', '.join(lacking)}, which the case and the attempt do not have")
        names = {each.name for each in wanted}
        answer = metric().score(
            **{key: value for key, value in given.items() if key in names and value is not None}
        )
        results = answer if isinstance(answer, list) else [answer]
        failed = next((each for each in results if getattr(each, "scoring_failed", False)), None)
        if failed is not None or not results:
            raise RuntimeError(failed.reason if failed is not None else "the metric gave no result")
        values = [share(each.value, lower_is_better=lower_is_better) for each in results]
        known = [value for value in values if value is not None]
        detail = {each.name: each.value for each in results} if len(results) > 1 else {}
        reasons = [each.reason for each in results if each.reason]
        raw = [each.value for each in results] if len(results) > 1 else results[0].value
        return sum(known) / len(known) if known else None, raw, "; ".join(reasons) or None, detail

    return foreign_metric(name, judge, compares=compares, references=references)


def _given(subject: MetricInput, reference: str | None) -> dict[str, Any]:
    case = subject.case
    return {
        "input": as_text(case.input),
        "output": subject.attempt.text,
        **dict.fromkeys(_REFERENCES, reference),
        "context": [case.source] if case.source is not None else None,
        "metadata": dict(case.metadata),
    }
