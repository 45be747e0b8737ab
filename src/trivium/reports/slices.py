"""Tables of slices: figures of a run, or differences of two runs, by the values of a key."""

from collections.abc import Callable, Iterable
from itertools import islice

from trivium.reports import wording
from trivium.reports.document.blocks import Cell, Column, Row, Section, Surface, Toned, table
from trivium.runs.comparing.comparison import ComparedSlice, Comparison, MetricDelta
from trivium.runs.slices import Slice, Slices
from trivium.safe_text import one_line

ROWS_SHOWN = 20
"""Slices in a terminal, in a comment and in a notebook; a page has all."""
VALUE_CHARS = 40


def run_slices(slices: Slices, surface: Surface, *, place: int = 1) -> Section:
    """The section of a run's slices: pass rate with its interval, composite, and which slices differ.

    Args:
        slices: The slices, the worst first.
        surface: Where it is shown.
        place: Which of the report's sections of slices it is.
    """
    columns: list[Column[Slice]] = [
        Column("value", lambda one: one_line(one.value, at_most=VALUE_CHARS), "name"),
        Column("cases", lambda one: f"{one.cases:,}"),
        Column("pass rate", lambda one: wording.number(one.pass_rate.mean)),
        Column("interval", lambda one: wording.interval(one.pass_rate.ci95), "interval"),
        Column("composite", lambda one: wording.number(one.composite.mean)),
        Column("than the others", lambda one: _against_rest(one, slices.level), "text"),
    ]
    if not slices.composite_shown or all(one.composite.mean is None for one in slices.slices):
        columns = [column for column in columns if column.head != "composite"]
    title = f"by {slices.by}, worst first"
    return _section(title, columns, slices.slices, slices.warnings, surface, place)


def compared_slices(comparison: Comparison, by: str, surface: Surface, *, place: int = 1) -> Section:
    """The section of a comparison's slices: the difference of a deciding metric, and which slices changed.

    Args:
        comparison: The comparison.
        by: The key.
        surface: Where it is shown.
        place: Which of the report's sections of slices it is.
    """
    name, slices = comparison.slices_of, comparison.slices[by]

    def known(of: Callable[[MetricDelta], str]) -> Callable[[ComparedSlice], str]:
        return lambda one: of(one.metrics[name]) if name in one.metrics else wording.NOTHING

    columns: list[Column[ComparedSlice]] = [
        Column("value", lambda one: one_line(one.value, at_most=VALUE_CHARS), "name"),
        Column("cases", lambda one: f"{one.cases:,}"),
        Column("base", known(lambda delta: wording.number(delta.base))),
        Column("head", known(lambda delta: wording.number(delta.head))),
        Column("delta", known(lambda delta: wording.signed(delta.delta))),
        Column("interval", known(lambda delta: wording.signed_interval(delta.ci95)), "interval"),
        Column("P(loss)", known(lambda delta: wording.known_share(delta.probability))),
        Column("change", lambda one: _changed(one.change(name, level=comparison.level)), "text"),
    ]
    alpha = f"{1 - comparison.level:.2g}"
    notes = (
        f"worse and better: p below {alpha} after Holm's adjustment for {len(slices)} slices",
        f"P(loss): probability of a loss of more than {comparison.margin:g}",
    )
    return _section(
        f"{wording.words(name)} by {by}, largest loss first", columns, slices, notes, surface, place
    )


def _section(
    title: str,
    columns: Iterable[Column[Row]],
    slices: tuple[Row, ...],
    notes: Iterable[str],
    surface: Surface,
    place: int,
) -> Section:
    most = len(slices) if surface == "page" else ROWS_SHOWN
    hidden = len(slices) - most
    more = f"and {hidden:,} more slices" if hidden > 0 else ""
    shown = table(columns, islice(slices, most), label=title, notes=(more, *notes))
    return Section(title=title, blocks=(shown,), key=f"slices-{place}")


def _changed(change: str | None) -> Cell:
    return Toned(change, "bad" if change == "worse" else "good") if change else ""


def _against_rest(one: Slice, level: float) -> Cell:
    tested = one.versus_rest
    if tested is None or tested.p_holm is None:
        return ""
    if tested.p_holm > 1 - level:
        return wording.NOTHING
    by = f"by {abs(tested.difference):.3f}"
    return Toned(f"lower {by}", "bad") if tested.difference < 0 else Toned(f"higher {by}", "good")
