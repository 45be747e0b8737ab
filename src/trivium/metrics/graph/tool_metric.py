"""Tool metric: what the metrics of tool calls have in common, the suite's settings for tools."""

from dataclasses import dataclass
from typing import Self

from trivium.metrics.graph.calls.counted import ALL_CALLS
from trivium.metrics.metric import TraceMetric
from trivium.suites.settings import Settings, ToolSettings


@dataclass(frozen=True, kw_only=True)
class ToolMetric(TraceMetric):
    """A metric of the tool calls of a trace.

    Attributes:
        tools: Which calls count and how they are matched.
    """

    tools: ToolSettings = ALL_CALLS

    @classmethod
    def from_settings(cls, settings: Settings) -> Self:
        """The metric with the suite's settings for tools."""
        return cls(tools=settings.tools)
