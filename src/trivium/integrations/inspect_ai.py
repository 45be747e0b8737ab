"""Wraps Trivium metrics as scorers of Inspect AI."""

from functools import partial
from typing import Any

from trivium.errors import MissingExtra
from trivium.formats.inspect_log.traces import trace_of_sample
from trivium.metrics.registry import metric_class
from trivium.metrics.scoring import score
from trivium.suites.settings import Settings

__all__ = ["trivium_scorer"]


def trivium_scorer(metric: str, **settings: Any) -> Any:
    """Make a scorer with the name of the metric, for ``Task(scorer=…)``.

    The metric gets the completion, the sample's targets as references and, if it is of the trace tier, the
    sample's events as a trace. If it does not apply or fails, the sample is unscored (NaN), with the reason.

    Args:
        metric: Name of the metric, such as ``jaccard`` or ``tool_success``.
        settings: Keys of a suite's settings, such as ``encoder``.

    Raises:
        MissingExtra: If Inspect AI is not installed.
        SuiteError: If no metric has this name.
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
        async def measure(state: Any, target: Any) -> Any:
            fields: dict[str, Any] = {}
            if tier == "trace":
                events = [event.model_dump(mode="json", exclude_none=True) for event in transcript().events]
                fields["trace"] = trace_of_sample({"id": str(state.sample_id), "events": events})
            result = await to_thread.run_sync(
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
            value = float("nan") if result.value is None else result.value
            metadata = {"status": result.status} | ({} if result.raw is None else {"raw": result.raw})
            return Score(value=value, explanation=result.reason, metadata=metadata)

        return measure

    return trivium()
