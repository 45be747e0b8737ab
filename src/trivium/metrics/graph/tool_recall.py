"""Tool recall: how many of the expected calls were made (spec: metrics, T3.4)."""

from trivium.metrics.graph.calls.matching import case_matching, counted_names
from trivium.metrics.graph.tool_metric import ToolMetric
from trivium.metrics.metric import Skip, metric
from trivium.metrics.score import Score
from trivium.suites.case import Case
from trivium.traces.trace import Trace


@metric("tool_recall")
class ToolRecall(ToolMetric):
    """Expected calls that were made / expected calls, in [0, 1]; 1 when none was expected.

    Calls are matched as ``tools.match`` says. Skipped when the case does not state its calls.
    """

    def measure(self, trace: Trace, case: Case) -> Score:
        """The score of one trace; ``detail`` has the missing calls by tool."""
        matching = case_matching(trace, case, self.tools)
        if matching is None:
            raise Skip("the case does not state expect.tools")
        return self.ok(
            matching.recall,
            detail={
                "matched": matching.matched,
                "expected": matching.expected,
                "missing": counted_names(matching.missing),
            },
        )
