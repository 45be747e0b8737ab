"""A Trivium metric as an evaluator of pydantic-evals."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

from trivium.errors import MissingExtra
from trivium.metrics.registry import metric_class
from trivium.metrics.scoring import score
from trivium.suites.settings import Settings
from trivium.suites.sources.datasets import references_of

__all__ = ["TriviumMetric"]

try:
    from pydantic_evals.evaluators import EvaluationReason, Evaluator, EvaluatorContext
except ImportError:
    raise MissingExtra("pydantic-evals", "An evaluator of pydantic-evals") from None


@dataclass
class TriviumMetric(Evaluator[Any, Any, Any]):  # type: ignore[misc]  # its package is not followed
    """Scores an output with a metric of Trivium, against ``expected_output``.

    A metric that does not apply says nothing, so that it is missing from the report, not 0 in it; one that
    fails raises, which the report lists.

    Attributes:
        metric: Its name, such as ``jaccard``.
        settings: Keys of a suite's settings, such as ``{"encoder": "…"}``.
    """

    metric: str
    settings: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        metric_class(self.metric, Settings(**self.settings))

    def get_default_evaluation_name(self) -> str:
        """The metric's name, in place of the class's."""
        return self.metric

    async def evaluate(self, ctx: "EvaluatorContext[Any, Any, Any]") -> Any:
        """The score with its reason, or nothing where the metric does not apply."""
        found = await asyncio.to_thread(
            score,
            self.metric,
            output=_plain(ctx.output),
            references=references_of(ctx.expected_output),
            seconds=ctx.duration,
            id=ctx.name or "1",
            input=_plain(ctx.inputs),
            **self.settings,
        )
        if found.status == "error":
            raise RuntimeError(found.reason)
        return {} if found.value is None else EvaluationReason(value=found.value, reason=found.reason)


def _plain(value: Any) -> Any:
    """An object of pydantic as JSON has it; anything else as it is."""
    return value.model_dump(mode="json") if hasattr(value, "model_dump") else value
