"""Renders the plan of a comparison for the terminal."""

from collections.abc import Iterator

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from trivium.reports.escape import one_line
from trivium.reports.wording import counted, dollars, number, share
from trivium.runs.comparing.decision import can_prove
from trivium.runs.comparing.planning import PILOT_SHARE, ComparisonPlan, Design
from trivium.trust.sample_size import MOST_PLANNED


class PlanTable:
    """A Rich renderable of a plan: ``console.print(PlanTable(plan))``."""

    def __init__(self, plan: ComparisonPlan) -> None:
        self._plan = plan

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        plan = self._plan
        title = Text(one_line(plan.suite, at_most=300), style="bold")
        title.append(f"  {one_line(plan.metric)}, to detect a difference of {plan.detect:g}", style="dim")
        yield title
        yield Text(answer(plan))
        yield Text(margin_sentence(plan))
        for line in plan.warnings:
            yield Text(f"! {one_line(line, at_most=500)}", style="yellow")
        yield Text()
        yield self._designs()
        yield Text(f"\n{provenance(plan)}", style="dim")

    def _designs(self) -> Table:
        plan = self._plan
        table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
        grouped = plan.groups < plan.cases
        table.add_column("repeats", justify="right")
        if grouped:
            table.add_column("groups", justify="right")
        table.add_column("cases", justify="right")
        table.add_column(f"{share(PILOT_SHARE)} range", no_wrap=True)
        table.add_column("attempts a run", justify="right")
        if plan.usd_per_attempt is not None:
            table.add_column("a run costs", justify="right")
        table.add_column(f"{counted(plan.cases, 'case')} detect", justify="right")
        for design in plan.designs:
            row = [str(design.repeats)]
            row += [_count(design.groups)] * grouped
            row += [_count(design.cases), _range(design), _count(design.attempts)]
            row += [dollars(design.usd)] * (plan.usd_per_attempt is not None)
            table.add_row(*row, number(design.detects))
        return table


def answer(plan: ComparisonPlan) -> str:
    """The fewest cases that do, and what the present ones do, in a sentence."""
    first = plan.designs[0]
    repeats = counted(first.repeats, "repeat")
    if first.cases is None and not any(plan.components.shares().values()):
        return "The runs of the pilot do not differ, so that they say nothing of how many cases are needed."
    if first.cases is None:
        sentence = f"More than {MOST_PLANNED:,} groups would be needed with {repeats}."
    elif first.cases <= plan.cases:
        sentence = (
            f"The {counted(plan.cases, 'case')} with {repeats} each are enough: {first.cases:,} would be."
        )
    else:
        sentence = f"{first.cases:,} cases with {repeats} each are needed; there are {plan.cases:,}."
    enough = next(
        (one for one in plan.designs[1:] if one.detects is not None and one.detects <= plan.detect), None
    )
    if (first.cases is None or first.cases > plan.cases) and enough is not None:
        sentence += f" The present cases are enough with {enough.repeats} repeats each."
    return sentence


def margin_sentence(plan: ComparisonPlan) -> str:
    """Which margin the present cases show, and how many the suite's takes."""
    if plan.shows is None:
        return ""
    cases = f"{counted(plan.cases, 'case')} with {counted(plan.repeats, 'repeat')} each"
    return can_prove(cases, plan.shows, plan.margin, plan.shows_margin)


def provenance(plan: ComparisonPlan) -> str:
    """Where the numbers come from."""
    return "\n".join(_provenance(plan))


def _provenance(plan: ComparisonPlan) -> Iterator[str]:
    shares = plan.components.shares()
    known = {name: part for name, part in shares.items() if part or name == "cases"}
    if plan.components.between_repeats is None:
        known = {("cases and repeats" if name == "cases" else name): part for name, part in known.items()}
    if known:
        parts = ", ".join(f"{share(part)} between {name}" for name, part in known.items())
        yield f"variance of the difference: {parts}"
    else:
        yield "the pilot shows no difference between any values: the true variance may still exceed 0"
    yield (
        f"found with {share(plan.power)} probability at a level of {share(plan.level)}; "
        f"range: with {share(PILOT_SHARE)} probability, as the pilot only estimates the variance"
    )
    runs = " and ".join(one_line(each) for each in plan.pilot)
    groups = f" in {plan.groups:,} groups" if plan.groups < plan.cases else ""
    yield f"pilot: {runs}, {counted(plan.cases, 'case')}{groups}, {plan.components.values:,} values"


def _count(value: int | None) -> str:
    return "–" if value is None else f"{value:,}"


def _range(design: Design) -> str:
    if design.cases_range is None:
        return "–"
    least, most = design.cases_range
    return f"{least:,}–{most:,}"
