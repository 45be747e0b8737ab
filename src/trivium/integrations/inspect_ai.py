"""A Trivium metric as a scorer of Inspect AI."""

from functools import partial
from typing import Any

from trivium.errors import MissingExtra
from trivium.formats.inspect_log.traces import trace_of_sample
from trivium.metrics.registry import metric_class
from trivium.metrics.scoring import score
from trivium.suites.settings import Settings

__all__ = ["trivium_scorer"]


def trivium_scorer(metric: str, **settings: Any) -> Any:
    """A scorer that is called like the metric, for ``Task(scorer=…)``.

    It sees the completion, the sample's targets as references, and for metrics of the trace tier what the
    agents did. A metric that does not apply leaves the sample unscored, with the reason; one that fails does
    too.

    Args:
        metric: Its name, such as ``jaccard`` or ``tool_success``.
        settings: Keys of a suite's settings, such as ``encoder``.

    Raises:
        MissingExtra: If Inspect AI is not installed.
        SuiteError: If no metric is called that.
    """
    try:
        from anyio import to_thread
        from inspect_ai.log import transcript
        from inspect_ai.scorer import Score, mean, scorer, stderr
    except ImportError:
        raise MissingExtra("inspect-ai", "A scorer of Inspect AI") from None
    tier = metric_class(metric, Settings(**settings)).tier

    @scorer(metrics=[mean(), stderr()], name=metric)  # type: ignore[untyped-decorator]  # not followed
    def trivium() -> Any:
        async def judge(state: Any, target: Any) -> Any:
            fields: dict[str, Any] = {}
            if tier == "trace":
                events = [event.model_dump(mode="json", exclude_none=True) for event in transcript().events]
                fields["trace"] = trace_of_sample({"id": str(state.sample_id), "events": events})
            found = await to_thread.run_sync(
                partial(
                    score,
                    metric,
                    output=state.output.completion,
                    references=[text for text in target if text],
                    input=state.input_text,
                    **fields,
                    **settings,
                )
            )
            value = float("nan") if found.value is None else found.value
            metadata = {"status": found.status} | ({} if found.raw is None else {"raw": found.raw})
            return Score(value=value, explanation=found.reason, metadata=metadata)

        return judge

    return trivium()
