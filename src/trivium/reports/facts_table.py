"""What traces hold, for the terminal."""

from collections import Counter
from collections.abc import Mapping

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from trivium.reports.untrusted import one_line
from trivium.traces.facts import TraceFacts

MOST_ROWS = 30
"""Agents, tools or pairs listed; the others are counted."""

MOST_PROBLEMS = 10


class FactsTable:
    """Counts of a file's traces, and what had to be repaired in them.

    Args:
        facts: As ``trace_facts`` counts them.
        handoffs: Tool spans that are hand-offs and no calls, by name.
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


def _tokens(read: int | None, written: int | None) -> str:
    if read is None and written is None:
        return "not recorded"
    counts = (f"{tokens:,}" if tokens is not None else "not recorded" for tokens in (read, written))
    return "{} in, {} out".format(*counts)
