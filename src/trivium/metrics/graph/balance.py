"""Task balance: how evenly the work was spread over the agents (spec: metrics, T3.11)."""

from collections.abc import Collection
from math import sqrt

from trivium.metrics.graph.calls.counted import counted_calls
from trivium.metrics.graph.tool_metric import ToolMetric
from trivium.metrics.metric import metric
from trivium.metrics.score import Score
from trivium.suites.case import Case
from trivium.traces.trace import Trace


def balance(tasks: Collection[int]) -> float:
    """max(0, 1 − standard deviation / mean), with the sample standard deviation (ddof 1).

    Args:
        tasks: Number of tasks of each agent.

    Returns:
        In [0, 1]; 1 for fewer than two agents or no task at all.
    """
    total = sum(tasks)
    if len(tasks) < 2 or total == 0:
        return 1.0
    mean = total / len(tasks)
    deviation = sqrt(sum([(count - mean) ** 2 for count in tasks]) / (len(tasks) - 1))
    return max(0.0, 1.0 - deviation / mean)


@metric("task_balance")
class TaskBalance(ToolMetric):
    """How evenly tool calls and model requests are spread over the agents, in [0, 1].

    Agents that were only addressed count with no task. Fewer than two agents, or no task at all: 1.
    """

    def measure(self, trace: Trace, case: Case) -> Score:
        """The score of one trace; ``detail`` has every agent's tasks, and those that are nobody's."""
        tasks = dict.fromkeys(trace.agents, 0)
        nobodys = 0
        done = [span.agent for span in trace.spans if span.kind == "llm"]
        done += [call.agent for call in counted_calls(trace, self.tools)]
        for agent in done:
            if agent is None:
                nobodys += 1
            else:
                tasks[agent] += 1
        detail = {"tasks": tasks, "unassigned": nobodys}
        return self.ok(balance(tasks.values()), detail=detail)
