"""Action match: whether exactly the expected changes were made (spec: metrics, T3.13)."""

from collections.abc import Iterable
from typing import Any

from trivium.metrics.graph.calls.counted import counted_calls
from trivium.metrics.graph.calls.matching import match
from trivium.metrics.graph.tool_metric import ToolMetric
from trivium.metrics.metric import Skip, metric
from trivium.metrics.score import Score
from trivium.suites.case import Case, ExpectedTool
from trivium.traces.trace import Trace

MOST_LISTED = 100
"""Missing and extra calls listed with their arguments; those beyond are counted."""


@metric("action_match")
class ActionMatch(ToolMetric):
    """1 when the successful calls that change state are exactly those expected, else 0.

    Calls are compared as a multiset, with their arguments (an expected call without arguments takes any).
    A tool changes no state when the suite lists it in ``tools.read_only`` or the case expects it with
    ``reads: true``; every other tool does. Skipped when the case does not state its calls.
    """

    def measure(self, trace: Trace, case: Case) -> Score:
        """The score of one trace.

        ``detail`` lists what is missing and what is extra, with precision (1 when nothing was changed)
        and recall (1 when no change was expected).
        """
        expected = case.expect.tools
        if expected is None:
            raise Skip("the case does not state expect.tools")
        reading = self._reading(expected)
        writes = [
            call for call in counted_calls(trace, self.tools) if call.ok is True and call.name not in reading
        ]
        wanted = [
            tool for tool in expected if tool.name not in reading and tool.name not in self.tools.ignore
        ]
        found = match(writes, wanted, "arguments")
        detail: dict[str, Any] = {
            "missing": _listed((tool.name, tool.arguments) for tool in found.missing[:MOST_LISTED]),
            "extra": _listed((call.name, call.input) for call in found.extra[:MOST_LISTED]),
            "precision": found.precision,
            "recall": found.recall,
        }
        left_out = max(0, len(found.missing) - MOST_LISTED) + max(0, len(found.extra) - MOST_LISTED)
        if left_out:
            detail["left_out"] = left_out
        return self.ok(float(not found.missing and not found.extra), detail=detail)

    def _reading(self, expected: Iterable[ExpectedTool]) -> set[str]:
        """Tools that change no state; what the case says of a tool outweighs what the suite says."""
        reading = set(self.tools.read_only)
        for tool in expected:
            if tool.reads:
                reading.add(tool.name)
            elif tool.reads is False:
                reading.discard(tool.name)
        return reading


def _listed(calls: Iterable[tuple[str, Any]]) -> list[dict[str, Any]]:
    return [{"name": name, "arguments": arguments} for name, arguments in calls]
