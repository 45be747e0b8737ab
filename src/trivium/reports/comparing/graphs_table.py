"""What changed in what two runs did, for the terminal: tables that fit 80 columns."""

from rich.console import RenderResult
from rich.table import Table
from rich.text import Text

from trivium.reports.comparing import graph_words, phrases
from trivium.reports.untrusted import one_line
from trivium.reports.wording import number, seconds
from trivium.runs.comparing.graphs.change import EdgeChange, GraphComparison, PaceChange

ROWS_SHOWN = 15


def graphs_section(graphs: GraphComparison) -> RenderResult:
    """The section of a comparison; yields what Rich renders."""
    yield Text("\nwhat they did", style="bold")
    yield Text(f"{graph_words.met(graphs)}\n{graph_words.found(graphs)}")
    if graphs.edges:
        yield Text("")
        yield _edges(graphs.edges[:ROWS_SHOWN])
    if graphs.paces:
        yield Text("")
        yield _paces(graphs.paces[:ROWS_SHOWN])
    if left := graph_words.left_out(graphs, ROWS_SHOWN):
        yield Text(left)
    yield Text(graph_words.note(graphs), style="dim")


def _edges(changes: tuple[EdgeChange, ...]) -> Table:
    table = _plain("edge", "base", "head", "delta", "interval", "p (Holm)")
    for one in changes:
        table.add_row(
            _word(one),
            Text(graph_words.edge(one)),
            number(one.base),
            number(one.head),
            phrases.signed(one.delta),
            Text(phrases.ends(one.ci95)),
            phrases.probability(one.p_holm),
        )
    return table


def _paces(changes: tuple[PaceChange, ...]) -> Table:
    table = _plain("median time", "base", "head", "factor", "interval", "p (Holm)")
    for one in changes:
        table.add_row(
            _word(one),
            Text(f"{one.kind} {one_line(one.name, at_most=graph_words.NAME_CHARS)}"),
            seconds(one.base),
            seconds(one.head),
            graph_words.factor(one.factor),
            Text(graph_words.factors(one.ci95)),
            phrases.probability(one.p_holm),
        )
    return table


def _word(change: EdgeChange | PaceChange) -> Text:
    return Text(graph_words.became(change), style="bold" if change.sure else "dim")


def _plain(what: str, *others: str) -> Table:
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("", no_wrap=True)
    table.add_column(what, overflow="fold", min_width=12)
    for name in others:
        table.add_column(name, justify="left" if name == "interval" else "right", no_wrap=True)
    return table
