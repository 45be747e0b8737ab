"""Wraps Trivium metrics as evaluators of pydantic-evals."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

from trivium.errors import MissingExtra
from trivium.metrics.registry import metric_class
from trivium.metrics.scoring import score
from trivium.suites.columns import texts_of
from trivium.suites.settings import Settings

__all__ = ["TriviumMetric"]

try:
    from pydantic_evals.evaluators import EvaluationReason, Evaluator, EvaluatorContext
except ImportError:
    raise MissingExtra("pydantic-evals", "An evaluator of pydantic-evals") from None


@dataclass
class TriviumMetric(Evaluator[Any, Any, Any]):  # type: ignore[misc]  # its package is not followed
    """Scores an output with a Trivium metric, against ``expected_output``.

    A metric that does not apply is absent from the report rather than 0. A metric that fails raises, and the
    report lists the error.

    Attributes:
        metric: Name of the metric, such as ``jaccard``.
        settings: Keys of a suite's settings, such as ``{"encoder": "…"}``.
    """

    metric: str
    settings: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        metric_class(self.metric, Settings(**self.settings))

    def get_default_evaluation_name(self) -> str:
        """Return the metric's name instead of the class name."""
        return self.metric

    async def evaluate(self, ctx: "EvaluatorContext[Any, Any, Any]") -> Any:
        """Return the score with its reason, or an empty mapping if the metric does not apply."""
        result = await asyncio.to_thread(
            score,
            self.metric,
            output=_plain(ctx.output),
            references=texts_of(ctx.expected_output),
            seconds=ctx.duration,
            id=ctx.name or "1",
            input=_plain(ctx.inputs),
            **self.settings,
        )
        if result.status == "error":
            raise RuntimeError(result.reason)
        return {} if result.value is None else EvaluationReason(value=result.value, reason=result.reason)


def _plain(value: Any) -> Any:
    """Dump a pydantic model as JSON values; return anything else as it is."""
    return value.model_dump(mode="json") if hasattr(value, "model_dump") else value
