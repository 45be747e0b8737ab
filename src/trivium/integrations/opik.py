"""Opik: Trivium's metrics and judges in its ``evaluate``, and runs pushed to its server.

Importing this module before ``opik`` turns off what Opik reports of its own use and errors; who wants to
report sets ``OPIK_ANALYTICS_ENABLE`` and ``OPIK_SENTRY_ENABLE`` to true before.
"""

import os
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from trivium.errors import InputError, MissingExtra
from trivium.integrations.opik_records import attempt_records
from trivium.metrics.registry import metric_class
from trivium.metrics.scoring import score
from trivium.reports.wording import counted
from trivium.runs.run import Run
from trivium.store.export.told import told_of_run
from trivium.suites.settings import Settings
from trivium.suites.sources.rows import references_of
from trivium.traces.readers import read_trace
from trivium.traces.trace import Trace

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
            for told in told_of_run(run.store, record)
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
