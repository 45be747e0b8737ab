"""Tables of ``trivium traces score`` for the terminal: what failed, figures by agent and tool, metrics."""

from collections.abc import Iterator, Sequence

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from trivium.reports import wording
from trivium.reports.escape import one_line
from trivium.reports.wording import NOTHING, counted, dollars, seconds, share
from trivium.runs.summary import Figure
from trivium.runs.trace_scores.report import AgentRow, Seconds, Tokens, ToolRow, TraceReport, WorstTrace

WIDE = 104
"""Width in columns from which the tables have all their columns."""

MOST_ROWS = 15
"""Agents and tools that are listed; the others are counted."""

MOST_WORST = 10
"""Worst traces that are listed."""

WORTH_A_LINE = 0.05
"""Share of an agent's calls in loops from which the answer names it."""

MOST_FILES = 3
"""Unreadable files, and files without traces, that are named."""

NAME_CHARS = 40
SHORT_NAME_CHARS = 17
"""Characters of a name in a wide and in a narrow terminal."""

WITHOUT_VALUE = ("has no score:", "have no score:")
"""Part of a warning that a metric applies to no trace, which is no reservation here."""


class TraceScoresTable:
    """A Rich renderable of a trace report.

    Args:
        report: The report.
    """

    def __init__(self, report: TraceReport) -> None:
        self.report = report

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        report, wide = self.report, options.max_width >= WIDE
        title = Text(one_line(report.summary.suite, at_most=300), style="bold")
        title.append(f"  {one_line(report.run)}", style="dim")
        yield title
        yield Text(headline(report), style="red" if report.failed else "")
        yield Text(usage_line(report.seconds, report.tokens))
        for line in worst_lines(report):
            yield Text(line, style="yellow")
        if report.agents:
            yield Text()
            yield _agents(report.agents, wide=wide)
        if report.tools:
            yield Text()
            yield _tools(report.tools, wide=wide)
        if wide and report.models:
            yield Text()
            yield _models(report)
        figures = wording.measured_metrics(report.summary)
        if figures:
            yield Text()
            yield _metrics(figures)
        for gate in report.summary.gates:
            yield Text(f"{one_line(gate.answer)}: {one_line(gate.gate)}, {wording.gate_sentence(gate)}")
        if report.worst:
            yield from _worst(report.worst)
        notes = list(reservations(report))
        if notes:
            yield Text()
            yield from (_marked(note) for note in notes)
        if note := wording.interval_note(report.summary):
            yield Text(f"\n{note}", style="dim")


def _marked(note: str) -> RenderableType:
    """A reservation with a hanging mark."""
    grid = Table.grid(padding=(0, 1))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_row(Text("!", style="bold yellow"), Text(note, style="yellow"))
    return grid


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
        start = f"{traces}, none failed"
    unfinished = f", {report.unfinished:,} not finished" if report.unfinished else ""
    formats = ", ".join(f"{one_line(name)}" for name in list(report.formats)[:3])
    more = len(report.formats) - 3
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
    """The tool that fails most, and the agent that loops most."""
    tool = max(report.tools, key=lambda row: row.failed, default=None)
    if tool is not None and tool.failed:
        yield (
            f"worst tool: {_name(tool.tool)} failed in {share(tool.failed / tool.calls)} of its calls "
            f"({tool.failed:,} of {tool.calls:,})"
        )
    agent = max(report.agents, key=lambda row: row.looped_calls, default=None)
    if agent is not None and agent.looped_calls >= WORTH_A_LINE * agent.calls > 0:
        yield (
            f"worst agent: {_name(agent.agent)} spent {share(agent.looped_calls / agent.calls)} of its calls "
            f"in {counted(agent.loops, 'loop')} ({agent.looped_calls:,} of {agent.calls:,})"
        )


