"""Retry rate: how many of the tool calls only try again what had just failed (docs/process.md)."""

from trivium.metrics.graph.calls.counted import counted_calls
from trivium.metrics.graph.calls.matching import counted_names
from trivium.metrics.graph.tool_metric import ToolMetric
from trivium.metrics.metric import Skip, metric
from trivium.metrics.score import Score
from trivium.suites.case import Case
from trivium.traces.process.repeated_calls import repeated_calls
from trivium.traces.trace import Trace


@metric("retry_rate")
class RetryRate(ToolMetric):
    """1 − retries / calls, in [0, 1]; ``raw`` is the rate of retries, lower is better.

    A retry is a call by the same agent, of the same tool, with the same arguments as one that failed, when
    that was the latest such call. Skipped without calls.
    """

    def measure(self, trace: Trace, case: Case) -> Score:
        """The score of one trace.

        ``detail`` has the retries by tool, those that did not fail again, and the calls that repeat what had
        succeeded.
        """
        calls = counted_calls(trace, self.tools)
        if not calls:
            raise Skip("no tool was called")
        found = repeated_calls(calls)
        retries = [calls[one.call] for one in found if one.retry]
        rate = len(retries) / len(calls)
        return self.ok(
            1.0 - rate,
            raw=rate,
            detail={
                "calls": len(calls),
                "retries": counted_names(retries),
                "recovered": sum([call.ok is True for call in retries]),
                "repeats": counted_names([calls[one.call] for one in found if not one.retry]),
            },
        )
