"""The report of ``trivium traces score`` as blocks: what failed, then figures by agent, tool and model."""

from collections.abc import Iterable, Iterator, Sequence

from trivium.reports import wording
from trivium.reports.document.blocks import (
    Block,
    Column,
    Paragraph,
    Remarks,
    Row,
    Section,
    Table,
    Title,
    Toned,
    table,
)
from trivium.reports.summary import GATES
from trivium.reports.wording import NOTHING, dollars, seconds, share
from trivium.runs.summary import Figure
from trivium.runs.trace_scores.report import (
    AgentRow,
    ModelRow,
    Seconds,
    Tokens,
    ToolRow,
    TraceReport,
    WorstTrace,
)
from trivium.safe_text import one_line
from trivium.values import counted

MOST_ROWS = 15
"""Agents and tools that are listed; the others are counted."""

MOST_WORST = 10
"""Worst traces that are listed."""

FORMATS_NAMED = 4
"""Formats of files that the first line names."""

WORTH_A_LINE = 0.05
"""Share of an agent's calls in loops from which the answer names it."""

COMPLETED = "completed"
"""The metric that leaves out traces that have not ended."""

MOST_FILES = 3
"""Unreadable files, and files without traces, that are named."""

NAME_CHARS = 40

WITHOUT_VALUE = ("has no score:", "have no score:")
"""Part of a warning that a metric applies to no trace, which is no reservation here."""


def describe(report: TraceReport, *, rows: int = MOST_ROWS) -> Iterator[Block]:
    """Yield the blocks of a trace report: what failed, figures by agent, tool and model, reservations.

    Args:
        report: The report.
        rows: Most rows of each table; of the worst traces as many as the report has, if more than usual.
    """
    worst = MOST_WORST if rows == MOST_ROWS else rows
    yield Title(text=report.summary.suite, beside=report.run)
    yield Paragraph((headline(report),), "bad" if report.failed else "")
    if report.summary.gates:
        yield table(GATES, report.summary.gates, label="Gates")
    yield Paragraph((usage_line(report.seconds, report.tokens),))
    yield Paragraph(tuple(worst_lines(report)), "warn")
    if report.worst:
        yield Section(title="worst traces", blocks=tuple(_first("Worst traces", WORST, report.worst, worst)))
    yield from _first("Agents", AGENTS, report.agents, rows)
    yield from _first("Tools", TOOLS, report.tools, rows)
    yield from _first("Models", MODELS, report.models, rows)
    if figures := wording.measured_metrics(report.summary):
        yield table(_metrics(report.unfinished), figures.items(), label="Metrics")
    yield Remarks(tuple(reservations(report)))
    yield Paragraph(tuple(filter(None, (wording.interval_note(report.summary),))), "quiet")


def _first(label: str, columns: Iterable[Column[Row]], rows: Sequence[Row], most: int) -> Iterator[Table]:
    """The table of the first rows, and the number of the others; none without rows."""
    asked = max(len(rows), MOST_ROWS + 1)  # the usual number lists fewer of the worst traces
    more = f"… and {len(rows) - most:,} more (--rows {asked})" if len(rows) > most else ""
    if rows:
        yield table(columns, rows[:most], label=label, notes=(more,))


def headline(report: TraceReport) -> str:
    """How many traces there are, and how many of them failed."""
    traces = counted(report.traces, "trace")
    if report.failed:
        passed = report.summary.pass_rate
        rate = share(1 - (passed.value or 0.0)) + (" of those that ended" if report.unfinished else "")
        if passed.ci95 is not None:
            rate += f", interval {share(1 - passed.ci95[1])} to {share(1 - passed.ci95[0])}"
        start = f"{report.failed:,} of {traces} failed ({rate})"
    else:
        inside = sum(row.failed for row in report.agents)
        though = f" as a whole ({counted(inside, 'run of an agent', 'runs of agents')} inside did)"
        start = f"{traces}, none failed{though if inside else ''}"
    unfinished = f", {report.unfinished:,} not finished" if report.unfinished else ""
    formats = ", ".join(f"{one_line(name)}" for name in list(report.formats)[:FORMATS_NAMED])
    more = len(report.formats) - FORMATS_NAMED
    which = f" ({formats}{f' and {more} more' if more > 0 else ''})" if report.formats else ""
    files = f" · {counted(report.files, 'file')}{which}" if report.files else ""
    unreadable = f" · {report.unreadable:,} unreadable" if report.unreadable else ""
    return f"{start}{unfinished}{files}{unreadable}"