def _agents(rows: Sequence[AgentRow], *, wide: bool) -> RenderableType:
    costs = any(row.tokens.cost_usd is not None for row in rows)
    tokens = any(row.tokens.input_tokens is not None for row in rows)
    columns = ["agent", *(["traces"] if wide else []), "runs", "failed", "p50", "p95", "failed calls"]
    columns += [*(["retries"] if wide else []), "looped"]
    columns += ["tokens"] if tokens else []
    columns += ["cost"] if costs else []
    table = _plain(*columns, wide=wide)
    for row in rows[:MOST_ROWS]:
        failed = f"{row.failed_calls:,}/{row.calls:,}" if row.calls else NOTHING
        cells = [
            _name(row.agent, NAME_CHARS if wide else SHORT_NAME_CHARS),
            *([f"{row.traces:,}"] if wide else []),
            f"{row.runs:,}",
        ]
        cells += [_count(row.failed), seconds(row.seconds.p50), seconds(row.seconds.p95), failed]
        cells += [*([_count(row.retries)] if wide else []), _count(row.looped_calls)]
        cells += [_tokens(row.tokens)] if tokens else []
        cells += [_cost(row.tokens)] if costs else []
        table.add_row(*cells)
    return _with_rest(table, len(rows))


def _tools(rows: Sequence[ToolRow], *, wide: bool) -> RenderableType:
    columns = ("tool", "calls", "traces", "failed", "share", "p50", "p95", "retries", "looped")
    table = _plain(*columns, wide=wide)
    for row in rows[:MOST_ROWS]:
        table.add_row(
            _name(row.tool, NAME_CHARS if wide else SHORT_NAME_CHARS + 6),
            f"{row.calls:,}",
            f"{row.traces:,}",
            _count(row.failed),
            share(row.failed / row.calls) if row.failed else NOTHING,
            seconds(row.seconds.p50),
            seconds(row.seconds.p95),
            _count(row.retries),
            _count(row.looped_calls),
        )
    return _with_rest(table, len(rows))


def _models(report: TraceReport) -> RenderableType:
    table = _plain("model", "requests", "failed", "p50", "p95", "input", "output", "cost", wide=True)
    for row in report.models[:MOST_ROWS]:
        table.add_row(
            _name(row.model),
            f"{row.requests:,}",
            _count(row.failed),
            seconds(row.seconds.p50),
            seconds(row.seconds.p95),
            compact(row.tokens.input_tokens),
            compact(row.tokens.output_tokens),
            _cost(row.tokens),
        )
    return _with_rest(table, len(report.models))


def _metrics(figures: dict[str, Figure]) -> RenderableType:
    table = _plain("metric", "score", "interval", "traces", wide=False)
    table.add_column(" measured", overflow="fold")
    for name, figure in figures.items():
        reported = wording.is_reported_only(figure)
        table.add_row(
            Text(one_line(name)),
            Text(NOTHING if reported else wording.number(figure.mean), style="bold"),
            wording.interval(figure.ci95),
            f"{figure.status.get('ok', 0) if reported else figure.n:,}",
            Text(f" {wording.measured(figure)}"),
        )
    return table


def _worst(worst: Sequence[WorstTrace]) -> Iterator[RenderableType]:
    kept = "" if len(worst) <= MOST_WORST else f" (the first {MOST_WORST} of {len(worst):,} listed by --json)"
    yield Text(f"\nworst traces{kept}", style="bold")
    grid = Table.grid(padding=(0, 2))
    grid.add_column(overflow="fold", max_width=36)
    grid.add_column(overflow="fold")
    for trace in worst[:MOST_WORST]:
        grid.add_row(Text(one_line(trace.case, at_most=72)), Text(what_went_wrong(trace)))
    yield Padding(grid, (0, 0, 0, 2))


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


def _plain(first: str, *others: str, wide: bool) -> Table:
    table = Table(box=None, padding=(0, 2 if wide else 1, 0, 0), pad_edge=False, header_style="dim")
    table.add_column(first, no_wrap=True)
    for name in others:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _with_rest(table: Table, rows: int) -> Table:
    if rows > MOST_ROWS:
        table.add_row(f"… and {rows - MOST_ROWS:,} more", *[""] * (len(table.columns) - 1))
    return table


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
