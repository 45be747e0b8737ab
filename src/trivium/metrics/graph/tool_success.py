"""Tool success: how many of the calls did not fail (spec: metrics, T3.5)."""

from trivium.metrics.graph.calls.counted import counted_calls, logical_calls
from trivium.metrics.graph.calls.matching import counted_names
from trivium.metrics.graph.tool_metric import ToolMetric
from trivium.metrics.metric import Skip, metric
from trivium.metrics.score import Score
from trivium.suites.case import Case
from trivium.traces.trace import Trace


@metric("tool_success")
class ToolSuccess(ToolMetric):
    """Calls that did not fail / calls, in [0, 1]; skipped when there are none.

    A call that never finished did not fail; ``detail`` counts those apart.
    """

    def measure(self, trace: Trace, case: Case) -> Score:
        """The score of one trace; ``detail`` has the failed calls by tool."""
        calls = counted_calls(trace, self.tools)
        if not calls:
            raise Skip("no tool was called")
        failed = [call for call in calls if call.ok is False]
        return self.ok(
            (len(calls) - len(failed)) / len(calls),
            detail={
                "calls": len(calls),
                "failed": counted_names(failed),
                "unfinished": sum([call.ok is None for call in calls]),
                "logical_calls": logical_calls(trace, self.tools),
            },
        )
