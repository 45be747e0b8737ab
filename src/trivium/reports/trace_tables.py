"""Tables of ``trivium traces show``: contents of traces, and the process that they record."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Protocol

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from trivium.reports.escape import one_line
from trivium.reports.wording import NOTHING, counted, seconds, share
from trivium.traces.process.handoffs import PingPong
from trivium.traces.process.loops import HandOffLoop
from trivium.traces.process.process import PathStep
from trivium.traces.process.timing import TimeShare
from trivium.traces.process.totals import ProcessTotals, SlowestTrace
from trivium.traces.summary import TraceFacts

MOST_ROWS = 30
"""Agents, tools or pairs listed; the others are counted."""

MOST_PROBLEMS = 10


class FactsTable:
    """Counts of a file's traces, and the problems repaired in them.

    Args:
        facts: Result of ``trace_facts``.
        handoffs: Tool spans that are hand-offs rather than calls, by name.
    """

    def __init__(self, facts: TraceFacts, *, handoffs: Mapping[str, int]) -> None:
        self._facts = facts
        self._handoffs = handoffs

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        facts = self._facts
        kinds = ", ".join(f"{number:,} {kind}" for kind, number in sorted(facts.kinds.items()))
        traces = "1 trace" if facts.traces == 1 else f"{facts.traces:,} traces"
        yield Text(f"{traces} of format {facts.format}", style="bold")
        yield Text(f"{facts.spans:,} spans ({kinds or 'none'}), {facts.max_depth:,} levels deep")
        yield Text(f"tokens: {_tokens(facts.llm_input_tokens, facts.llm_output_tokens)}")
        yield Text(f"tool calls that failed: {facts.failed_tool_spans:,}\n")
        yield from _counts("agent", "runs", facts.agent_runs)
        yield from _counts("tool", "calls", Counter(facts.tools) - Counter(self._handoffs))
        yield from _counts("hand-off recorded as a tool", "times", self._handoffs)
        between = {f"{sender} → {receiver}": n for sender, receiver, n in facts.agent_to_agent}
        yield from _counts("from → to", "messages", between)
        for kind, number in Counter(problem.kind for problem in facts.problems).most_common():
            yield Text(f"! {one_line(kind)}: {number:,}", style="yellow")
        for problem in facts.problems[:MOST_PROBLEMS]:
            where = f"span {problem.span}: " if problem.span else ""
            yield Text(one_line(f"  {where}{problem.what}"))
        if len(facts.problems) > MOST_PROBLEMS:
            yield Text(f"  … and {len(facts.problems) - MOST_PROBLEMS:,} more (--json lists all)")


def _counts(what: str, counted: str, counts: Mapping[str, int]) -> RenderResult:
    if not counts:
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column(what)
    table.add_column(counted, justify="right")
    ranked = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    for name, number in ranked[:MOST_ROWS]:
        table.add_row(Text(one_line(name, at_most=60)), f"{number:,}")
    if len(ranked) > MOST_ROWS:
        table.add_row(f"… and {len(ranked) - MOST_ROWS:,} more", "")
    yield table
    yield Text("")


def _tokens(inputs: int | None, outputs: int | None) -> str:
    if inputs is None and outputs is None:
        return "not recorded"
    counts = (f"{tokens:,}" if tokens is not None else "not recorded" for tokens in (inputs, outputs))
    return "{} in, {} out".format(*counts)


MOST_PROCESS_ROWS = 15
"""Rows in each table; the others are counted."""
PROCESS_NAME_CHARS = 40


class ProcessTable:
    """A Rich renderable of the process that traces record.

    Args:
        totals: Result of ``process_totals``.
        traces: Number of traces.
    """

    def __init__(self, totals: ProcessTotals, *, traces: int) -> None:
        self._totals = totals
        self._traces = traces

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        totals = self._totals
        if totals.seconds is not None:
            yield from self._times(totals)
        yield from _repeats(totals)
        yield from _handoffs(totals)
        if totals.unfinished:
            unfinished = {f"{kind} {name}": number for kind, name, number in totals.unfinished}
            yield Text(f"\nunfinished: {_ranked_counts(unfinished)}", style="yellow")

    def _times(self, totals: ProcessTotals) -> RenderResult:
        whole = totals.seconds or 0.0
        yield Text(f"\nwall time {seconds(whole)}{self._of()}", style="bold")
        parts = []
        if totals.concurrency is not None:
            parts.append(f"{totals.concurrency:.2f} spans at work on average, {totals.most:,} at most")
        if whole:
            parts.append(f"two or more {share((totals.overlapped or 0.0) / whole)} of the time")
            parts.append(f"none {share((totals.waiting or 0.0) / whole)}")
        yield Text("; ".join(parts))
        for title, shares in (("agent", totals.by_agent), ("tool", totals.by_tool)):
            if shares:
                yield Text("")
                yield _shares(title, shares)
        if totals.slowest is not None:
            yield from _path(totals.slowest, alone=self._traces == 1)

    def _of(self) -> str:
        timed = self._totals.timed
        if self._traces == 1:
            return ""
        untimed = f" ({self._traces - timed:,} without times)" if timed < self._traces else ""
        elapsed = self._totals.elapsed
        # Concurrent traces take less time than the sum of their wall times.
        overall = "" if elapsed is None else f"; {seconds(elapsed)} from the first start to the last end"
        return f" of {counted(timed, 'trace')}{untimed}, added up{overall}"


def _shares(title: str, shares: Sequence[TimeShare]) -> Table:
    table = _plain(title, "share", "time", "work", "critical", "spans")
    for one in shares[:MOST_PROCESS_ROWS]:
        table.add_row(
            Text("nobody" if one.name is None else one_line(one.name, at_most=PROCESS_NAME_CHARS)),
            NOTHING if one.share is None else share(one.share),
            seconds(one.seconds),
            seconds(one.work),
            seconds(one.critical),
            f"{one.spans:,}",
        )
    _more(table, len(shares), 5)
    return table


def _path(slowest: SlowestTrace, *, alone: bool) -> RenderResult:
    of = "" if alone else f" of the slowest trace, {one_line(slowest.trace_id) or f'#{slowest.trace + 1}'}"
    steps = slowest.critical_path
    yield Text(
        f"\ncritical path{of}: {seconds(slowest.seconds)}, {counted(len(steps), 'step')}", style="bold"
    )
    table = _plain("step", "from", "own time", "share")
    longest = sorted(steps, key=lambda step: -step.seconds)[:MOST_PROCESS_ROWS]
    for step in sorted(longest, key=lambda step: step.at):
        table.add_row(
            Text(_step(step)),
            seconds(step.at),
            seconds(step.seconds),
            NOTHING if step.share is None else share(step.share),
        )
    _more(table, len(steps), 3)
    yield table
    sections = slowest.parallel_sections
    if sections:
        longest_section = max(sections, key=lambda section: section.seconds)
        yield Text(
            f"{counted(len(sections), 'parallel section')}, the longest {seconds(longest_section.seconds)} "
            f"from {seconds(longest_section.at)} with up to {longest_section.most:,} spans at once"
        )


def _step(step: PathStep) -> str:
    if step.span is None:
        return "no span at work"
    whose = f" of {one_line(step.agent, at_most=20)}" if step.agent and step.agent != step.name else ""
    return f"{step.kind} {one_line(step.name or '', at_most=30)}{whose}"


def _repeats(totals: ProcessTotals) -> RenderResult:
    repeated, looped = totals.repeated, totals.looped
    if repeated.retries:
        yield Text(
            f"\nretries of failed calls: {_ranked_counts(repeated.retries)}; "
            f"{repeated.recovered:,} of {sum(repeated.retries.values()):,} succeeded"
        )
    if repeated.repeats:
        yield Text(f"\ncalls repeated after a success: {_ranked_counts(repeated.repeats)}")
    if looped.loops:
        yield Text(
            f"\n{counted(looped.loops, 'loop')}: {looped.calls:,} of {counted(repeated.calls, 'tool call')} "
            "only repeat a loop",
            style="yellow",
        )
        yield from (Text(f"  {loop_words(loop)}") for loop in looped.longest[:MOST_PROCESS_ROWS])


def _handoffs(totals: ProcessTotals) -> RenderResult:
    handoffs = totals.hand_offs
    if not handoffs.messages:
        return
    yield Text(
        f"\nhand-offs: {counted(handoffs.messages, 'message')} in {counted(handoffs.chains, 'chain')}; "
        f"the longest: {arrow_chain(handoffs.longest)}"
    )
    yield from (
        Text(f"  {ping_pong_words(game)}", style="yellow") for game in handoffs.ping_pongs[:MOST_PROCESS_ROWS]
    )
    yield from (
        Text(f"  {handoff_loop_words(one)}", style="yellow") for one in handoffs.circuits[:MOST_PROCESS_ROWS]
    )


def _ranked_counts(counts: Mapping[str, int]) -> str:
    ranked = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    names_shown = [
        f"{one_line(name, at_most=PROCESS_NAME_CHARS)} {number:,}"
        for name, number in ranked[:MOST_PROCESS_ROWS]
    ]
    omitted = len(ranked) - len(names_shown)
    return ", ".join(names_shown) + (f" and {omitted:,} more" if omitted else "")


def _plain(first: str, *others: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column(first)
    for name in others:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _more(table: Table, rows: int, columns: int) -> None:
    if rows > MOST_PROCESS_ROWS:
        table.add_row(f"… and {rows - MOST_PROCESS_ROWS:,} more", *[""] * columns)


MOST_NAMED = 8
"""Names shown of a chain or a loop; the middle of longer ones is counted."""
NAME_CHARS = 30


class _Round(Protocol):
    @property
    def agent(self) -> str | None: ...
    @property
    def tools(self) -> tuple[str, ...]: ...
    @property
    def rounds(self) -> int: ...


def arrow_chain(names: Sequence[str]) -> str:
    """Names joined by arrows, without the middle of a long chain."""
    names_shown = [one_line(name, at_most=NAME_CHARS) for name in names[:MOST_NAMED]]
    if len(names) > MOST_NAMED:
        half = MOST_NAMED // 2
        ends = [one_line(name, at_most=NAME_CHARS) for name in names[-half:]]
        names_shown = [*names_shown[:half], f"({len(names) - MOST_NAMED:,} more)", *ends]
    return " → ".join(names_shown)


def loop_words(loop: _Round) -> str:
    """``search → read, 4 times, by solver``."""
    by = "" if loop.agent is None else f", by {one_line(loop.agent, at_most=NAME_CHARS)}"
    return f"{arrow_chain(loop.tools)}, {loop.rounds:,} times{by}"


def ping_pong_words(game: PingPong) -> str:
    """``Ping-pong: a ⇄ b, 5 messages``."""
    one, other = (one_line(name, at_most=NAME_CHARS) for name in game.agents)
    return f"Ping-pong: {one} ⇄ {other}, {game.messages:,} messages"


def handoff_loop_words(loop: HandOffLoop) -> str:
    """``Loop of hand-offs: a → b → c, 3 times``."""
    return f"Loop of hand-offs: {arrow_chain(loop.agents)}, {loop.rounds:,} times"
