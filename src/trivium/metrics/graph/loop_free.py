"""Loop free: the share of the tool calls that are not a further round of a loop (docs/process.md)."""

from trivium.metrics.graph.calls.counted import counted_calls
from trivium.metrics.graph.tool_metric import ToolMetric
from trivium.metrics.metric import Skip, metric
from trivium.metrics.score import Score
from trivium.suites.case import Case
from trivium.traces.process.loops import call_loops, looped_calls
from trivium.traces.trace import Trace

LOOPS_TOLD = 5


@metric("loop_free")
class LoopFree(ToolMetric):
    """1 − calls after the first round of a loop / calls, in [0, 1]; ``raw`` is the share that goes round.

    A loop is the same calls with the same arguments by one agent, three times or more in a row. Skipped
    without calls.
    """

    def measure(self, trace: Trace, case: Case) -> Score:
        """The score of one trace; ``detail`` has the number of loops and the longest of them."""
        calls = counted_calls(trace, self.tools)
        if not calls:
            raise Skip("no tool was called")
        loops = call_loops(calls)
        again = len(looped_calls(loops))
        return self.ok(
            1.0 - again / len(calls),
            raw=again / len(calls),
            detail={
                "calls": len(calls),
                "looped": again,
                "loops": len(loops),
                "longest": [
                    {"agent": loop.agent, "tools": list(loop.tools), "rounds": loop.rounds}
                    for loop in loops[:LOOPS_TOLD]
                ],
            },
        )
