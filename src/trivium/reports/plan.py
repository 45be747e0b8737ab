"""The plan of a comparison as blocks."""

from collections.abc import Iterator

from trivium.reports.document.blocks import Block, Column, Paragraph, Remarks, Title, table
from trivium.reports.wording import dollars, number, share
from trivium.runs.comparing.decision import can_prove
from trivium.runs.comparing.planning import PILOT_SHARE, ComparisonPlan, Design
from trivium.safe_text import one_line
from trivium.trust.sample_size import MOST_PLANNED
from trivium.values import counted


def describe(plan: ComparisonPlan) -> Iterator[Block]:
    """Yield the blocks of a plan."""
    yield Title(text=plan.suite, beside=f"{plan.metric}, to detect a difference of {plan.detect:g}")
    yield Paragraph(tuple(filter(None, (answer(plan), margin_sentence(plan)))))
    columns: list[Column[Design]] = [
        Column("repeats", lambda each: str(each.repeats)),
        Column("groups", lambda each: _count(each.groups) if plan.groups < plan.cases else "", optional=True),
        Column("cases", lambda each: _count(each.cases)),
        Column(f"{share(PILOT_SHARE)} range", _range, "interval"),
        Column("attempts a run", lambda each: _count(each.attempts)),
        Column("a run costs", lambda each: dollars(each.usd), optional=True),
        Column(f"{counted(plan.cases, 'case')} detect", lambda each: number(each.detects)),
    ]
    yield table(columns, plan.designs, label="Designs")
    yield Remarks(tuple(plan.warnings))
    yield Paragraph(tuple(provenance(plan)), "quiet")


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


def provenance(plan: ComparisonPlan) -> Iterator[str]:
    """Yield where the numbers come from, a line each."""
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