def usage_line(times: Seconds, tokens: Tokens) -> str:
    """Wall time, tokens and cost in one line."""
    parts = []
    if times.n:
        parts.append(f"{seconds(times.p50)} median, {seconds(times.p95)} p95")
    else:
        parts.append("no times recorded")
    if tokens.input_tokens is None and tokens.output_tokens is None:
        parts.append("no tokens recorded")
    else:
        parts.append(
            f"{compact(tokens.input_tokens)} input and {compact(tokens.output_tokens)} output tokens"
        )
    if tokens.cost_usd is not None:
        parts.append(_cost(tokens, "at least "))
    elif (tokens.input_tokens, tokens.output_tokens) != (None, None):
        parts.append("cost unknown")
    return " · ".join(parts)


def _cost(tokens: Tokens, at_least: str = "≥ ") -> str:
    """The cost in dollars, and whether it is more because some tokens have no price."""
    more = at_least if tokens.at_least and tokens.cost_usd is not None else ""
    return more + dollars(tokens.cost_usd)


def compact(number: int | None) -> str:
    """``980``, ``12.3k``, ``4.5M``; a dash if unknown."""
    if number is None:
        return NOTHING
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if number >= size:
            return f"{number / min(size, 1e3 if unit == 'k' else size):.1f}{unit}"
    return f"{number:,}"


def worst_lines(report: TraceReport) -> Iterator[str]:
    """The tool with most failed calls, and the agent with most calls in loops."""
    tool = max(report.tools, key=lambda row: (row.failed, -row.calls), default=None)
    if tool is not None and tool.failed:
        yield (
            f"most failed calls: tool {_name(tool.tool)}, {tool.failed:,} of its {tool.calls:,} "
            f"({share(tool.failed / tool.calls)})"
        )
    agent = max(report.agents, key=lambda row: row.looped_calls, default=None)
    if agent is not None and agent.looped_calls >= WORTH_A_LINE * agent.calls > 0:
        yield (
            f"most calls in loops: agent {_name(agent.agent)}, {agent.looped_calls:,} of its {agent.calls:,} "
            f"({share(agent.looped_calls / agent.calls)}) in {counted(agent.loops, 'loop')}"
        )


AGENTS: tuple[Column[AgentRow], ...] = (
    Column("agent", lambda row: _name(row.agent), "name"),
    Column("traces", lambda row: f"{row.traces:,}", where="wide"),
    Column("runs", lambda row: f"{row.runs:,}"),
    Column("failed", lambda row: _count(row.failed)),
    Column("p50", lambda row: seconds(row.seconds.p50)),
    Column("p95", lambda row: seconds(row.seconds.p95)),
    Column("failed calls", lambda row: f"{row.failed_calls:,}/{row.calls:,}" if row.calls else NOTHING),
    Column("retries", lambda row: _count(row.retries), where="wide"),
    Column("looped", lambda row: _count(row.looped_calls)),
    Column("tokens", lambda row: _tokens(row.tokens), optional=True),
    Column("cost", lambda row: _cost(row.tokens), optional=True),
)
TOOLS: tuple[Column[ToolRow], ...] = (
    Column("tool", lambda row: _name(row.tool), "name"),
    Column("calls", lambda row: f"{row.calls:,}"),
    Column("traces", lambda row: f"{row.traces:,}"),
    Column("failed", lambda row: _count(row.failed)),
    Column("share", lambda row: share(row.failed / row.calls) if row.failed else NOTHING),
    Column("p50", lambda row: seconds(row.seconds.p50)),
    Column("p95", lambda row: seconds(row.seconds.p95)),
    Column("retries", lambda row: _count(row.retries)),
    Column("looped", lambda row: _count(row.looped_calls)),
)
MODELS: tuple[Column[ModelRow], ...] = (
    Column("model", lambda row: _name(row.model), "name"),
    Column("requests", lambda row: f"{row.requests:,}"),
    Column("failed", lambda row: _count(row.failed)),
    Column("p50", lambda row: seconds(row.seconds.p50)),
    Column("p95", lambda row: seconds(row.seconds.p95)),
    Column("input", lambda row: compact(row.tokens.input_tokens)),
    Column("output", lambda row: compact(row.tokens.output_tokens)),
    Column("cost", lambda row: _cost(row.tokens)),
)


