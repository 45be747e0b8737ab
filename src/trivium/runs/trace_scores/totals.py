"""Adds up traces one by one: figures by agent, tool and model, and the worst traces.

Of each trace only numbers are kept: 8 bytes for the duration of each of its spans.
"""

from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from trivium.metrics.judge.budget.prices import Prices
from trivium.runs.trace_scores.report import AgentRow, ModelRow, Seconds, Tokens, ToolRow, WorstTrace
from trivium.traces.outcome import (
    completed,
    counted_usage,
    outermost_spans,
    recorded_error,
    stated_usage,
)
from trivium.traces.process.loops import CallRepeats
from trivium.traces.process.timing import agent_of
from trivium.traces.trace import Span, SpanUsage, Trace, wall_seconds
from trivium.values import Largest, record_of

WORST_KEPT = 100
"""Most traces that are listed among the worst."""


class _Tally:
    """Counts of one agent, tool or model, or of all traces."""

    def __init__(self) -> None:
        self.traces = self.spans = self.failed = self.unfinished = 0
        self.calls = self.failed_calls = self.retries = self.loops = self.looped_calls = 0
        self.requests = self.listed = self.unpriced = self.partly = 0
        self.input_tokens: int | None = None
        self.output_tokens: int | None = None
        self.cost_usd: float | None = None
        self.durations = array("d")

    def add_span(self, span: Span) -> None:
        self.spans += 1
        self.failed += span.ok is False
        self.unfinished += span.ok is None
        if span.start is not None and span.end is not None:
            self.durations.append(span.end - span.start)

    def add_usage(self, usage: SpanUsage, cost: float | None, *, complete: bool = True) -> None:
        if usage.input_tokens is not None:
            self.input_tokens = (self.input_tokens or 0) + usage.input_tokens
        if usage.output_tokens is not None:
            self.output_tokens = (self.output_tokens or 0) + usage.output_tokens
        if cost is not None:
            self.cost_usd = (self.cost_usd or 0.0) + cost
            self.listed += usage.cost_usd is None
            self.partly += not complete
        elif usage.input_tokens or usage.output_tokens:
            self.unpriced += 1

    @property
    def seconds(self) -> Seconds:
        """Percentiles are interpolated linearly."""
        if not len(self.durations):
            return Seconds(n=0, p50=None, p95=None)
        import numpy as np

        p50, p95 = np.quantile(np.asarray(self.durations), (0.5, 0.95)).tolist()
        return Seconds(n=len(self.durations), p50=p50, p95=p95)

    @property
    def tokens(self) -> Tokens:
        return record_of(Tokens, self)


class TraceTotals:
    """Figures over traces, filled by :meth:`add`."""

    def __init__(self) -> None:
        self.whole = _Tally()
        self._agents: defaultdict[str | None, _Tally] = defaultdict(_Tally)
        self._tools: defaultdict[str, _Tally] = defaultdict(_Tally)
        self._models: defaultdict[str, _Tally] = defaultdict(_Tally)
        self._prices = Prices((), {})
        self._worst: Largest[WorstTrace] = Largest(WORST_KEPT)

    def add(self, trace: Trace, *, case: str, file: str) -> float | None:
        """Add a trace and return its cost in US dollars, or None if it is not known as a whole.

        Args:
            trace: The trace.
            case: Its id in the run.
            file: The file that holds it.
        """
        ended, seconds, cost = completed(trace), wall_seconds(trace), self._add_usage(trace)
        self.whole.traces += 1
        self.whole.failed += ended is False
        self.whole.unfinished += ended is None
        if seconds is not None:
            self.whole.durations.append(seconds)
        own, calls = _Tally(), trace.tool_calls
        self._add_calls(calls, own)
        for agent in {*self._add_spans(trace.spans), *map(agent_of, calls)}:
            self._agents[agent].traces += 1
        for tool in {call.name for call in calls}:
            self._tools[tool].traces += 1
        wasted = own.failed_calls + own.retries + own.looped_calls
        if wasted or ended is not True:
            self._worst.add(
                (ended is False, ended is None, wasted, seconds or 0.0),
                lambda: record_of(
                    WorstTrace,
                    own,
                    case=case,
                    trace_id=trace.trace_id,
                    file=file,
                    completed=ended,
                    error=_error_of(trace),
                    seconds=seconds,
                    cost_usd=cost,
                ),
            )
        return cost

    def _add_spans(self, spans: Iterable[Span]) -> Iterator[str | None]:
        """Add runs and model requests, and yield the agent of each."""
        for span in spans:
            if span.kind not in {"agent", "llm"}:
                continue
            name = agent_of(span)
            if span.kind == "agent":
                self._agents[name].add_span(span)
            else:
                self._models[span.name].add_span(span)
                self._agents[name].requests += 1
                self.whole.requests += 1
            yield name

    def _add_calls(self, calls: Sequence[Span], own: _Tally) -> None:
        repeats = CallRepeats(calls)
        retries = {one.call for one in repeats.repeated if one.retry}
        for position, call in enumerate(calls):
            self._tools[call.name].add_span(call)
            for tally in (own, self._tools[call.name], self._agents[agent_of(call)], self.whole):
                tally.calls += 1
                tally.failed_calls += call.ok is False
                tally.retries += position in retries
                tally.looped_calls += position in repeats.looped
        for loop in repeats.loops:
            self._agents[loop.agent].loops += 1
            self.whole.loops += 1

    def _add_usage(self, trace: Trace) -> float | None:
        stated = stated_usage(trace)
        if stated is not None:
            self.whole.add_usage(stated, stated.cost_usd)
        total = None if stated is None else stated.cost_usd
        whole = True
        for span, usage in counted_usage(trace):
            model = span.name if span.kind == "llm" else None
            cost, complete = self._prices.recorded_cost(model, usage)
            if stated is None:
                self.whole.add_usage(usage, cost, complete=complete)
            self._agents[agent_of(span)].add_usage(usage, cost, complete=complete)
            if model is not None:
                self._models[model].add_usage(usage, cost, complete=complete)
            if stated is None and cost is not None:
                total = (total or 0.0) + cost
                whole = whole and complete
        return total if whole else None

    @property
    def worst(self) -> tuple[WorstTrace, ...]:
        """The worst traces, worst first."""
        return self._worst.items()

    @property
    def agents(self) -> tuple[AgentRow, ...]:
        """Figures by agent."""
        rows = [
            record_of(AgentRow, tally, agent=name, runs=tally.spans) for name, tally in self._agents.items()
        ]
        return tuple(sorted(rows, key=lambda row: (row.agent is None, -row.runs, row.agent or "")))

    @property
    def tools(self) -> tuple[ToolRow, ...]:
        """Figures by tool."""
        rows = [record_of(ToolRow, tally, tool=name) for name, tally in self._tools.items()]
        return tuple(sorted(rows, key=lambda row: (-row.calls, row.tool)))

    @property
    def models(self) -> tuple[ModelRow, ...]:
        """Figures by model."""
        rows = [
            record_of(ModelRow, tally, model=name, requests=tally.spans)
            for name, tally in self._models.items()
        ]
        return tuple(sorted(rows, key=lambda row: (-row.requests, row.model)))


def _error_of(trace: Trace) -> str:
    """The recorded error of a failed trace; empty without one."""
    failed = next((span for span in outermost_spans(trace) if span.ok is False), None)
    return "" if failed is None else recorded_error(trace, failed).removeprefix(": ")
