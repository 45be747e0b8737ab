"""Metrics of tool calls: recall, selection, success, efficiency, and match with the expected actions."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from trivium.metrics.graph.matching import (
    ALL_CALLS,
    case_matching,
    counted_calls,
    counted_names,
    logical_calls,
    match,
)
from trivium.metrics.metric import Metric, MetricInput, Score, Skip, Tier, TraceMetric
from trivium.metrics.registry import metric
from trivium.suites.case import Case, ExpectedTool
from trivium.suites.settings import Settings, ToolSettings
from trivium.traces.trace import NO_CALLS, Span, Trace


@dataclass(frozen=True, kw_only=True)
class ToolMetric(TraceMetric):
    """A metric of the tool calls of a trace.

    Attributes:
        tools: Which calls count and how they are matched.
    """

    compares_arguments: ClassVar[bool] = False
    """Whether it always compares arguments, not only with ``tools.match: arguments``."""

    tools: ToolSettings = ALL_CALLS

    def score(self, metric_input: MetricInput) -> Score:
        """Score the attempt's trace; skipped if it does not record the calls, or arguments that count."""
        trace = metric_input.attempt.trace
        for lost in () if trace is None else trace.not_recorded:
            if lost == NO_CALLS or self._needs_arguments(metric_input.case):
                raise Skip(lost)
        return super().score(metric_input)

    def _needs_arguments(self, case: Case) -> bool:
        stated = any(tool.arguments is not None for tool in case.expect.tools or ())
        return self.compares_arguments or (stated and self.tools.match == "arguments")

    @classmethod
    def from_settings(cls, settings: Settings) -> Self:
        """Make the metric with the suite's tool settings."""
        return cls(tools=settings.tools)


@metric("tool_recall", case_fields=("expect.tools",))
class ToolRecall(ToolMetric):
    """Expected calls that were made / expected calls, in [0, 1]; 1 when none was expected.

    Definition: docs/definitions/traces.md#tool-recall.

    Calls are matched according to ``tools.match``. Skipped if the case does not state ``expect.tools``.
    """

    def measure(self, trace: Trace, case: Case) -> Score:
        """Score one trace; ``detail`` has the missing calls by tool."""
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


@metric("tool_selection", case_fields=("expect.tools", "expect.optimal_tools"))
class ToolSelection(ToolMetric):
    """Correct calls / all calls, in [0, 1].

    Definition: docs/definitions/traces.md#tool-selection.

    With ``expect.optimal_tools``, a call is correct if its context (``attributes.context``) has the called
    tool as optimal tool; if no call has a context, ``expect.tools`` decides. With ``expect.tools``, the calls
    that match expected ones are correct (``tools.match``). Skipped without either. Without calls it is 1 if
    none was expected, else 0.
    """

    def measure(self, trace: Trace, case: Case) -> Score:
        """Score one trace.

        ``detail`` has the numbers of calls, correct calls and logical calls. If the case states its calls, it
        also has precision (1 without calls), recall (1 without expected calls), F1 and extra calls by tool.
        """
        calls = counted_calls(trace, self.tools)
        matching = case_matching(trace, case, self.tools)
        detail: dict[str, object] = {"calls": len(calls), "logical_calls": logical_calls(trace, self.tools)}
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
    """Count calls that are correct for their context, and calls without a context; None if none has one."""
    correct = without = 0
    for call in calls:
        context = call.attributes.get("context")
        if not isinstance(context, str):
            without += 1
        elif optimal.get(context) == call.name:
            correct += 1
    return None if without == len(calls) else (correct, without)


@metric("tool_success")
class ToolSuccess(ToolMetric):
    """Calls that did not fail / calls, in [0, 1]; skipped when there are none.

    Definition: docs/definitions/traces.md#tool-success.

    An unfinished call counts as not failed; ``detail`` has the number of unfinished calls.
    """

    def measure(self, trace: Trace, case: Case) -> Score:
        """Score one trace; ``detail`` has the failed calls by tool."""
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


PARTS = ("path_convergence", "tool_selection")


@metric("tool_efficiency", needs=PARTS)
class ToolEfficiency(Metric):
    """Mean of ``path_convergence`` and ``tool_selection``, over those that are not skipped.

    Definition: docs/definitions/traces.md#tool-efficiency.
    """

    tier: ClassVar[Tier] = "trace"

    def score(self, metric_input: MetricInput) -> Score:
        """Score one attempt; an error if one of its parts is an error."""
        parts = {name: metric_input.scores[name] for name in PARTS}
        for name, part in parts.items():
            if part.status == "error":
                return self.error(f"{name}: {part.reason}")
        values = {name: part.value for name, part in parts.items() if part.value is not None}
        if not values:
            raise Skip(f"{PARTS[0]}: {parts[PARTS[0]].reason}; {PARTS[1]}: {parts[PARTS[1]].reason}")
        return self.ok(sum(values.values()) / len(values), detail=dict(values))


MOST_LISTED = 100
"""Most missing and most extra calls that are listed with their arguments; further ones are counted."""


@metric("action_match", case_fields=("expect.tools",))
class ActionMatch(ToolMetric):
    """1 when the successful calls that change state are exactly those expected, else 0.

    Definition: docs/definitions/traces.md#action-match.

    Calls are compared as a multiset, with their arguments (an expected call without arguments matches any). A
    tool changes no state if the suite lists it in ``tools.read_only`` or the case expects it with ``reads:
    true``; every other tool does. Skipped if the case does not state ``expect.tools``.
    """

    compares_arguments = True

    def measure(self, trace: Trace, case: Case) -> Score:
        """Score one trace.

        ``detail`` has the missing and the extra calls, precision (1 without state-changing calls) and recall
        (1 if none was expected).
        """
        expected = case.expect.tools
        if expected is None:
            raise Skip("the case does not state expect.tools")
        read_only = self._read_only(expected)
        writes = [
            call
            for call in counted_calls(trace, self.tools)
            if call.ok is True and call.name not in read_only
        ]
        wanted = [
            tool for tool in expected if tool.name not in read_only and tool.name not in self.tools.ignore
        ]
        found = match(writes, wanted, "arguments")
        detail: dict[str, object] = {
            "missing": _listed((tool.name, tool.arguments) for tool in found.missing[:MOST_LISTED]),
            "extra": _listed((call.name, call.input) for call in found.extra[:MOST_LISTED]),
            "precision": found.precision,
            "recall": found.recall,
        }
        left_out = max(0, len(found.missing) - MOST_LISTED) + max(0, len(found.extra) - MOST_LISTED)
        if left_out:
            detail["left_out"] = left_out
        return self.ok(float(not found.missing and not found.extra), detail=detail)

    def _read_only(self, expected: Iterable[ExpectedTool]) -> set[str]:
        """Return the tools that change no state; the case overrides the suite."""
        read_only = set(self.tools.read_only)
        for tool in expected:
            if tool.reads:
                read_only.add(tool.name)
            elif tool.reads is False:
                read_only.discard(tool.name)
        return read_only


def _listed(calls: Iterable[tuple[str, Any]]) -> list[dict[str, object]]:
    return [{"name": name, "arguments": arguments} for name, arguments in calls]