def _metrics(unfinished: int) -> tuple[Column[tuple[str, Figure]], ...]:
    def measured(row: tuple[str, Figure]) -> str:
        if row[0] == COMPLETED and unfinished:
            return f"of those that ended; {unfinished:,} did not"
        return wording.measured(row[1])

    return (
        Column("metric", lambda row: row[0], "name"),
        Column("score", lambda row: Toned(wording.number(row[1].mean if row[1].n else None), "strong")),
        Column("interval", lambda row: wording.interval(row[1].ci95), "interval"),
        Column("traces", lambda row: f"{row[1].n or row[1].status.get('ok', 0):,}"),
        Column("measured", measured, "text", optional=True),
    )


def what_went_wrong(trace: WorstTrace) -> str:
    """``failed: timeout; 2 failed calls, 4 looped; 12.3 s``."""
    parts = []
    if trace.completed is False:
        error = one_line(trace.error, at_most=120)
        parts.append(f"failed: {error}" if error else "failed")
    elif trace.completed is None:
        parts.append("not finished")
    counts = [
        counted(trace.failed_calls, "failed call") if trace.failed_calls else "",
        counted(trace.retries, "retry", "retries") if trace.retries else "",
        counted(trace.looped_calls, "looped call") if trace.looped_calls else "",
    ]
    if any(counts):
        parts.append(", ".join(each for each in counts if each))
    if trace.seconds is not None:
        parts.append(seconds(trace.seconds))
    return "; ".join(parts)


WORST: tuple[Column[WorstTrace], ...] = (
    Column("", lambda trace: one_line(trace.case, at_most=72), "name"),
    Column("", what_went_wrong, "text"),
)


def reservations(report: TraceReport) -> Iterator[str]:
    """What changes how to read the figures, one line each."""
    if report.unreadable:
        named = "; ".join(one_line(str(problem), at_most=160) for problem in report.problems[:MOST_FILES])
        more = report.unreadable - MOST_FILES
        yield f"{report.unreadable:,} unreadable: {named}{f'; and {more:,} more' if more > 0 else ''}"
    if report.without_traces:
        named = ", ".join(_end(path) for path in report.without_traces[:MOST_FILES])
        more = len(report.without_traces) - MOST_FILES
        files = counted(len(report.without_traces), "file")
        yield f"no trace of a known format in {files}: {named}{f' and {more:,} more' if more > 0 else ''}"
    tokens = report.tokens
    if tokens.unpriced:
        yield f"no price is known for {counted(tokens.unpriced, 'model request')}: their cost is left out"
    if tokens.listed:
        yield f"the cost of {counted(tokens.listed, 'model request')} is today's list price"
    if tokens.partly:
        yield (
            f"{counted(tokens.partly, 'model request')} with cached or audio tokens that have no price: "
            "their cost is left out"
        )
    for warning in report.summary.warnings:
        if "unreadable" not in warning and not any(part in warning for part in WITHOUT_VALUE):
            yield one_line(warning, at_most=400)
    if report.failed < report.traces:
        yield "a trace that did not fail need not be right: traces state no expectation"


def _name(name: str | None, at_most: int = NAME_CHARS) -> str:
    return "(no agent)" if name is None else one_line(name, at_most=at_most)


def _end(path: str) -> str:
    """The file and its folder, without the folders above."""
    parts = path.replace("\\", "/").rsplit("/", 2)[-2:]
    return one_line("/".join(parts), at_most=60)


def _count(number: int) -> str:
    return f"{number:,}" if number else NOTHING


def _tokens(tokens: Tokens) -> str:
    if tokens.input_tokens is None and tokens.output_tokens is None:
        return NOTHING
    return f"{compact((tokens.input_tokens or 0) + (tokens.output_tokens or 0))}"
