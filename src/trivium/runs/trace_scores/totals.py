"""Adds up traces one by one: figures by agent, tool and model, and the worst traces.

Of each trace only numbers are kept: 8 bytes for the duration of each of its spans.
"""

from array import array
from collections import defaultdict
from collections.abc import Iterable, Sequence

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
        return seconds_of(self.durations)

    @property
    def tokens(self) -> Tokens:
        return record_of(Tokens, self)


def seconds_of(durations: "array[float] | Sequence[float]") -> Seconds:
    """The number, the median and the 95th percentile (linear interpolation) of durations."""
    if not len(durations):
        return Seconds(n=0, p50=None, p95=None)
    import numpy as np

    p50, p95 = np.quantile(np.asarray(durations), (0.5, 0.95)).tolist()
    return Seconds(n=len(durations), p50=p50, p95=p95)


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
        ended = completed(trace)
        self.whole.traces += 1
        self.whole.failed += ended is False
        self.whole.unfinished += ended is None
        if (seconds := wall_seconds(trace)) is not None:
            self.whole.durations.append(seconds)
        content = _TraceContent(trace)
        self._add_spans(trace.spans, content)
        self._add_calls(content)
        cost = self._add_usage(trace)
        for agent in content.agents:
            self._agents[agent].traces += 1
        for tool in content.tools:
            self._tools[tool].traces += 1
        self._rank(content, case=case, file=file, ended=ended, cost=cost)
        return cost

    def _add_spans(self, spans: Iterable[Span], content: "_TraceContent") -> None:
        for span in spans:
            if span.kind == "agent":
                name = agent_of(span)
                self._agents[name].add_span(span)
                content.agents.add(name)
            elif span.kind == "llm":
                name = agent_of(span)
                self._models[span.name].add_span(span)
                self._agents[name].requests += 1
                self.whole.requests += 1
                content.agents.add(name)

    def _add_calls(self, content: "_TraceContent") -> None:
        looped = content.repeats.looped
        retries = {one.call for one in content.repeats.repeated if one.retry}
        for position, call in enumerate(content.calls):
            tool = self._tools[call.name]
            tool.add_span(call)
            content.tools.add(call.name)
            owner = agent_of(call)
            content.agents.add(owner)
            tallies = (tool, self._agents[owner], self.whole)
            for tally in tallies:
                tally.calls += 1
            if call.ok is not False and position not in retries and position not in looped:
                continue
            for tally in tallies:
                tally.failed_calls += call.ok is False
                tally.retries += position in retries
                tally.looped_calls += position in looped
        for loop in content.repeats.loops:
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

    def _rank(
        self, content: "_TraceContent", *, case: str, file: str, ended: bool | None, cost: float | None
    ) -> None:
        """Keep the trace if it is among the worst in which anything went wrong."""
        repeats = content.repeats
        failed_calls = sum([call.ok is False for call in content.calls])
        retries = sum([one.retry for one in repeats.repeated])
        wasted = failed_calls + retries + len(repeats.looped)
        if ended is True and not wasted:
            return
        seconds = wall_seconds(content.trace)

        def described() -> WorstTrace:
            failed = next((span for span in outermost_spans(content.trace) if span.ok is False), None)
            return WorstTrace(
                case=case,
                trace_id=content.trace.trace_id,
                file=file,
                completed=ended,
                error="" if failed is None else recorded_error(content.trace, failed).removeprefix(": "),
                failed_calls=failed_calls,
                retries=retries,
                looped_calls=len(repeats.looped),
                seconds=seconds,
                cost_usd=cost,
            )

        self._worst.add((ended is False, ended is None, wasted, seconds or 0.0), described)

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


class _TraceContent:
    """What one trace holds."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.calls = trace.tool_calls
        self.repeats = CallRepeats(self.calls)
        self.agents: set[str | None] = set()
        self.tools: set[str] = set()
