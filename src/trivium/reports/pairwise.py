"""Renders a pairwise comparison for the terminal and as Markdown."""

from collections.abc import Iterator, Mapping

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from trivium.reports import wording
from trivium.reports.escape import one_line
from trivium.reports.markdown import code, prose
from trivium.reports.wording import FEW_GROUPS, attempt_name, interval, number, spent_sentence
from trivium.runs.pairwise_result import JudgedPair, PairComparison, PairFigure

LOSSES_SHOWN = 5
NAME_COLUMNS = 22


class PairTable:
    """A Rich renderable of a comparison by pairs: ``console.print(PairTable(comparison))``."""

    def __init__(self, found: PairComparison) -> None:
        self._found = found

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        found = self._found
        title = Text(one_line(found.suite, at_most=300), style="bold")
        title.append(f"  {one_line(found.head)} against {one_line(found.base)}", style="dim")
        yield title
        yield Text(headline(found))
        for line in found.notes:
            yield Text(f"! {one_line(line, at_most=500)}", style="yellow")
        yield Text()
        yield self._figures()
        yield from self._losses()
        yield Text(f"\n{left_out(found)}\n{note(found)}", style="dim")

    def _figures(self) -> RenderableType:
        table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
        longest = max(len(one_line(name, at_most=60)) for name in self._found.figures)
        table.add_column("dimension", overflow="fold", min_width=min(longest, NAME_COLUMNS))
        table.add_column("win rate", justify="right", no_wrap=True)
        table.add_column("interval", no_wrap=True)
        table.add_column("p", justify="right", no_wrap=True)
        table.add_column("+/−/=", justify="right", no_wrap=True)
        table.add_column("none", justify="right", no_wrap=True)
        table.add_column("bias", overflow="fold")
        for name, figure in self._found.figures.items():
            table.add_row(
                Text(one_line(name, at_most=60)),
                Text(number(figure.win_rate), style="bold"),
                interval(figure.ci95),
                probability(figure.p),
                record(figure),
                f"{figure.unjudged:,}",
                Text(bias(figure), style="yellow" if figure.inconsistent else ""),
            )
        return table

    def _losses(self) -> Iterator[RenderableType]:
        name = main_dimension(self._found)
        lost = losses(self._found, name)
        if not lost:
            return
        yield Text(
            f"\nlost in {one_line(name)} ({min(len(lost), LOSSES_SHOWN):,} of {len(lost):,})", style="bold"
        )
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


def render_markdown(found: PairComparison) -> str:
    """The comparison as GitHub-flavoured Markdown; untrusted text is escaped."""
    blocks = [f"### Trivium · {code(found.suite)}: {code(found.head)} against {code(found.base)}"]
    if found.notes:
        blocks.append("\n".join(f"> ⚠️ {prose(line)}  " for line in found.notes))
    blocks.append(prose(f"{headline(found)}."))
    head = "| dimension | win rate | interval | p | wins/losses/ties | no verdict | position bias |"
    rows = [_row(name, figure) for name, figure in found.figures.items()]
    blocks.append("\n".join([head, "|:--|--:|:--|--:|--:|--:|:--|", *rows]))
    name = main_dimension(found)
    for title, pairs in (
        (f"lost in {name}", losses(found, name)),
        ("orders that contradict each other", contradictions(found)),
    ):
        if pairs:
            blocks.append(_folded(title, pairs, name))
    blocks.append(f"<sub>{prose(left_out(found))}<br>{prose(note(found))}</sub>")
    return "\n\n".join(blocks) + "\n"


def _row(name: str, figure: PairFigure) -> str:
    cells = (
        code(name),
        f"**{number(figure.win_rate)}**",
        prose(interval(figure.ci95)),
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
    shown = f", the first {PAIRS_SHOWN} are" if len(pairs) > PAIRS_SHOWN else ""
    summary = f"<details><summary>{len(pairs):,} pairs: {prose(title)}{shown}</summary>"
    return "\n".join([summary, "", *rows, "", "</details>"])


def _why(pair: JudgedPair, name: str) -> str:
    orders = pair.verdicts[name].orders
    return code(orders[0].reason) if orders else ""


MARKS = {"win": "+", "loss": "−", "tie": "=", None: "?"}


def headline(found: PairComparison) -> str:
    """How many pairs were judged, and by which models."""
    models = ", ".join(one_line(model, at_most=80) for model in found.models)
    how = "a panel of " if found.panel else ""
    samples = f", {found.samples} samples each" if found.samples > 1 else ""
    return (
        f"{wording.counted(len(found.pairs), 'pair')}, each in both orders, judged by {how}{models}{samples}"
    )


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


def probability(p: float | None) -> str:
    """A p-value."""
    if p is None:
        return wording.NOTHING
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def left_out(found: PairComparison) -> str:
    """How many attempts are left out, and what the judges cost."""
    parts = [f"{wording.counted(found.left_out, 'attempt')} left out"] if found.left_out else []
    return " · ".join([*parts, spent_sentence(found.spent)])


def note(found: PairComparison) -> str:
    """What the figures mean."""
    groups = {name: figure.groups for name, figure in found.figures.items() if figure.groups}
    fewest = min(groups.values(), default=0)
    level = f"{wording.share(found.level)} intervals"
    if fewest < FEW_GROUPS:
        level = f"Nominal {wording.share(found.level)} intervals"
    return (
        f"win rate: (wins + ties / 2) / pairs, of head. Orders that contradict each other make a tie. "
        f"{level} by {_groups(groups, main_dimension(found))}; p: sign test over groups. "
        f"Bias: the share of pairs in which one place won in both orders (the first/the second)."
    )


def _groups(groups: Mapping[str, int], main: str) -> str:
    """The number of groups that most figures rest on, and those that rest on another."""
    usual = groups.get(main, max(groups.values(), default=0))
    others = [f"{one_line(name)}: {count:,}" for name, count in groups.items() if count != usual]
    return wording.counted(usual, "group") + (f" ({', '.join(others)})" if others else "")


def contradictions(found: PairComparison) -> list[JudgedPair]:
    """Pairs whose two orders contradict each other in any dimension."""
    return [
        pair for pair in found.pairs if any(verdict.consistent is False for verdict in pair.verdicts.values())
    ]


def losses(found: PairComparison, dimension: str) -> list[JudgedPair]:
    """Pairs that head loses in a dimension."""
    return [pair for pair in found.pairs if pair.verdicts[dimension].verdict == "loss"]


def main_dimension(found: PairComparison) -> str:
    """The dimension ``overall`` if there is one, else the last."""
    return "overall" if "overall" in found.figures else list(found.figures)[-1]
