"""Renders a pairwise comparison for the terminal and as Markdown."""

from collections.abc import Iterator, Mapping

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from trivium.reports import wording
from trivium.reports.document.markdown import code, prose
from trivium.reports.escape import one_line
from trivium.reports.wording import attempt_name, interval, number, spent_sentence
from trivium.runs.pairwise_result import JudgedPair, PairComparison, PairFigure

LOSSES_SHOWN = 5
NAME_COLUMNS = 22


class PairTable:
    """A Rich renderable of a pairwise comparison: ``console.print(PairTable(comparison))``."""

    def __init__(self, comparison: PairComparison) -> None:
        self._comparison = comparison

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        comparison = self._comparison
        title = Text(one_line(comparison.suite, at_most=300), style="bold")
        title.append(f"  {one_line(comparison.head)} against {one_line(comparison.base)}", style="dim")
        yield title
        yield Text(headline(comparison))
        for line in comparison.notes:
            yield Text(f"! {one_line(line, at_most=500)}", style="yellow")
        yield Text()
        yield self._figures()
        yield from self._losses()
        yield Text(f"\n{left_out(comparison)}\n{note(comparison)}", style="dim")

    def _figures(self) -> RenderableType:
        table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
        longest = max(len(one_line(name, at_most=60)) for name in self._comparison.figures)
        table.add_column("dimension", overflow="fold", min_width=min(longest, NAME_COLUMNS))
        table.add_column("win rate", justify="right", no_wrap=True)
        table.add_column("interval", no_wrap=True)
        table.add_column("P(under ½)", justify="right", no_wrap=True)
        table.add_column("p", justify="right", no_wrap=True)
        table.add_column("+/−/=", justify="right", no_wrap=True)
        table.add_column("no verdict", justify="right", overflow="fold")
        table.add_column("bias", overflow="fold")
        for name, figure in self._comparison.figures.items():
            table.add_row(
                Text(one_line(name, at_most=60)),
                Text(number(figure.win_rate), style="bold"),
                interval(figure.ci95),
                below_half(figure),
                probability(figure.p),
                record(figure),
                f"{figure.unjudged:,}",
                Text(bias(figure), style="yellow" if figure.inconsistent else ""),
            )
        return table

    def _losses(self) -> Iterator[RenderableType]:
        name = main_dimension(self._comparison)
        lost = losses(self._comparison, name)
        if not lost:
            return
        listed = min(len(lost), LOSSES_SHOWN)
        yield Text(f"\nlost in {one_line(name)} ({listed:,} of {len(lost):,})", style="bold")
        grid = Table.grid(padding=(0, 2))
        grid.add_column(overflow="fold", max_width=32)
        grid.add_column(overflow="fold")
        for pair in lost[:LOSSES_SHOWN]:
            orders = pair.verdicts[name].orders
            why = orders[0].reason if orders else "the attempt failed"
            grid.add_row(
                Text(attempt_name(one_line(pair.case, at_most=60), pair.repeat)),
                Text(one_line(why, at_most=160), style="dim"),
            )
        yield Padding(grid, (0, 0, 0, 2))


PAIRS_SHOWN = 50


def render_markdown(comparison: PairComparison) -> str:
    """The comparison as GitHub-flavoured Markdown; untrusted text is escaped."""
    blocks = [
        f"### Trivium · {code(comparison.suite)}: {code(comparison.head)} against {code(comparison.base)}"
    ]
    if comparison.notes:
        blocks.append("\n".join(f"> ⚠️ {prose(line)}  " for line in comparison.notes))
    blocks.append(prose(f"{headline(comparison)}."))
    columns = "win rate | interval | P(under ½) | p | wins/losses/ties | no verdict | position bias"
    head = f"| dimension | {columns} |"
    rows = [_row(name, figure) for name, figure in comparison.figures.items()]
    blocks.append("\n".join([head, "|:--|--:|:--|--:|--:|--:|--:|:--|", *rows]))
    name = main_dimension(comparison)
    for title, pairs in (
        (f"lost in {name}", losses(comparison, name)),
        ("the two orders contradict each other", contradictions(comparison)),
    ):
        if pairs:
            blocks.append(_folded(title, pairs, name))
    blocks.append(f"<sub>{prose(left_out(comparison))}<br>{prose(note(comparison))}</sub>")
    return "\n\n".join(blocks) + "\n"


