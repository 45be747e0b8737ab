"""The blocks of ``trivium traces show``: contents of traces, and the process that they record."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from trivium.reports.document.blocks import (
    Block,
    Paragraph,
    Remarks,
    Section,
    Table,
    table_of,
)
from trivium.reports.wording import known_share, seconds, share
from trivium.safe_text import one_line
from trivium.traces.process.process import PathStep
from trivium.traces.process.timing import TimeShare
from trivium.traces.process.totals import ProcessTotals, SlowestTrace, TraceFacts
from trivium.values import counted

MOST_ROWS = 30
"""Agents, tools or pairs listed; the others are counted."""

MOST_PROBLEMS = 10


def facts_blocks(facts: TraceFacts, *, handoffs: Mapping[str, int]) -> Iterator[Block]:
    """Yield counts of a file's traces, and the problems repaired in them.

    Args:
        facts: Result of ``trace_facts``.
        handoffs: Tool spans that are hand-offs rather than calls, by name.
    """
    kinds = ", ".join(f"{number:,} {kind}" for kind, number in sorted(facts.kinds.items()))
    yield Paragraph((f"{counted(facts.traces, 'trace')} of format {facts.format}",), "strong")
    lines = (
        f"{facts.spans:,} spans ({kinds or 'none'}), {facts.max_depth:,} levels deep",
        f"tokens: {_tokens(facts.llm_input_tokens, facts.llm_output_tokens)}",
        f"tool calls that failed: {facts.failed_tool_spans:,}",
    )
    yield Paragraph(lines)
    yield from _counts("agent", "runs", facts.agent_runs)
    yield from _counts("tool", "calls", Counter(facts.tools) - Counter(handoffs))
    yield from _counts("hand-off recorded as a tool", "times", handoffs)
    between = {f"{sender} → {receiver}": n for sender, receiver, n in facts.agent_to_agent}
    yield from _counts("from → to", "messages", between)
    repaired = Counter(problem.kind for problem in facts.problems).most_common()
    yield Remarks(tuple(f"{kind}: {number:,}" for kind, number in repaired))
    shown = [
        (f"span {problem.span}: " if problem.span else "") + problem.what
        for problem in facts.problems[:MOST_PROBLEMS]
    ]
    if (more := len(facts.problems) - MOST_PROBLEMS) > 0:
        shown.append(f"… and {more:,} more (--json lists all)")
    yield Paragraph(tuple(shown))


def _counts(what: str, counted: str, counts: Mapping[str, int]) -> Iterator[Table]:
    ranked = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    rows = [(one_line(name, at_most=60), f"{number:,}") for name, number in ranked]
    if rows:
        yield _first((what, counted), rows, MOST_ROWS)


def _first(heads: tuple[str, ...], rows: Sequence[tuple[str, ...]], most: int) -> Table:
    """The table of the first rows, and the number of the others."""
    more = f"… and {len(rows) - most:,} more" if len(rows) > most else ""
    return table_of(heads, ("name",), rows[:most], notes=(more,))


def _tokens(inputs: int | None, outputs: int | None) -> str:
    if inputs is None and outputs is None:
        return "not recorded"
    counts = (f"{tokens:,}" if tokens is not None else "not recorded" for tokens in (inputs, outputs))
    return "{} in, {} out".format(*counts)


MOST_PROCESS_ROWS = 15
"""Rows in each table; the others are counted."""
PROCESS_NAME_CHARS = 40


def process_blocks(totals: ProcessTotals, *, traces: int) -> Iterator[Block]:
    """Yield the process that traces record.

    Args:
        totals: Result of ``process_totals``.
        traces: Number of traces.
    """
    if totals.seconds is not None:
        yield from _times(totals, traces)
    yield from _repeats(totals)
    yield from _handoffs(totals)
    if totals.unfinished:
        unfinished = {f"{kind} {name}": number for kind, name, number in totals.unfinished}
        yield Paragraph((f"unfinished: {_ranked_counts(unfinished)}",), "warn")


def _times(totals: ProcessTotals, traces: int) -> Iterator[Block]:
    whole = totals.seconds or 0.0
    parts = []
    if totals.concurrency is not None:
        parts.append(f"{totals.concurrency:.2f} spans at work on average, {totals.most:,} at most")
    if whole:
        parts.append(f"two or more {share((totals.overlapped or 0.0) / whole)} of the time")
        parts.append(f"none {share((totals.waiting or 0.0) / whole)}")
    at_work = [Paragraph(("; ".join(parts),))]
    yield Section(title=f"wall time {seconds(whole)}{_of(totals, traces)}", blocks=at_work)
    for title, shares in (("agent", totals.by_agent), ("tool", totals.by_tool)):
        if shares:
            heads = (title, "share", "time", "work", "critical", "spans")
            yield _first(heads, [_share(one) for one in shares], MOST_PROCESS_ROWS)
    if totals.slowest is not None:
        yield _path(totals.slowest, alone=traces == 1)


def _of(totals: ProcessTotals, traces: int) -> str:
    if traces == 1:
        return ""
    untimed = f" ({traces - totals.timed:,} without times)" if totals.timed < traces else ""
    elapsed = totals.elapsed
    # Concurrent traces take less time than the sum of their wall times.
    overall = "" if elapsed is None else f"; {seconds(elapsed)} from the first start to the last end"
    return f" of {counted(totals.timed, 'trace')}{untimed}, added up{overall}"


def _share(one: TimeShare) -> tuple[str, ...]:
    name = "nobody" if one.name is None else one_line(one.name, at_most=PROCESS_NAME_CHARS)
    return (
        name,
        known_share(one.share),
        seconds(one.seconds),
        seconds(one.work),
        seconds(one.critical),
        f"{one.spans:,}",
    )


def _path(slowest: SlowestTrace, *, alone: bool) -> Section:
    of = "" if alone else f" of the slowest trace, {one_line(slowest.trace_id) or f'#{slowest.trace + 1}'}"
    steps = slowest.critical_path
    longest = sorted(steps, key=lambda step: -step.seconds)[:MOST_PROCESS_ROWS]
    rows = [
        (
            _step(step),
            seconds(step.at),
            seconds(step.seconds),
            known_share(step.share),
        )
        for step in sorted(longest, key=lambda step: step.at)
    ]
    more = f"… and {len(steps) - len(rows):,} more" if len(steps) > len(rows) else ""
    blocks: list[Block] = [table_of(("step", "from", "own time", "share"), ("name",), rows, notes=(more,))]
    if sections := slowest.parallel_sections:
        longest_section = max(sections, key=lambda section: section.seconds)
        parallel = (
            f"{counted(len(sections), 'parallel section')}, the longest {seconds(longest_section.seconds)} "
            f"from {seconds(longest_section.at)} with up to {longest_section.most:,} spans at once"
        )
        blocks.append(Paragraph((parallel,)))
    title = f"critical path{of}: {seconds(slowest.seconds)}, {counted(len(steps), 'step')}"
    return Section(title=title, blocks=blocks)


def _step(step: PathStep) -> str:
    if step.span is None:
        return "no span at work"
    whose = f" of {one_line(step.agent, at_most=20)}" if step.agent and step.agent != step.name else ""
    return f"{step.kind} {one_line(step.name or '', at_most=30)}{whose}"


def _repeats(totals: ProcessTotals) -> Iterator[Paragraph]:
    repeated, looped = totals.repeated, totals.looped
    if repeated.retries:
        succeeded = f"{repeated.recovered:,} of {sum(repeated.retries.values()):,} succeeded"
        yield Paragraph((f"retries of failed calls: {_ranked_counts(repeated.retries)}; {succeeded}",))
    if repeated.repeats:
        yield Paragraph((f"calls repeated after a success: {_ranked_counts(repeated.repeats)}",))
    if looped.loops:
        calls = f"{looped.calls:,} of {counted(repeated.calls, 'tool call')} only repeat a loop"
        lines = [f"{counted(looped.loops, 'loop')}: {calls}"]
        for loop in looped.longest[:MOST_PROCESS_ROWS]:
            by = "" if loop.agent is None else f", by {one_line(loop.agent, at_most=NAME_CHARS)}"
            lines.append(f"  {arrow_chain(loop.tools)}, {loop.rounds:,} times{by}")
        yield Paragraph(tuple(lines), "warn")


def _handoffs(totals: ProcessTotals) -> Iterator[Paragraph]:
    handoffs = totals.hand_offs
    if not handoffs.messages:
        return
    chains = f"{counted(handoffs.messages, 'message')} in {counted(handoffs.chains, 'chain')}"
    yield Paragraph((f"hand-offs: {chains}; the longest: {arrow_chain(handoffs.longest)}",))
    games = []
    for game in handoffs.ping_pongs[:MOST_PROCESS_ROWS]:
        pair = " ⇄ ".join(one_line(name, at_most=NAME_CHARS) for name in game.agents)
        games.append(f"Ping-pong: {pair}, {game.messages:,} messages")
    games += [
        f"Loop of hand-offs: {arrow_chain(one.agents)}, {one.rounds:,} times"
        for one in handoffs.circuits[:MOST_PROCESS_ROWS]
    ]
    if games:
        yield Paragraph(tuple(games), "warn")


def _ranked_counts(counts: Mapping[str, int]) -> str:
    ranked = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    names_shown = [
        f"{one_line(name, at_most=PROCESS_NAME_CHARS)} {number:,}"
        for name, number in ranked[:MOST_PROCESS_ROWS]
    ]
    omitted = len(ranked) - len(names_shown)
    return ", ".join(names_shown) + (f" and {omitted:,} more" if omitted else "")


MOST_NAMED = 8
"""Names shown of a chain or a loop; the middle of longer ones is counted."""
NAME_CHARS = 30


def arrow_chain(names: Sequence[str]) -> str:
    """Names joined by arrows, without the middle of a long chain."""
    names_shown = [one_line(name, at_most=NAME_CHARS) for name in names[:MOST_NAMED]]
    if len(names) > MOST_NAMED:
        half = MOST_NAMED // 2
        ends = [one_line(name, at_most=NAME_CHARS) for name in names[-half:]]
        names_shown = [*names_shown[:half], f"({len(names) - MOST_NAMED:,} more)", *ends]
    return " → ".join(names_shown)
