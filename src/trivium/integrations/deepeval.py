"""DeepEval metrics as Trivium metrics; shared input mapping.

Importing this module before ``deepeval`` turns off what DeepEval reports of its own use; who wants to report
sets ``DEEPEVAL_TELEMETRY_OPT_OUT`` to 0 before.
"""

import os
from collections.abc import Callable
from inspect import signature
from typing import Any

import msgspec

from trivium.errors import MissingExtra
from trivium.metrics.metric import Metric, MetricInput, Score, Skip
from trivium.metrics.registry import metric

__all__ = ["deepeval_metric"]

os.environ.setdefault("DEEPEVAL_TELEMETRY_OPT_OUT", "1")


def deepeval_metric(
    name: str, make: Callable[[], Any], *, lower_is_better: bool = False, references: str = "best"
) -> type[Metric]:
    """A metric of DeepEval as one that suites may name.

    A test case is made of each attempt: input, output, reference (``expected_output``), source (``context``
    and ``retrieval_context``), the tools that were called and those expected. What the metric needs and the
    attempt lacks makes the score skipped; a score outside [0, 1] is kept as ``raw`` alone.

    Args:
        name: How suites and reports call it, such as ``deepeval.faithfulness``.
        make: Makes the metric; called for every score, for DeepEval's metrics remember their last one.
        lower_is_better: Whether 0 is best there, as for toxicity, bias and hallucination.
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

    def judge(subject: MetricInput, reference: str | None) -> Verdict:
        case, attempt = subject.case, subject.attempt
        source = [case.source] if case.source is not None else None
        expected = case.expect.tools
        test_case = LLMTestCase(
            input=as_text(case.input),
            actual_output=attempt.text,
            expected_output=reference if reference is not None else next(iter(case.references), None),
            context=source,
            retrieval_context=source,
            tools_called=None
            if attempt.trace is None
            else [_called(ToolCall, s) for s in attempt.trace.tool_calls],
            expected_tools=None
            if expected is None
            else [ToolCall(name=tool.name, input_parameters=tool.arguments) for tool in expected],
            completion_time=attempt.seconds,
        )
        metric = make()
        if hasattr(metric, "async_mode"):
            metric.async_mode = False  # scores are taken on a thread that has no event loop to share
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

    return foreign_metric(name, judge, compares=compares, references=references)


def _called(make: Any, span: Any) -> Any:
    given = span.input if isinstance(span.input, dict) else None
    return make(name=span.name, input_parameters=given, output=span.output)


Verdict = tuple[float | None, Any, str | None, dict[str, Any]]
"""A value in [0, 1] or None, the raw figure, the reason given, and whatever else a report may show."""

Judge = Callable[[MetricInput, str | None], Verdict]
"""Scores a subject against one reference, or against none."""


def foreign_metric(
    name: str, judge: Judge, *, compares: Callable[[], bool], references: str = "best"
) -> type[Metric]:
    """A metric of another tool as a class that suites may name.

    Args:
        name: How suites and reports call it.
        judge: Asks the other tool.
        compares: Whether it looks at a reference; asked when the first attempt is scored.
        references: With several references, ``best`` takes the highest value, ``mean`` their mean.
    """
    if references not in {"best", "mean"}:
        raise ValueError(f'references: found "{references}", expected best or mean')

    @metric(name)
    class Foreign(Metric):
        """A metric of another tool."""

        def score(self, subject: MetricInput) -> Score:
            """What the other tool says, for each reference where it looks at one."""
            references_used: list[str | None] = list(subject.case.references) if compares() else [None]
            if not references_used:
                raise Skip("the case has no reference")
            verdicts = [judge(subject, reference) for reference in references_used]
            values = [value for value, *_ in verdicts if value is not None]
            raw = [figure for _, figure, *_ in verdicts] if len(verdicts) > 1 else verdicts[0][1]
            at = max(range(len(verdicts)), key=lambda index: _or_less(verdicts[index][0]))
            value = None if not values else max(values) if references == "best" else sum(values) / len(values)
            return self.ok(value, raw=raw, reason=verdicts[at][2], detail=verdicts[at][3])

    return Foreign


def _or_less(value: float | None) -> float:
    return -1.0 if value is None else value


def share(value: Any, *, lower_is_better: bool = False) -> float | None:
    """A figure as a value in [0, 1], higher better; None where it lies outside."""
    if isinstance(value, bool):
        value = float(value)
    if not isinstance(value, int | float) or not 0 <= value <= 1:
        return None
    return 1.0 - value if lower_is_better else float(value)


def as_text(value: Any) -> str:
    """A text as it is, any other JSON value as its canonical JSON."""
    if isinstance(value, str):
        return value
    return "" if value is None else msgspec.json.encode(value, order="deterministic").decode()