def _row(name: str, figure: PairFigure) -> str:
    cells = (
        code(name),
        f"**{number(figure.win_rate)}**",
        prose(interval(figure.ci95)),
        prose(below_half(figure)),
        prose(probability(figure.p)),
        record(figure),
        f"{figure.unjudged:,}",
        prose(bias(figure)),
    )
    return f"| {' | '.join(cells)} |"


def _folded(title: str, pairs: list[JudgedPair], name: str) -> str:
    rows = [
        f"- {code(attempt_name(pair.case, pair.repeat))} {_why(pair, name)}" for pair in pairs[:PAIRS_SHOWN]
    ]
    shown = f", first {PAIRS_SHOWN} shown" if len(pairs) > PAIRS_SHOWN else ""
    summary = f"<details><summary>{wording.counted(len(pairs), 'pair')}: {prose(title)}{shown}</summary>"
    return "\n".join([summary, "", *rows, "", "</details>"])


def _why(pair: JudgedPair, name: str) -> str:
    orders = pair.verdicts[name].orders
    return code(orders[0].reason) if orders else ""


MARKS = {"win": "+", "loss": "−", "tie": "=", None: "?"}


def headline(comparison: PairComparison) -> str:
    """Number of pairs, and the models that judged them."""
    models = ", ".join(one_line(model, at_most=80) for model in comparison.models)
    how = "a panel of " if comparison.panel else ""
    samples = f", {comparison.samples} samples each" if comparison.samples > 1 else ""
    pairs = wording.counted(len(comparison.pairs), "pair")
    return f"{pairs}, each in both orders, judged by {how}{models}{samples}"


def record(figure: PairFigure) -> str:
    """Wins, losses and ties."""
    return f"{figure.wins:,}/{figure.losses:,}/{figure.ties:,}"


def bias(figure: PairFigure) -> str:
    """How often one position won in both orders, and which one."""
    if figure.position_bias is None:
        return wording.NOTHING
    rate = wording.share(figure.position_bias)
    if figure.for_first or figure.for_second:
        rate += f" ({figure.for_first:,}/{figure.for_second:,})"
    return rate


def below_half(figure: PairFigure) -> str:
    """The probability that head wins less than half."""
    return wording.NOTHING if figure.probability is None else wording.share(figure.probability)


def probability(p: float | None) -> str:
    """A p-value."""
    if p is None:
        return wording.NOTHING
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def left_out(comparison: PairComparison) -> str:
    """Number of attempts left out, and the cost of the judges."""
    parts = [f"{wording.counted(comparison.left_out, 'attempt')} left out"] if comparison.left_out else []
    return " · ".join([*parts, spent_sentence(comparison.spent, named=False)])


def note(comparison: PairComparison) -> str:
    """How the numbers are defined."""
    groups = {name: figure.groups for name, figure in comparison.figures.items() if figure.groups}
    fewest = min(groups.values(), default=0)
    level = wording.intervals_label(comparison.level, fewest_groups=fewest)
    return (
        f"win rate of head: (wins + ties / 2) / pairs. Two orders that contradict each other make a tie. "
        f"{level} by {_groups(groups, main_dimension(comparison))}; p: sign test over groups. "
        f"Bias: share of pairs in which the same position won in both orders (first/second)."
    )


def _groups(groups: Mapping[str, int], main: str) -> str:
    """Number of groups of the main dimension, and of the dimensions with another number."""
    usual = groups.get(main, max(groups.values(), default=0))
    others = [f"{one_line(name)}: {count:,}" for name, count in groups.items() if count != usual]
    return wording.counted(usual, "group") + (f" ({', '.join(others)})" if others else "")


def contradictions(comparison: PairComparison) -> list[JudgedPair]:
    """Pairs whose two orders contradict each other in any dimension."""
    return [
        pair
        for pair in comparison.pairs
        if any(verdict.consistent is False for verdict in pair.verdicts.values())
    ]


def losses(comparison: PairComparison, dimension: str) -> list[JudgedPair]:
    """Pairs in which head loses in a dimension."""
    return [pair for pair in comparison.pairs if pair.verdicts[dimension].verdict == "loss"]


def main_dimension(comparison: PairComparison) -> str:
    """The dimension ``overall`` if there is one, otherwise the last."""
    return "overall" if "overall" in comparison.figures else list(comparison.figures)[-1]
