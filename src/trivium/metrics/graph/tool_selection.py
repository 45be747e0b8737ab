"""Tool selection: how many of the calls were right ones (spec: metrics, T3.3)."""

from typing import Any

from trivium.metrics.graph.calls.counted import counted_calls, logical_calls
from trivium.metrics.graph.calls.matching import case_matching, counted_names
from trivium.metrics.graph.tool_metric import ToolMetric
from trivium.metrics.metric import Skip, metric
from trivium.metrics.score import Score
from trivium.suites.case import Case
from trivium.traces.trace import Span, Trace


@metric("tool_selection")
class ToolSelection(ToolMetric):
    """Correct calls / all calls, in [0, 1].

    With ``expect.optimal_tools``, a call is correct when it carries a context (``attributes.context``)
    whose optimal tool is the one called; where no call carries any context, ``expect.tools`` decides.
    With ``expect.tools``, the calls that match expected ones are correct (``tools.match``). Without
    either: skipped. No calls: 1 when none was expected, else 0.
    """

    def measure(self, trace: Trace, case: Case) -> Score:
        """The score of one trace.

        ``detail`` has calls, correct, logical calls and, where calls are expected, precision (1 without
        calls), recall (1 without expected calls), F1 and the extra calls by tool.
        """
        calls = counted_calls(trace, self.tools)
        matching = case_matching(trace, case, self.tools)
        detail: dict[str, Any] = {"calls": len(calls), "logical_calls": logical_calls(trace, self.tools)}
        if matching is not None:
            detail |= {
                "precision": matching.precision,
                "recall": matching.recall,
                "f1": matching.f1,
                "extra": counted_names(matching.extra),
            }
        optimal = case.expect.optimal_tools
        judged = _by_context(calls, optimal) if optimal else None
        if judged is not None:
            correct, without_context = judged
            detail |= {"correct": correct, "without_context": without_context}
            value = correct / len(calls)
        elif matching is not None:
            detail["correct"] = matching.matched
            value = matching.precision if calls else float(matching.expected == 0)
        elif optimal and not calls:
            value = 0.0
        elif optimal:
            raise Skip("no call carries a context, so expect.optimal_tools cannot be applied")
        else:
            raise Skip("the case states neither expect.tools nor expect.optimal_tools")
        return self.ok(value, detail=detail)


def _by_context(calls: tuple[Span, ...], optimal: dict[str, str]) -> tuple[int, int] | None:
    """Calls that are correct by their context and calls without one; None when no call has any."""
    correct = without = 0
    for call in calls:
        context = call.attributes.get("context")
        if not isinstance(context, str):
            without += 1
        elif optimal.get(context) == call.name:
            correct += 1
    return None if without == len(calls) else (correct, without)
