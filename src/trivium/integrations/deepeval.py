"""Wraps DeepEval metrics as Trivium metrics; ``foreign_metric`` does the same for any other tool.

Importing this module before ``deepeval`` turns off DeepEval's telemetry. Set ``DEEPEVAL_TELEMETRY_OPT_OUT=0``
to keep it on.
"""

import os
from collections.abc import Callable
from inspect import signature
from typing import Any

from trivium.errors import MissingExtra
from trivium.metrics.metric import Metric, MetricInput, Score, Skip
from trivium.metrics.registry import metric

__all__ = ["deepeval_metric"]

os.environ.setdefault("DEEPEVAL_TELEMETRY_OPT_OUT", "1")


def deepeval_metric(
    name: str, make: Callable[[], Any], *, lower_is_better: bool = False, references: str = "best"
) -> type[Metric]:
    """Wrap a DeepEval metric so that suites can name it.

    Each attempt becomes a test case with input, output, reference (``expected_output``), source (``context``
    and ``retrieval_context``), called tools and expected tools. If the metric needs something that the
    attempt lacks, the score is skipped. A value outside [0, 1] is only reported as ``raw``.

    Args:
        name: Its name in suites and reports, such as ``deepeval.faithfulness``.
        make: Makes the metric; called for every score, because DeepEval's metrics hold their last score.
        lower_is_better: Whether 0 is the best value, as for toxicity, bias and hallucination.
        references: With several references, ``best`` or ``mean``.

    Raises:
        MissingExtra: If DeepEval is not installed.
    """
    try:
        from deepeval.errors import MissingTestCaseParamsError
        from deepeval.test_case import LLMTestCase, SingleTurnParams, ToolCall
    except ImportError:
        raise MissingExtra("deepeval", name) from None

    def compares() -> bool:
        needed = getattr(make(), "_required_params", None)
        return isinstance(needed, list) and SingleTurnParams.EXPECTED_OUTPUT in needed

    def measure(metric_input: MetricInput, reference: str | None) -> Measurement:
        case, attempt = metric_input.case, metric_input.attempt
        source = [case.source] if case.source is not None else None
        expected = case.expect.tools
        test_case = LLMTestCase(
            input=case.input_text,
            actual_output=attempt.text,
            expected_output=reference if reference is not None else next(iter(case.references), None),
            context=source,
            retrieval_context=source,
            tools_called=None
            if attempt.trace is None
            else [_tool_call(ToolCall, span) for span in attempt.trace.tool_calls],
            expected_tools=None
            if expected is None
            else [ToolCall(name=tool.name, input_parameters=tool.arguments) for tool in expected],
            completion_time=attempt.seconds,
        )
        metric = make()
        if hasattr(metric, "async_mode"):
            metric.async_mode = False  # this thread has no event loop
        quiet = (
            {"_show_indicator": False} if "_show_indicator" in signature(metric.measure).parameters else {}
        )
        try:
            metric.measure(test_case, **quiet)
        except MissingTestCaseParamsError as missing:
            raise Skip(str(missing)) from None
        if metric.error is not None:
            raise RuntimeError(metric.error)
        detail = {
            "passed": metric.is_successful(),
            "model": metric.evaluation_model,
            "cost_usd": metric.evaluation_cost,
        }
        details = {key: value for key, value in detail.items() if value is not None}
        return share(metric.score, lower_is_better=lower_is_better), metric.score, metric.reason, details

    return foreign_metric(name, measure, compares=compares, references=references)


def _tool_call(make: Any, span: Any) -> Any:
    arguments = span.input if isinstance(span.input, dict) else None
    return make(name=span.name, input_parameters=arguments, output=span.output)


Measurement = tuple[float | None, Any, str | None, dict[str, Any]]
"""A value in [0, 1] or None, the raw value, the reason, and details for reports."""

Measure = Callable[[MetricInput, str | None], Measurement]
"""Scores an attempt against one reference, or against none."""


def foreign_metric(
    name: str, measure: Measure, *, compares: Callable[[], bool], references: str = "best"
) -> type[Metric]:
    """Make a metric class that calls another tool.

    Args:
        name: Its name in suites and reports.
        measure: Calls the other tool.
        compares: Whether the tool's metric uses a reference; called for every score.
        references: With several references, ``best`` takes the highest value, ``mean`` their mean.

    Raises:
        ValueError: If ``references`` is neither.
    """
    if references not in {"best", "mean"}:
        raise ValueError(f'references: found "{references}", expected best or mean')

    @metric(name)
    class Foreign(Metric):
        """A metric of another tool."""

        def score(self, metric_input: MetricInput) -> Score:
            """Call the other tool: once per reference if it uses one, else once."""
            references_used: list[str | None] = list(metric_input.case.references) if compares() else [None]
            if not references_used:
                raise Skip("the case has no reference")
            measured = [measure(metric_input, reference) for reference in references_used]
            values = [value for value, *_ in measured if value is not None]
            raw = [raw for _, raw, *_ in measured] if len(measured) > 1 else measured[0][1]
            best = max(measured, key=lambda each: -1.0 if each[0] is None else each[0])
            value = None if not values else max(values) if references == "best" else sum(values) / len(values)
            return self.ok(value, raw=raw, reason=best[2], detail=best[3])

    return Foreign


def share(value: Any, *, lower_is_better: bool = False) -> float | None:
    """Convert a number or truth value to a value in [0, 1], higher is better; None if it lies outside."""
    if isinstance(value, bool):
        value = float(value)
    if not isinstance(value, int | float) or not 0 <= value <= 1:
        return None
    return 1.0 - value if lower_is_better else float(value)
