"""Records of a trace report: figures by agent, tool and model, metrics, the worst traces."""

import msgspec

from trivium.display import RichRepr
from trivium.errors import Problem
from trivium.runs.summary import Summary


class Seconds(msgspec.Struct, frozen=True, kw_only=True):
    """Durations in seconds: how many are known, their median and their 95th percentile (None without any)."""

    n: int
    p50: float | None
    p95: float | None


class Tokens(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens and cost of model requests.

    Attributes:
        input_tokens: Sum; None if no request reports them.
        output_tokens: Likewise.
        cost_usd: Reported costs, and today's list price of the other requests; None if no request has either.
        listed: Number of requests whose cost is a list price.
        unpriced: Requests with tokens, but without a reported cost or a known price.
        partly: Those of the listed ones with tokens of a class, such as cached ones, that has no price.
    """

    input_tokens: int | None
    output_tokens: int | None
    cost_usd: float | None
    listed: int = 0
    unpriced: int = 0
    partly: int = 0

    @property
    def at_least(self) -> bool:
        """Whether some tokens are not in the cost, because no price is known."""
        return bool(self.unpriced or self.partly)


class AgentRow(msgspec.Struct, frozen=True, kw_only=True):
    """One agent over all traces.

    Attributes:
        agent: Its name; None for work that belongs to no agent.
        traces: Traces in which it acted.
        runs: Its runs.
        failed: Runs that failed.
        unfinished: Runs that never ended.
        seconds: Durations of its runs.
        calls: Tool calls that it made.
        failed_calls: Calls that failed.
        retries: Calls that repeat a failed call with the same arguments.
        loops: Loops (the same calls with the same arguments at least three times in a row).
        looped_calls: Calls after the first round of a loop.
        requests: Model requests.
        tokens: Tokens and cost of these requests.
    """

    agent: str | None
    traces: int
    runs: int
    failed: int
    unfinished: int
    seconds: Seconds
    calls: int
    failed_calls: int
    retries: int
    loops: int
    looped_calls: int
    requests: int
    tokens: Tokens


class ToolRow(msgspec.Struct, frozen=True, kw_only=True):
    """One tool over all traces; the fields are those of :class:`AgentRow`."""

    tool: str
    traces: int
    calls: int
    failed: int
    unfinished: int
    seconds: Seconds
    retries: int
    looped_calls: int


class ModelRow(msgspec.Struct, frozen=True, kw_only=True):
    """One model over all traces."""

    model: str
    requests: int
    failed: int
    seconds: Seconds
    tokens: Tokens


class WorstTrace(msgspec.Struct, frozen=True, kw_only=True):
    """A trace in which something went wrong.

    Attributes:
        case: Its id in the run: the trace's own id, unless that is missing or taken.
        trace_id: Its own id.
        file: The file that holds it.
        completed: False if it failed, None if it has not ended.
        error: The recorded error of a failed trace, empty without one.
        failed_calls: Tool calls that failed.
        retries: Calls that repeat a failed call.
        looped_calls: Calls after the first round of a loop.
        seconds: Wall time, or None.
        cost_usd: Cost, or None.
    """

    case: str
    trace_id: str
    file: str
    completed: bool | None
    error: str
    failed_calls: int
    retries: int
    looped_calls: int
    seconds: float | None
    cost_usd: float | None


class TraceReport(RichRepr, msgspec.Struct, frozen=True, kw_only=True):
    """Scores of recorded traces; displays itself as tables in a terminal and in a notebook.

    Attributes:
        run: Id of the stored run (``Run.load(report.run)``).
        source: The files and folders, as they were named.
        traces: Number of traces scored.
        failed: Traces that ended with an error.
        unfinished: Traces that have not ended.
        files: Files read.
        formats: Number of traces by format.
        unreadable: Number of files and traces that cannot be read.
        not_selected: Traces left out by the selection.
        renamed: Traces without an id of their own, or with an id that another trace has.
        seconds: Wall times of the traces.
        tokens: Tokens and cost of all traces.
        calls: Tool calls.
        failed_calls: Tool calls that failed.
        retries: Tool calls that repeat a failed call.
        loops: Loops of tool calls.
        agents: Figures by agent, those with most runs first.
        tools: Figures by tool, those with most calls first.
        models: Figures by model, those with most requests first.
        worst: The worst traces: failed ones, then unfinished ones, each by failed, repeated and looped calls.
        problems: The first thousand unreadable files and traces, and why.
        without_traces: The first thousand files of the folders that hold no trace of a known format.
        summary: Summary of the stored run, with the metrics and their intervals.
    """

    run: str
    source: str
    traces: int
    failed: int
    unfinished: int
    files: int
    formats: dict[str, int]
    unreadable: int
    not_selected: int
    renamed: int
    seconds: Seconds
    tokens: Tokens
    calls: int
    failed_calls: int
    retries: int
    loops: int
    agents: tuple[AgentRow, ...]
    tools: tuple[ToolRow, ...]
    models: tuple[ModelRow, ...]
    worst: tuple[WorstTrace, ...]
    problems: tuple[Problem, ...]
    without_traces: tuple[str, ...]
    summary: Summary
